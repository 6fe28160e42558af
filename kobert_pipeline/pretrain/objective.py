"""The contract of a pretraining objective: shards -> sequences -> batches (NumPy, pure), and a model's loss on a batch
(torch)."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.masking import Unit, choose, replace, unit_starts
from kobert_pipeline.pretrain.packing import pack
from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.training.attention import SequenceLayout


class Objective(Plugin):
    """What the model learns to predict."""

    family: ClassVar[str] = "objectives"

    causal: ClassVar[bool] = False
    """Whether nobody may see what comes after."""

    @property
    @abstractmethod
    def head(self) -> str:
        """The kind of model it needs; an architecture lists the kinds it `heads`."""

    @property
    def epochs(self) -> int | None:
        """After how many epochs the batches repeat themselves; None: never."""
        return None

    @abstractmethod
    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """The sequences of one epoch, of at most `max_length` tokens."""

    @abstractmethod
    def batch(
        self, shards: Shards, sequences: Sequences, rows: np.ndarray, vocab_size: int, rng: np.random.Generator
    ) -> Batch:
        """The batch of the sequences `rows`."""

    @abstractmethod
    def loss(
        self, architecture: Architecture, model: Any, batch: dict[str, "torch.Tensor"], packing: "SequenceLayout"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """The loss, and numbers to log. `batch` holds the arrays of `Batch` and `starts`, as tensors on the model's
        device."""


class Masking(Objective):
    """Objectives that hide tokens and ask for them. Not a variant itself: it lies with the contract, where no name
    leads to it."""

    name: str
    mlm_probability: float = Field(0.15, gt=0, lt=1)
    """Share of tokens to predict."""
    mask_unit: Unit = "morpheme"
    """What is masked together."""
    dupe_factor: int | None = Field(None, gt=0)
    """Static masking (BERT's duplication factor): so many epochs are drawn, and then repeated. null draws every epoch
    anew (dynamic)."""

    mask_share: ClassVar[float] = 0.8
    """Share of the chosen tokens that become [MASK]."""
    random_share: ClassVar[float] = 0.1
    """Share that becomes another token; the rest stays."""

    @property
    def epochs(self) -> int | None:
        """`duplicates`."""
        return self.dupe_factor

    def batch(
        self, shards: Shards, sequences: Sequences, rows: np.ndarray, vocab_size: int, rng: np.random.Generator
    ) -> Batch:
        """Packed and masked."""
        packed = pack(shards, sequences, rows)
        positions = choose(unit_starts(packed.boundaries, self.mask_unit), packed.maskable, self.mlm_probability, rng)
        return Batch(
            input_ids=replace(packed.input_ids, positions, vocab_size, rng, self.mask_share, self.random_share),
            token_type_ids=packed.token_type_ids,
            position_ids=packed.position_ids,
            lengths=packed.lengths,
            masked_positions=positions,
            labels=packed.input_ids[positions],
            next_sentence_label=sequences.next_sentence_label[rows],
        )
