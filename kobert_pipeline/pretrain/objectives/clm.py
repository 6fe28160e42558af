"""GPT's objective (Radford et al. 2018): predict the next token from all tokens before it."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.losses import token_loss
from kobert_pipeline.pretrain.objective import SentencesObjective
from kobert_pipeline.pretrain.packing import pack
from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


class Clm(SentencesObjective):
    """Causal language modelling."""

    name: Literal["clm"] = "clm"
    causal: ClassVar[bool] = True

    @property
    def head(self) -> str:
        """A model that predicts the next token."""
        return "causal"

    def batch(
        self, shards: Shards, sequences: Sequences, rows: np.ndarray, vocab_size: int, rng: np.random.Generator
    ) -> Batch:
        """The sequences packed; every token but the last of its sequence predicts the next one."""
        packed = pack(shards, sequences, rows)
        # (T,): all but the last token of each sequence; the label at a position is the token after it
        has_next = np.ones(len(packed.input_ids), bool)
        has_next[np.cumsum(packed.lengths) - 1] = False
        positions = np.flatnonzero(has_next)
        return Batch(
            input_ids=packed.input_ids,
            token_type_ids=packed.token_type_ids,
            position_ids=packed.position_ids,
            lengths=packed.lengths,
            masked_positions=positions,
            labels=packed.input_ids[positions + 1],
            next_sentence_label=sequences.next_sentence_label[rows],
        )

    def loss(
        self, architecture: Architecture, model: Any, batch: "TensorBatch"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """Mean cross-entropy over all predicted tokens."""
        loss, _, values = token_loss(architecture, model, architecture.hidden(model, batch), batch, "clm")
        return loss, values
