"""Muon (Jordan et al. 2024) with all matrices of one shape in one stack, which ranks share out: one by one, on every
rank, dozens of small matrices make several threads or a GPU wait, the latter for hundreds of kernels
(docs/results/engine)."""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from kobert_pipeline.training.device import has_fast_bf16


class StackedMuon(torch.optim.Muon):
    """`torch.optim.Muon`, equal to it up to the rounding of bf16. Always with Nesterov momentum, and with its updates
    scaled to the RMS of AdamW's."""

    found_inf: torch.Tensor | None = None
    """Where this is 1 a step changes nothing, as with fused AdamW; only the device reads it."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step. `closure` is not called."""
        in_bf16 = has_fast_bf16()  # asked once, and not for each stack
        for group in self.param_groups:
            stacks: dict[torch.Size, list[torch.Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    stacks[parameter.shape].append(parameter)
            for parameters in stacks.values():
                self._change(parameters, group, in_bf16)

    def _change(self, parameters: list[torch.Tensor], group: dict[str, Any], in_bf16: bool) -> None:
        """Take a step with matrices of one shape."""
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        moments = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        gradients = torch.stack([parameter.grad for parameter in parameters])  # type: ignore[misc]
        # by the plain learning rate, not by the scaled one below, as in `torch.optim.Muon`
        decay: float | torch.Tensor = 1 - group["lr"] * group["weight_decay"]
        skipped = None if self.found_inf is None else self.found_inf > 0
        if skipped is not None:
            decay = torch.where(skipped, 1.0, decay)
            # not 0, which would change the moments: between a number and itself there is only that number
            gradients = torch.where(skipped, torch.stack(moments), gradients)
        torch._foreach_lerp_(moments, gradients.unbind(), 1 - group["momentum"])
        torch._foreach_lerp_(gradients.unbind(), moments, group["momentum"])  # Nesterov's
        updates = orthogonalized_by_all_ranks(gradients.bfloat16() if in_bf16 else gradients, group)
        if skipped is not None:
            updates = updates.masked_fill(skipped, 0)
        rate = group["lr"] * 0.2 * math.sqrt(max(parameters[0].shape))  # "match_rms_adamw", Liu et al. 2025
        torch._foreach_mul_(parameters, decay)
        # of the weights' type and layout, or every matrix would have a kernel of its own
        updates = updates.to(parameters[0].dtype, memory_format=torch.contiguous_format)
        torch._foreach_add_(parameters, updates.unbind(), alpha=-rate)


def orthogonalized_by_all_ranks(stack: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    """`orthogonalized` for n matrices (n, R, C), the same on every rank: each rank computes its share of them and gets
    the others, so that all take the same step bit for bit."""
    if not torch.distributed.is_initialized() or (ranks := torch.distributed.get_world_size()) == 1:
        return orthogonalized(stack, group)
    # every rank computes as many, because a collective exchanges tensors of one size; those at the end repeat the last
    share = -(-len(stack) // ranks)
    first = torch.distributed.get_rank() * share
    computed = orthogonalized(stack[[min(index, len(stack) - 1) for index in range(first, first + share)]], group)
    gathered = computed.new_empty(ranks * share, *computed.shape[1:])
    torch.distributed.all_gather_into_tensor(gathered, computed.contiguous())
    return gathered[: len(stack)]


def orthogonalized(stack: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    """Matrices (n, R, C) with their singular values moved close to 1 by Newton-Schulz iterations."""
    if stack.shape[1] > stack.shape[2]:  # the smaller of the two Gram matrices
        return orthogonalized(stack.mT, group).mT
    a, b, c = group["ns_coefficients"]
    # the iteration converges for singular values up to 1, and the Frobenius norm is at least the largest of them
    stack = stack / stack.norm(dim=(1, 2), keepdim=True).clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = stack @ stack.mT  # (n, R, R)
        stack = torch.baddbmm(stack, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), stack, beta=a)
    return stack
