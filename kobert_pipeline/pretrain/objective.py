"""The contract of a pretraining objective: shards -> sequences -> batches (pure functions, NumPy), and a model's loss
on a batch (torch)."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.losses import pair_loss, token_loss
from kobert_pipeline.pretrain.masking import Unit, choose, replace, unit_starts
from kobert_pipeline.pretrain.packing import pack
from kobert_pipeline.pretrain.segments import PairTask, Sequences, full_sentences, plan_sequences
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


Probability = Annotated[float, Field(gt=0, lt=1)]


class Objective(Plugin):
    """What a model learns to predict in pretraining."""

    family: ClassVar[str] = "objectives"

    causal: ClassVar[bool] = False
    """Whether no token may attend to later ones."""

    @property
    @abstractmethod
    def head(self) -> str:
        """The kind of model it needs, one of an architecture's `heads`."""

    @property
    def predicted_share(self) -> float:
        """The share of a batch's tokens that are predicted: all, unless an objective chooses some."""
        return 1.0

    def at(self, progress: float) -> "Objective":
        """The objective at a point of the training, from 0 (the first step) to 1 (the last)."""
        return self

    @abstractmethod
    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """The sequences of one epoch, each of at most `max_length` tokens."""

    @abstractmethod
    def batch(
        self, shards: Shards, sequences: Sequences, rows: np.ndarray, vocab_size: int, rng: np.random.Generator
    ) -> Batch:
        """The batch of the sequences with the numbers `rows`, (n,)."""

    @abstractmethod
    def loss(
        self, architecture: Architecture, model: Any, batch: "TensorBatch"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """The loss, and scalars to log."""


class SentencesObjective(Objective):
    """Base class of objectives over sequences of as many sentences as fit; not a variant itself."""

    name: str
    sequence_format: Literal["full_sentences", "doc_sentences"] = "full_sentences"
    """full_sentences: across document boundaries, which a [SEP] marks; doc_sentences: of one document."""

    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """As many sentences as fit. Of unordered documents each paragraph is a sequence of its own, except in
        `full_sentences`, which joins them like documents, with a [SEP] between them."""
        return full_sentences(shards, max_length, across=self.sequence_format == "full_sentences")


class MaskedObjective(Objective):
    """Base class of objectives that mask tokens and predict them; not a variant itself."""

    name: str
    mlm_probability: Probability | tuple[Probability, Probability] = 0.15
    """Share of the tokens that are predicted. Two values, such as [0.3, 0.15], are the shares at the first and the last
    step, between which it changes linearly (Ankner et al. 2023); held-out batches have the last."""
    mask_unit: Unit = "morpheme"
    """The unit whose tokens are masked together."""

    mask_share: ClassVar[float] = 0.8
    """Share of the chosen tokens that become [MASK]."""
    random_share: ClassVar[float] = 0.1
    """Share of them that becomes a random token; the rest stays."""

    @property
    def predicted_share(self) -> float:
        """`mlm_probability`, the larger one of two."""
        # memory and the shape to compile must do for every step
        return max(self._rates)

    @property
    def _rates(self) -> tuple[float, float]:
        """`mlm_probability` at the first and the last step."""
        rate = self.mlm_probability
        return rate if isinstance(rate, tuple) else (rate, rate)

    def at(self, progress: float) -> "MaskedObjective":
        """The objective with the `mlm_probability` of that point."""
        if not isinstance(self.mlm_probability, tuple):
            return self
        first, last = self.mlm_probability
        return self.model_copy(update={"mlm_probability": (1 - progress) * first + progress * last})

    def batch(
        self, shards: Shards, sequences: Sequences, rows: np.ndarray, vocab_size: int, rng: np.random.Generator
    ) -> Batch:
        """The sequences packed, with a share of their tokens masked."""
        packed = pack(shards, sequences, rows)
        # in training `at` has made both rates the same; held-out batches, which have no progress, get the last
        rate = self._rates[-1]
        positions = choose(unit_starts(packed.boundaries, self.mask_unit), packed.maskable, rate, rng)
        return Batch(
            input_ids=replace(
                packed.input_ids, positions, vocab_size, rng, self.mask_share, self.random_share, shards.special
            ),
            token_type_ids=packed.token_type_ids,
            position_ids=packed.position_ids,
            lengths=packed.lengths,
            masked_positions=positions,
            labels=packed.input_ids[positions],
            next_sentence_label=sequences.next_sentence_label[rows],
        )


class MaskedPairObjective(MaskedObjective):
    """Base class of objectives that mask tokens in segment pairs and also classify the pairs; not a variant itself."""

    short_seq_prob: float = Field(0.1, ge=0, le=1)
    """Share of sequences that get a random length below max_length."""

    pair_task: ClassVar[PairTask]
    """What is predicted for a pair."""
    pair_loss_name: ClassVar[str]
    """The name of the pairs' loss and accuracy in logs."""

    @property
    def head(self) -> str:
        """A model for masked tokens and pairs."""
        return "pretraining"

    def sequences(self, shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
        """Segment pairs of ordered documents, single paragraphs of the others."""
        return plan_sequences(shards, max_length, self.short_seq_prob, self.pair_task, rng)

    def loss(
        self, architecture: Architecture, model: Any, batch: "TensorBatch"
    ) -> tuple["torch.Tensor", dict[str, "torch.Tensor"]]:
        """Mean cross-entropy over masked tokens plus mean cross-entropy over pairs, as in HF's `BertForPreTraining`."""
        hidden = architecture.hidden(model, batch)
        tokens, _, values = token_loss(architecture, model, hidden, batch, "mlm")
        pairs, of_pairs = pair_loss(architecture, model, hidden, batch, self.pair_loss_name)
        return tokens + pairs, values | of_pairs
