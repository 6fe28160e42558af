"""The phases of a pretraining, each with its own sequence length and batch size.

Short sequences first (Devlin et al. 2019: 90 % of the steps at 128, then 512) and growing batches (as in GPT-3) are
both sequences of phases.
"""

from collections.abc import Sequence
from itertools import accumulate
from threading import local

from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.shards.format import Shards


class PhaseSchedule:
    """The batches of all phases by the number of the step, a function of (seed, step). `phases`: the number of tokens
    that each sees, and its loader's options. Raises UserError for a phase whose sources are not in the shards."""

    def __init__(
        self, shards: Shards, phases: Sequence[tuple[int, PretrainOptions]], vocab_size: int, seed: int
    ) -> None:
        # the first phase uses the seed itself, as a training without phases would; Philox keys have 128 bits, so the
        # upper 64 distinguish the phases
        self.loaders = [
            Loader(shards.of_sources(options.sources), options, vocab_size, seed + (phase << 64))
            for phase, (_, options) in enumerate(phases)
        ]
        steps = (loader.steps_for(tokens) for loader, (tokens, _) in zip(self.loaders, phases, strict=True))
        self.ends = list(accumulate(steps))  # the number of the first step after each phase
        # the last batch of each prefetching thread, because the parts of a step are requested one by one
        self.cached = local()

    @property
    def steps(self) -> int:
        """Number of steps of all phases."""
        return self.ends[-1]

    def batch(self, step: int) -> Batch:
        """The batch of step `step`, from 0."""
        if getattr(self.cached, "step", None) != step:
            self.cached.batch, self.cached.step = self._build(step), step
        batch: Batch = self.cached.batch
        return batch

    def loader_at(self, step: int) -> Loader:
        """The loader of the phase that a step belongs to."""
        return self.loaders[self._phase_at(step)]

    def parts_at(self, step: int, max_tokens: int) -> int:
        """Into how many parts of `max_tokens` tokens the batch of a step is split. The same in all steps of a phase, so
        that their parts have one shape to compile."""
        return -(-self.loader_at(step).batch_tokens // max_tokens)

    def _build(self, step: int) -> Batch:
        phase = self._phase_at(step)
        # progress is 1 at the last step; `max` is for a training of a single step
        return self.loaders[phase].batch(step - self._first_step(phase), step / max(1, self.steps - 1))

    def _phase_at(self, step: int) -> int:
        return next(phase for phase, end in enumerate(self.ends) if step < end)

    def tokens(self) -> int:
        """Number of tokens in all steps, including special tokens."""
        return sum(
            loader.tokens_until(end - self._first_step(phase))
            for phase, (loader, end) in enumerate(zip(self.loaders, self.ends, strict=True))
        )

    def _first_step(self, phase: int) -> int:
        return self.ends[phase - 1] if phase else 0
