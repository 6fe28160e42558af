"""The cross-entropy of a large output layer, computed together with its gradient (as in Liger Kernel, Hsu et al. 2024).

The plain way holds five matrices of K rows (predicted tokens) and V columns (vocabulary) until the backward pass:
logits, their copy in fp32, log-probabilities, and the gradients of the last two. Here logits are turned into their own
gradient and multiplied with the layer at once, some rows at a time, so that only a part of any matrix with K x V
numbers exists at a time, and nothing is computed twice. On a CPU reading and writing those matrices would take longer
than the products; on a GPU they would be most of the memory.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from kobert_pipeline.pretrain.residual_stream import autocast_dtype
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

CACHED_LOGITS = 2**20
"""Logits that a CPU turns into their gradient at once: 4 MiB in fp32, which the caches of a core hold."""

Sample = Callable[[torch.Tensor], torch.Tensor]
"""Draws a token from each row of logits, (K, V) -> (K,)."""


class LogitsGradient(torch.nn.Module):
    """`forward` is the summed cross-entropy, (), of `logits`, (K, V), which become its gradient for them; the gradient
    for the bias is added to `of_bias`, (V,). A module without weights, so that it is compiled like the other
    modules."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor, of_bias: torch.Tensor | None) -> torch.Tensor:
        """The summed cross-entropy of the rows with their `labels`, (K,)."""
        if torch.compiler.is_compiling():
            return _fusible_gradient(logits, labels, of_bias)
        loss = logits.new_zeros((), dtype=torch.float32)
        # on a GPU all rows at once: what a core's caches hold does not matter there
        size = max(1, CACHED_LOGITS // logits.shape[1] if logits.device.type == "cpu" else len(logits))
        for chunk, targets in zip(logits.split(size), labels.split(size), strict=True):
            loss -= _turn_into_gradient(chunk, targets, of_bias)
        return loss


def linear_cross_entropy(
    states: torch.Tensor,
    layer: torch.nn.Linear,
    labels: torch.Tensor,
    rows_at_once: int,
    sample: Sample | None = None,
    logits_gradient: torch.nn.Module | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The sum of the cross-entropies of `layer(states)`, (K, H) -> (K, V), with `labels`, (K,), and what `sample` gives
    for the logits, (K,).

    Rows with the label IGNORE_INDEX count nothing. Logits of `rows_at_once` rows exist at a time. Equals the plain
    computation up to rounding, under autocast too. For training: the gradient is computed whether it is needed or not.
    `logits_gradient`: a `LogitsGradient`, perhaps a compiled one.
    """
    # not PyTorch 2.13's or Liger's function: their chunks are far too small with a large vocabulary
    # where the whole model is compiled, None: what is fusible then becomes part of its graph
    gradient = None if torch.compiler.is_compiling() else logits_gradient or LogitsGradient()
    loss, sampled = _LinearCrossEntropy.apply(states, layer.weight, layer.bias, labels, rows_at_once, sample, gradient)
    return loss, sampled if sample else None


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        labels: torch.Tensor,
        rows_at_once: int,
        sample: Sample | None,
        logits_gradient: torch.nn.Module | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        dtype = autocast_dtype(states)
        rows, matrix = states.to(dtype), weight.to(dtype)
        offset = None if bias is None else bias.to(dtype)
        # an empty tensor first, since `torch.cat` needs one where nothing is sampled
        loss, sampled = states.new_zeros((), dtype=torch.float32), [labels.new_empty(0)]
        of_states: list[torch.Tensor] = []
        of_weight, of_bias = torch.zeros_like(weight), None if bias is None else torch.zeros_like(bias)
        turn_into_gradient = logits_gradient or _fusible_gradient
        # Two things that torch.compile of PyTorch 2.11 requires: no use of `len(rows)`, which it cannot trace where it
        # is not a constant, and a returned loss that was not changed in place, or it gives no gradient
        for chunk, targets in zip(rows.split(rows_at_once), labels.split(rows_at_once), strict=True):
            logits = torch.nn.functional.linear(chunk, matrix, offset)
            if sample:
                sampled.append(sample(logits))
            loss = loss + turn_into_gradient(logits, targets, of_bias)
            # from here on `logits` holds the gradient of the loss for them
            of_states.append(logits @ matrix)
            of_weight += logits.t() @ chunk  # in full precision from chunk to chunk
        samples = torch.cat(sampled)
        ctx.save_for_backward(torch.cat(of_states), of_weight, of_bias)
        ctx.mark_non_differentiable(samples)
        return loss, samples

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_states, of_weight, of_bias = ctx.saved_tensors
        # scaled here, in full precision: in bf16 the factor itself would be rounded
        of_bias = None if of_bias is None else of_bias * outer
        return of_states.float() * outer, of_weight * outer, of_bias, None, None, None, None


def _turn_into_gradient(logits: torch.Tensor, labels: torch.Tensor, of_bias: torch.Tensor | None) -> torch.Tensor:
    """The sum of the labels' log-probabilities; `logits` and `of_bias` as in `LogitsGradient`."""
    log_probabilities = logits.log_softmax(-1, dtype=torch.float32)
    counted = (labels != IGNORE_INDEX)[:, None]
    # IGNORE_INDEX is negative and no index; `counted` makes what is read in its place count nothing
    positions = labels.clamp(min=0)[:, None]
    total = (log_probabilities.gather(1, positions) * counted).sum()
    # the gradient of a row's loss: its probabilities, less one at the label
    # in place, as `memory.LOGIT_BYTES` counts; `total` has read the log-probabilities before
    gradient = log_probabilities.exp_()
    gradient.scatter_(1, positions, gradient.gather(1, positions) - 1)
    gradient *= counted
    if of_bias is not None:
        of_bias += gradient.sum(0)
    logits.copy_(gradient)
    return total


def _fusible_gradient(logits: torch.Tensor, labels: torch.Tensor, of_bias: torch.Tensor | None) -> torch.Tensor:
    """What `LogitsGradient` gives, without writing to single columns, so that a compiler makes it two passes over the
    logits."""
    log_probabilities = logits.log_softmax(-1, dtype=torch.float32)
    counted = (labels != IGNORE_INDEX)[:, None]
    total = (log_probabilities.gather(1, labels.clamp(min=0)[:, None]) * counted).sum()
    at_label = torch.arange(logits.shape[1], device=logits.device) == labels[:, None]
    gradient = (log_probabilities.exp() - at_label.float()) * counted
    if of_bias is not None:
        of_bias += gradient.sum(0)
    logits.copy_(gradient)
    return -total
