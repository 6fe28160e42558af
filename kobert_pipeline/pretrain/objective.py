"""The contract of a pretraining objective: shards -> sequences -> batches (NumPy, pure), and a model's loss on a batch (torch)."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kobert_pipeline.options import Plugin
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.training.attention import Packing


class Objective(Plugin):
    """What the model learns to predict."""

    family: ClassVar[str] = "objectives"

    head: ClassVar[str]
    """The kind of model it needs; an architecture lists the kinds it `heads`."""

    @abstractmethod
    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """The sequences of one epoch, of at most `max_length` pieces."""

    @abstractmethod
    def batch(self, shards: Shards, sequences: Sequences, rows: np.ndarray, vocab_size: int, rng: np.random.Generator) -> Batch:
        """The batch of the sequences `rows`."""

    @abstractmethod
    def loss(self, model: Any, batch: dict[str, "torch.Tensor"], packing: "Packing") -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """The loss, and numbers to log. `batch` holds the arrays of `Batch` and `starts`, as tensors on the model's device."""
