"""RoBERTa's objective (Liu et al. 2019): masked language modelling with one of the four sequence formats that the paper
compares, with or without next sentence prediction."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.losses import token_and_pair_loss
from kobert_pipeline.pretrain.objective import MaskedObjective
from kobert_pipeline.pretrain.segments import Sequences, full_sentences, plan_sequences, sentence_pairs
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


class Mlm(MaskedObjective):
    """MLM over full sentences, or over pairs with NSP."""

    name: Literal["mlm"] = "mlm"

    sequence_format: Literal["segment_pair", "sentence_pair", "full_sentences", "doc_sentences"] = "full_sentences"
    """segment_pair: two segments of several sentences; sentence_pair: two single sentences; full_sentences: as many
    sentences as fit, across document boundaries, which a [SEP] marks; doc_sentences: as many as fit of one document."""
    nsp: bool = False
    """Whether to add next sentence prediction, which pair formats are for."""
    short_seq_prob: float = Field(0.1, ge=0, le=1)
    """With segment_pair, the share of sequences that get a random length below max_length."""

    @model_validator(mode="after")
    def _pairs(self) -> "Mlm":
        if self.nsp and not self.sequence_format.endswith("pair"):
            raise ValueError(
                f"nsp needs pairs, but sequence_format is {self.sequence_format}; set it to segment_pair or "
                "sentence_pair"
            )
        if self.sequence_format.endswith("pair") and not self.nsp:
            raise ValueError(
                f"with sequence_format {self.sequence_format} half of the pairs are of two texts, which only next "
                "sentence prediction learns from; set nsp: true, or sequence_format: full_sentences"
            )
        return self

    @property
    def head(self) -> str:
        """A model for masked tokens, with a head for pairs if `nsp`."""
        return "pretraining" if self.nsp else "masked"

    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """Sequences in the given format. Of unordered documents each paragraph is a sequence of its own, except in
        `full_sentences`, which joins them like documents, with a [SEP] between them."""
        match self.sequence_format:
            case "segment_pair":
                return plan_sequences(shards, max_length, self.short_seq_prob, "next", rng)
            case "sentence_pair":
                return sentence_pairs(shards, max_length, rng)
            case _:
                return full_sentences(shards, max_length, across=self.sequence_format == "full_sentences")

    def loss(
        self, architecture: Architecture, model: Any, batch: "TensorBatch"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """Mean cross-entropy over masked tokens, plus the mean over pairs if `nsp`."""
        return token_and_pair_loss(architecture, model, batch, "nsp" if self.nsp else None)
