"""The course of a pretraining: one phase after the other, each with its own length of sequences and size of batches. Short sequences first
(Devlin et al. 2019: 90 % of the steps at 128, then 512) and batches that grow (the ramp of GPT-3 and others) are both just phases.
"""

from itertools import accumulate
from typing import TYPE_CHECKING

from pydantic import Field

from kobert_pipeline.options import Options
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.shards.format import Shards

if TYPE_CHECKING:
    from kobert_pipeline.pretrain.stage import PretrainOptions


class Phase(Options):
    """A part of the budget."""

    share: float = Field(gt=0, le=1)
    """Share of `pieces` that this phase sees; all shares make 1."""
    max_length: int | None = Field(None, ge=16)
    """Pieces in a sequence; null: as in pretrain."""
    batch_pieces: int | None = Field(None, ge=64)
    """Pieces in a step; null: as in pretrain."""


class Course:
    """Batches of all phases by the number of the step: a function of (seed, step), as a loader's."""

    def __init__(self, shards: Shards, options: "PretrainOptions", vocab_size: int) -> None:
        phases = options.phases or (Phase(share=1),)
        self.loaders = [
            # the first phase has the plan's seed, others draw numbers of their own
            Loader(shards, options.of_phase(phase), vocab_size, options.plan.seed + (number << 64))
            for number, phase in enumerate(phases)
        ]
        steps = [loader.steps_for(round(options.pieces * phase.share)) for loader, phase in zip(self.loaders, phases, strict=True)]
        self.ends = list(accumulate(steps))

    @property
    def steps(self) -> int:
        """Steps in all."""
        return self.ends[-1]

    def batch(self, step: int) -> Batch:
        """The batch of step `step`, from 0."""
        phase = next(number for number, end in enumerate(self.ends) if step < end)
        return self.loaders[phase].batch(step - self._begin(phase))

    def pieces(self) -> int:
        """Pieces that all steps see, special tokens included."""
        return sum(
            loader.pieces_until(end - self._begin(phase)) for phase, (loader, end) in enumerate(zip(self.loaders, self.ends, strict=True))
        )

    def _begin(self, phase: int) -> int:
        return self.ends[phase - 1] if phase else 0
