"""BERT's objective (Devlin et al. 2019): masked language modelling, and next sentence prediction where the order of the text means
something. Logits are computed at masked positions only: with a morpheme vocabulary the output layer would else dominate the step."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from kobert_pipeline.pretrain.batch import IGNORE_INDEX, Batch
from kobert_pipeline.pretrain.masking import Unit, choose, replace, unit_starts
from kobert_pipeline.pretrain.objective import Objective
from kobert_pipeline.pretrain.packing import pack
from kobert_pipeline.pretrain.segments import Sequences, plan_sequences
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.training.attention import Packing


class MlmNsp(Objective):
    """MLM + NSP, masks drawn anew each epoch."""

    name: Literal["mlm_nsp"] = "mlm_nsp"
    head: ClassVar[str] = "pretraining"

    mask_rate: float = Field(0.15, gt=0, lt=1)
    """Share of pieces to predict."""
    whole: Unit = "morpheme"
    """What is masked together."""
    short_share: float = Field(0.1, ge=0, le=1)
    """Share of sequences made shorter than max_length."""

    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """Segment pairs of ordered documents, paragraphs of the others."""
        return plan_sequences(shards, max_length, self.short_share, True, rng)

    def batch(self, shards: Shards, sequences: Sequences, rows: np.ndarray, vocab_size: int, rng: np.random.Generator) -> Batch:
        """Packed and masked."""
        packed = pack(shards, sequences, rows)
        positions = choose(unit_starts(packed.borders, self.whole), packed.maskable, self.mask_rate, rng)
        return Batch(
            input_ids=replace(packed.input_ids, positions, vocab_size, rng),
            token_type_ids=packed.token_type_ids,
            position_ids=packed.position_ids,
            lengths=packed.lengths,
            masked_positions=positions,
            labels=packed.input_ids[positions],
            next_sentence_label=sequences.next_sentence_label[rows],
        )

    def loss(self, model: Any, batch: dict[str, "torch.Tensor"], packing: "Packing") -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """Mean cross-entropy over masked pieces plus mean cross-entropy over pairs, as in HF's `BertForPreTraining`."""
        from torch.nn.functional import cross_entropy

        hidden = model.base_model(
            input_ids=batch["input_ids"][None],
            token_type_ids=batch["token_type_ids"][None],
            position_ids=batch["position_ids"][None],
            packing=packing,
        ).last_hidden_state[0]  # (T,) -> (T, H)
        logits = model.cls.predictions(hidden.index_select(0, batch["masked_positions"]))  # (K, H) -> (K, V)
        count = max(len(batch["labels"]), 1)  # a batch of one short review may have nothing masked
        mlm_loss = cross_entropy(logits.float(), batch["labels"], reduction="sum") / count
        values = {"mlm_loss": mlm_loss.detach()}
        if not model.training:  # finding the largest of V logits costs as much as a layer
            values["mlm_accuracy"] = (logits.argmax(-1) == batch["labels"]).float().sum() / count
        paired = batch["next_sentence_label"] != IGNORE_INDEX
        if not bool(paired.any()):
            return mlm_loss, values
        first = hidden.index_select(0, batch["starts"][paired])  # (P, H): the [CLS] of every pair
        nsp_logits = model.cls.seq_relationship(model.base_model.pooler(first[:, None]))  # (P, 1, H) -> (P, 2)
        labels = batch["next_sentence_label"][paired]
        nsp_loss = cross_entropy(nsp_logits.float(), labels)
        values |= {"nsp_loss": nsp_loss.detach(), "nsp_accuracy": (nsp_logits.argmax(-1) == labels).float().mean()}
        return mlm_loss + nsp_loss, values
