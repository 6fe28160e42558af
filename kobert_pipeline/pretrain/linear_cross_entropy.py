"""The cross-entropy of a large output layer on a CPU, computed together with its gradient.

The plain way holds five matrices of K rows (predicted tokens) and V columns (vocabulary): logits, their copy in fp32,
log-probabilities, and the gradients of the last two. With V in the ten thousands none of them fits into the cache, so
reading and writing them takes longer than the matrix products. Here the logits are turned into their own gradient, a
few rows at a time, and one matrix remains (Liger Kernel, Hsu et al. 2024, does the same on GPUs).
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

CHUNK_NUMBERS = 2**20
"""Logits that are worked on at once: 4 MiB in fp32, which the caches of a core hold."""


def linear_cross_entropy(states: torch.Tensor, layer: torch.nn.Linear, labels: torch.Tensor) -> torch.Tensor:
    """The sum of the cross-entropies of `layer(states)`, (K, H) -> (K, V), with `labels`, (K,); rows with the label
    IGNORE_INDEX count nothing. Equals the plain computation up to rounding, under autocast too."""
    loss: torch.Tensor = _LinearCrossEntropy.apply(states, layer.weight, layer.bias, labels)
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor
    ) -> torch.Tensor:
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else states.dtype
        rows, matrix = states.to(dtype), weight.to(dtype)
        logits = torch.nn.functional.linear(rows, matrix, None if bias is None else bias.to(dtype))
        loss = torch.zeros((), dtype=torch.float32)
        bias_gradient = None if bias is None else torch.zeros_like(bias)
        size = max(1, CHUNK_NUMBERS // len(weight))
        for chunk, targets in zip(logits.split(size), labels.split(size), strict=True):
            log_probabilities = chunk.float().log_softmax(-1)
            counted = (targets != IGNORE_INDEX)[:, None]
            places = targets.clamp(min=0)[:, None]
            loss -= (log_probabilities.gather(1, places) * counted).sum()
            # the gradient of a row's loss: its probabilities, less one at the label
            gradient = log_probabilities.exp_()
            gradient.scatter_(1, places, gradient.gather(1, places) - 1)
            gradient *= counted
            if bias_gradient is not None:
                bias_gradient += gradient.sum(0)
            chunk.copy_(gradient)
        ctx.save_for_backward(logits, rows, matrix, bias_gradient)
        ctx.dtypes = states.dtype, weight.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradient, rows, matrix, bias_gradient = ctx.saved_tensors
        states_dtype, weight_dtype = ctx.dtypes
        # scaled after the products, in full precision: in bf16 the factor itself would be rounded
        of_states = (gradient @ matrix).to(states_dtype) * outer
        of_weight = (gradient.t() @ rows).to(weight_dtype) * outer
        return of_states, of_weight, None if bias_gradient is None else bias_gradient * outer, None
