"""The course of a pretraining: one phase after the other, each with its own length of sequences and size of batches.
Short sequences first (Devlin et al. 2019: 90 % of the steps at 128, then 512) and batches that grow (the ramp of GPT-3
and others) are both just phases.
"""

from collections.abc import Sequence
from itertools import accumulate
from threading import local

from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.loader import Loader, LoaderOptions
from kobert_pipeline.shards.format import Shards


class Phase(Options):
    """A part of the budget."""

    share: float = Field(gt=0, le=1)
    """Share of `tokens` that this phase sees; all shares make 1."""
    max_length: int | None = Field(None, ge=16)
    """Tokens in a sequence; null: as in pretrain."""
    batch_tokens: int | None = Field(None, ge=64)
    """Tokens in a step; null: as in pretrain."""


class PhaseSchedule:
    """Batches of all phases by the number of the step: a function of (seed, step), as a loader's. `phases`: the tokens
    that each sees, and how its batches are made."""

    def __init__(self, shards: Shards, phases: Sequence[tuple[int, LoaderOptions]], vocab_size: int, seed: int) -> None:
        # the first phase has the given seed, others draw numbers of their own
        self.loaders = [
            Loader(shards, how, vocab_size, seed + (number << 64)) for number, (_, how) in enumerate(phases)
        ]
        self.ends = list(
            accumulate(loader.steps_for(tokens) for loader, (tokens, _) in zip(self.loaders, phases, strict=True))
        )
        self.last = local()  # of each thread that makes batches: the parts of a step are asked for one by one

    @property
    def steps(self) -> int:
        """Steps in all."""
        return self.ends[-1]

    def batch(self, step: int) -> Batch:
        """The batch of step `step`, from 0."""
        if getattr(self.last, "step", None) != step:
            self.last.batch, self.last.step = self._made(step), step
        batch: Batch = self.last.batch
        return batch

    def loader_at(self, step: int) -> Loader:
        """The loader of the phase that a step belongs to."""
        return self.loaders[self._number(step)]

    def _made(self, step: int) -> Batch:
        number = self._number(step)
        return self.loaders[number].batch(step - self._begin(number))

    def _number(self, step: int) -> int:
        return next(number for number, end in enumerate(self.ends) if step < end)

    def tokens(self) -> int:
        """Tokens that all steps see, special tokens included."""
        return sum(
            loader.tokens_until(end - self._begin(phase))
            for phase, (loader, end) in enumerate(zip(self.loaders, self.ends, strict=True))
        )

    def _begin(self, phase: int) -> int:
        return self.ends[phase - 1] if phase else 0
