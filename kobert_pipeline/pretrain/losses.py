"""The losses that objectives share. Sums are divided by the denominators of the whole step, since a batch may be only a
part of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch

Values = dict[str, "torch.Tensor"]

CHUNK_LOGITS = 2**29
"""Logits in memory at once: 5 GiB with a copy in fp32 and log-probabilities, whatever the vocabulary and the batch. A
chunk is still large enough to keep a GPU busy: 8,192 rows with a vocabulary of 65,536."""


def token_loss(
    architecture: Architecture,
    model: Any,
    hidden: "torch.Tensor",
    batch: "TensorBatch",
    name: str,
    sample: Callable[["torch.Tensor"], "torch.Tensor"] | None = None,
) -> tuple["torch.Tensor", "torch.Tensor | None", Values]:
    """Mean cross-entropy over the K tokens to predict; also returns the result of `sample` on their logits ((K, V) ->
    (K,), without gradient), and `NAME_loss` and, in evaluation, `NAME_accuracy` to log. At most `chunk_rows` rows of
    logits are in memory at once."""
    from kobert_pipeline.pretrain.linear_cross_entropy import linear_cross_entropy

    # logits are computed only where something is predicted: with a large vocabulary the output layer would otherwise
    # dominate the step
    rows = hidden.index_select(0, batch.masked_positions)  # (T, H) -> (K, H)
    denominator = batch.step_labels.clamp(min=1)  # a batch of one short review may have nothing to predict
    size, correct = chunk_rows(len(architecture.output_layer(model).weight)), None
    # evaluation needs the logits, for accuracies, and no gradient
    if model.training:
        states = architecture.token_states(model, rows)
        loss, sampled = linear_cross_entropy(
            states, architecture.output_layer(model), batch.labels, size, sample, model.logits_gradient
        )
    else:
        loss, correct, sampled = _evaluate(architecture, model, rows, batch.labels, size, sample)
    loss = loss / denominator
    values = {f"{name}_loss": loss.detach()}
    if correct is not None:
        values[f"{name}_accuracy"] = correct / denominator
    return loss, sampled, values


def _evaluate(
    architecture: Architecture,
    model: Any,
    rows: "torch.Tensor",
    labels: "torch.Tensor",
    size: int,
    sample: Callable[["torch.Tensor"], "torch.Tensor"] | None,
) -> tuple["torch.Tensor", "torch.Tensor", "torch.Tensor | None"]:
    """The summed cross-entropy of `rows` (K, H) with `labels` (K,), computed for `size` rows at a time; the number of
    right predictions; and the result of `sample`."""
    import torch
    from torch.nn.functional import cross_entropy

    losses, correct, samples = [], [], []
    for chunk, targets in zip(rows.split(size), labels.split(size), strict=True):
        logits = architecture.token_logits(model, chunk)  # (K, H) -> (K, V)
        losses.append(cross_entropy(logits.float(), targets, reduction="sum", ignore_index=IGNORE_INDEX))
        correct.append((logits.argmax(-1) == targets).sum())
        samples += [sample(logits.detach())] if sample else []
    return torch.stack(losses).sum(), torch.stack(correct).sum(), torch.cat(samples) if sample else None


def chunk_rows(vocab_size: int) -> int:
    """The number of predicted tokens whose logits are in memory at once."""
    return max(1, CHUNK_LOGITS // vocab_size)


def pair_loss(
    architecture: Architecture, model: Any, hidden: "torch.Tensor", batch: "TensorBatch", name: str
) -> tuple["torch.Tensor", Values]:
    """Mean cross-entropy over the sequence pairs of the batch, 0 where it has none, with `NAME_loss` and
    `NAME_accuracy` to log (NaN where there is no pair); `name` is that of their task (nsp, sop)."""
    from torch.nn.functional import cross_entropy

    labels, pairs = batch.next_sentence_label, batch.step_pairs
    cls_states = hidden.index_select(0, batch.starts)  # (T, H) -> (n, H)
    logits = architecture.pair_logits(model, cls_states)  # (n, H) -> (n, 2)
    total = cross_entropy(logits.float(), labels, reduction="sum", ignore_index=IGNORE_INDEX)
    correct = (logits.argmax(-1) == labels).sum()
    return total / pairs.clamp(min=1), {f"{name}_loss": total.detach() / pairs, f"{name}_accuracy": correct / pairs}
