"""RoBERTa's objective (Liu et al. 2019): masked language modelling over sequences formed in one of the four ways that
its paper compares, with next sentence prediction or without."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.losses import token_and_pair_loss
from kobert_pipeline.pretrain.objective import Masking
from kobert_pipeline.pretrain.segments import Sequences, full_sentences, plan_sequences, sentence_pairs
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.training.attention import SequenceLayout


class Mlm(Masking):
    """MLM over full or paired sentences."""

    name: Literal["mlm"] = "mlm"

    sequence_format: Literal["segment_pair", "sentence_pair", "full_sentences", "doc_sentences"] = "full_sentences"
    """SEGMENT-PAIR: two segments of several sentences; SENTENCE-PAIR: two single sentences; FULL-SENTENCES: as many as
    fit, over the boundaries of documents, which a [SEP] marks; DOC-SENTENCES: as many as fit of one document."""
    nsp: bool = False
    """Whether pairs are also asked whether the second follows the first."""
    short_seq_prob: float = Field(0.1, ge=0, le=1)
    """Share of segment pairs made shorter than max_length."""

    @model_validator(mode="after")
    def _pairs(self) -> "Mlm":
        if self.nsp and not self.sequence_format.endswith("pair"):
            raise ValueError(
                f"nsp needs pairs, but sequences are formed as {self.sequence_format}; say sequence_format: "
                "segment_pair or sentence_pair"
            )
        return self

    @property
    def head(self) -> str:
        """Tokens, and pairs if they are asked about."""
        return "pretraining" if self.nsp else "masked"

    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """As `formed` says; of unordered documents paragraphs."""
        match self.sequence_format:
            case "segment_pair":
                return plan_sequences(shards, max_length, self.short_seq_prob, "next", rng)
            case "sentence_pair":
                return sentence_pairs(shards, max_length, rng)
            case _:
                return full_sentences(shards, max_length, across=self.sequence_format == "full_sentences")

    def loss(
        self, architecture: Architecture, model: Any, batch: dict[str, "torch.Tensor"], packing: "SequenceLayout"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """Mean cross-entropy over masked tokens, plus that over pairs with `nsp`."""
        return token_and_pair_loss(architecture, model, batch, packing, "nsp" if self.nsp else None)
