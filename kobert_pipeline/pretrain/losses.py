"""The losses that objectives share. Logits are computed where something is to be predicted only: with a morpheme vocabulary the output
layer would else dominate the step."""

from typing import TYPE_CHECKING, Any

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.batch import IGNORE_INDEX

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.training.attention import Packing

Values = dict[str, "torch.Tensor"]


def pieces_and_pairs(
    architecture: Architecture, model: Any, batch: dict[str, "torch.Tensor"], packing: "Packing", pairs: str | None
) -> tuple["torch.Tensor", Values]:
    """Mean cross-entropy over masked pieces, plus that over pairs where `pairs` names what they are asked (nsp, sop)."""
    hidden = architecture.hidden(model, batch, packing)
    loss, _, values = piece_loss(architecture, model, hidden, batch, "mlm")
    if pairs is None:
        return loss, values
    more, of_pairs = pair_loss(architecture, model, hidden, batch, pairs)
    return loss + more, values | of_pairs


def piece_loss(
    architecture: Architecture, model: Any, hidden: "torch.Tensor", batch: dict[str, "torch.Tensor"], name: str
) -> tuple["torch.Tensor", "torch.Tensor", Values]:
    """Mean cross-entropy over the K pieces to predict, their logits (K, V), and `NAME_loss`, `NAME_accuracy` to log."""
    from torch.nn.functional import cross_entropy

    logits = architecture.token_logits(model, hidden.index_select(0, batch["masked_positions"]))  # (T, H) -> (K, H) -> (K, V)
    count = max(len(batch["labels"]), 1)  # a batch of one short review may have nothing masked
    loss = cross_entropy(logits.float(), batch["labels"], reduction="sum") / count
    values = {f"{name}_loss": loss.detach()}
    if not model.training:  # finding the largest of V logits costs as much as a layer
        values[f"{name}_accuracy"] = (logits.argmax(-1) == batch["labels"]).float().sum() / count
    return loss, logits, values


def pair_loss(
    architecture: Architecture, model: Any, hidden: "torch.Tensor", batch: dict[str, "torch.Tensor"], name: str
) -> tuple["torch.Tensor", Values]:
    """Mean cross-entropy over the pairs of the batch, 0 where it has none, and `NAME_loss`, `NAME_accuracy` to log."""
    from torch.nn.functional import cross_entropy

    paired = batch["next_sentence_label"] != IGNORE_INDEX
    if not bool(paired.any()):
        return hidden.new_zeros(()), {}
    logits = architecture.pair_logits(model, hidden.index_select(0, batch["starts"][paired]))  # (P, H): the [CLS] of every pair -> (P, 2)
    labels = batch["next_sentence_label"][paired]
    loss = cross_entropy(logits.float(), labels)
    return loss, {f"{name}_loss": loss.detach(), f"{name}_accuracy": (logits.argmax(-1) == labels).float().mean()}
