"""ALBERT's objective (Lan et al. 2020): masked language modelling, and the order of two consecutive segments of a
document."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.losses import token_and_pair_loss
from kobert_pipeline.pretrain.objective import Masking
from kobert_pipeline.pretrain.segments import Sequences, plan_sequences
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.training.attention import SequenceLayout


class MlmSop(Masking):
    """MLM + SOP: 0 where the segments stand in order, 1 where they were exchanged."""

    name: Literal["mlm_sop"] = "mlm_sop"

    short_seq_prob: float = Field(0.1, ge=0, le=1)
    """Share of sequences made shorter than max_length."""

    @property
    def head(self) -> str:
        """Tokens and pairs."""
        return "pretraining"

    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """Consecutive segments of ordered documents, half of them in the wrong order; paragraphs of the others."""
        return plan_sequences(shards, max_length, self.short_seq_prob, "order", rng)

    def loss(
        self, architecture: Architecture, model: Any, batch: dict[str, "torch.Tensor"], packing: "SequenceLayout"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """Mean cross-entropy over masked tokens plus mean cross-entropy over pairs."""
        return token_and_pair_loss(architecture, model, batch, packing, "sop")
