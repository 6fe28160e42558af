"""The losses that objectives share. Logits are computed where something is to be predicted only: with a morpheme
vocabulary the output layer would else dominate the step. Sums are divided by the counts of the whole step, of which a
batch may be a part."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.batch import IGNORE_INDEX

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.training.attention import SequenceLayout

Values = dict[str, "torch.Tensor"]


def token_and_pair_loss(
    architecture: Architecture,
    model: Any,
    batch: dict[str, "torch.Tensor"],
    packing: "SequenceLayout",
    pairs: str | None,
) -> tuple["torch.Tensor", Values]:
    """Mean cross-entropy over masked tokens, plus that over pairs where `pairs` names what they are asked (nsp,
    sop)."""
    hidden = architecture.hidden(model, batch, packing)
    loss, _, values = token_loss(architecture, model, hidden, batch, "mlm")
    if pairs is None:
        return loss, values
    more, of_pairs = pair_loss(architecture, model, hidden, batch, pairs)
    return loss + more, values | of_pairs


def token_loss(
    architecture: Architecture,
    model: Any,
    hidden: "torch.Tensor",
    batch: dict[str, "torch.Tensor"],
    name: str,
    sample: Callable[["torch.Tensor"], "torch.Tensor"] | None = None,
) -> tuple["torch.Tensor", "torch.Tensor | None", Values]:
    """Mean cross-entropy over the K tokens to predict, what `sample` makes of their logits ((K, V) -> (K,), without
    gradient), and `NAME_loss`, `NAME_accuracy` to log. At most `architecture.logits_chunk_size` logits are in memory at
    once."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.utils.checkpoint import checkpoint

    def of_rows(
        rows: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        logits = architecture.token_logits(model, rows)  # (K, H) -> (K, V)
        loss = cross_entropy(logits.float(), labels, reduction="sum", ignore_index=IGNORE_INDEX)
        with torch.no_grad():  # finding the largest of V logits costs as much as a layer
            right = None if model.training else (logits.argmax(-1) == labels).sum()
            return loss, right, sample(logits) if sample else None

    rows = hidden.index_select(0, batch["masked_positions"])  # (T, H) -> (K, H)
    size = architecture.logits_chunk_size or max(len(rows), 1)
    chunks = list(zip(rows.split(size), batch["labels"].split(size), strict=True))
    if len(chunks) > 1 and model.training:  # the logits of a chunk are made again on the way back
        found = [checkpoint(of_rows, *chunk, use_reentrant=False) for chunk in chunks]
    else:
        found = [of_rows(*chunk) for chunk in chunks]
    # a batch of one short review may have nothing to predict
    loss = torch.stack([one for one, _, _ in found]).sum() / batch["step_labels"].clamp(min=1)
    values = {f"{name}_loss": loss.detach()}
    if not model.training:
        values[f"{name}_accuracy"] = torch.stack([right for _, right, _ in found]).sum() / batch["step_labels"].clamp(
            min=1
        )
    return loss, torch.cat([sampled for _, _, sampled in found]) if sample else None, values


def pair_loss(
    architecture: Architecture, model: Any, hidden: "torch.Tensor", batch: dict[str, "torch.Tensor"], name: str
) -> tuple["torch.Tensor", Values]:
    """Mean cross-entropy over the pairs of the batch, 0 where it has none, and `NAME_loss`, `NAME_accuracy` to log (not
    a number where there is no pair)."""
    from torch.nn.functional import cross_entropy

    labels, pairs = batch["next_sentence_label"], batch["step_pairs"]
    logits = architecture.pair_logits(
        model, hidden.index_select(0, batch["starts"])
    )  # (n, H): the [CLS] of every sequence -> (n, 2)
    total = cross_entropy(logits.float(), labels, reduction="sum", ignore_index=IGNORE_INDEX)
    right = (logits.argmax(-1) == labels).sum()
    return total / pairs.clamp(min=1), {f"{name}_loss": total.detach() / pairs, f"{name}_accuracy": right / pairs}
