"""BERT's objective (Devlin et al. 2019): masked language modelling, and next sentence prediction where the order of the
text means something."""

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


class MlmNsp(Masking):
    """MLM + NSP."""

    name: Literal["mlm_nsp"] = "mlm_nsp"

    short_seq_prob: float = Field(0.1, ge=0, le=1)
    """Share of sequences made shorter than max_length."""

    @property
    def head(self) -> str:
        """Tokens and pairs."""
        return "pretraining"

    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """Segment pairs of ordered documents, paragraphs of the others."""
        return plan_sequences(shards, max_length, self.short_seq_prob, "next", rng)

    def loss(
        self, architecture: Architecture, model: Any, batch: dict[str, "torch.Tensor"], packing: "SequenceLayout"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """Mean cross-entropy over masked tokens plus mean cross-entropy over pairs, as in HF's `BertForPreTraining`."""
        return token_and_pair_loss(architecture, model, batch, packing, "nsp")
