"""Muon (Jordan et al. 2024) with all matrices of one shape in one stack, which ranks share out: a small model has
dozens of small matrices, and orthogonalizing them one by one, on every rank, costs a tenth of a step."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        in_bf16 = has_fast_bf16()  # asked once, and not for each of dozens of matrices
        for group in self.param_groups:
            stacks: dict[tuple[int, int], list[torch.nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    # a tall matrix joins the wide ones transposed, and its update is transposed back
                    stacks[min(parameter.shape), max(parameter.shape)].append(parameter)
            for (_, longer), parameters in stacks.items():
                updates = orthogonalized_by_all_ranks(
                    [self._momentum(one, group, in_bf16) for one in parameters], group
                )
                rate = group["lr"] * 0.2 * math.sqrt(longer)  # "match_rms_adamw", Liu et al. 2025
                for parameter, update in zip(parameters, updates, strict=True):
                    with self._changing(parameter) as weights:
                        # decay by the plain learning rate, not by the scaled one, as in `torch.optim.Muon`
                        weights.mul_(1 - group["lr"] * group["weight_decay"])
                        weights.add_(update.T if is_tall(parameter) else update, alpha=-rate)

    @contextmanager
    def _changing(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """What to change instead of `tensor`: itself or, with `found_inf`, a copy that replaces it unless that is 1."""
        if self.found_inf is None:
            yield tensor
        else:
            changed = tensor.clone()
            yield changed
            tensor.copy_(torch.where(self.found_inf > 0, tensor, changed))

    def _momentum(self, parameter: torch.nn.Parameter, group: dict[str, Any], in_bf16: bool) -> torch.Tensor:
        """The gradient with Nesterov momentum, transposed if it has more rows than columns."""
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        with self._changing(state["momentum_buffer"]) as moment:
            moment.lerp_(gradient, 1 - group["momentum"])
        update = gradient.lerp(state["momentum_buffer"], group["momentum"])
        update = update.bfloat16() if in_bf16 else update
        return update.T if is_tall(parameter) else update


def orthogonalized_by_all_ranks(matrices: list[torch.Tensor], group: dict[str, Any]) -> torch.Tensor:
    """`orthogonalized` for a list of n matrices (R, C), the same on every rank, (n, R, C): each rank computes its share
    of them and gets the others, so that all take the same step bit for bit."""
    if not torch.distributed.is_initialized() or (ranks := torch.distributed.get_world_size()) == 1:
        return orthogonalized(torch.stack(matrices), group)
    # every rank computes as many, because a collective exchanges tensors of one size; those at the end repeat the last
    share = -(-len(matrices) // ranks)
    first = torch.distributed.get_rank() * share
    own = [matrices[min(number, len(matrices) - 1)] for number in range(first, first + share)]
    computed = orthogonalized(torch.stack(own), group)
    gathered = computed.new_empty(ranks * share, *computed.shape[1:])
    torch.distributed.all_gather_into_tensor(gathered, computed.contiguous())
    return gathered[: len(matrices)]


def is_tall(matrix: torch.Tensor) -> bool:
    """Whether it has more rows than columns."""
    return matrix.shape[0] > matrix.shape[1]


def orthogonalized(stack: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    """Matrices (n, R, C), R <= C, with their singular values moved close to 1 by Newton-Schulz iterations."""
    a, b, c = group["ns_coefficients"]
    # the iteration converges for singular values up to 1, and the Frobenius norm is at least the largest of them
    stack = stack / stack.norm(dim=(1, 2), keepdim=True).clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        # the smaller of the two Gram matrices, since R <= C
        gram = stack @ stack.mT  # (n, R, R)
        stack = torch.baddbmm(stack, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), stack, beta=a)
    return stack
