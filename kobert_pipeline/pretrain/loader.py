"""A batch is a function of (seed, epoch, step): a counter-based generator (Philox) makes every one from those numbers
alone."""

from functools import lru_cache
from threading import Lock
from typing import Protocol

import numpy as np

from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.objective import Objective
from kobert_pipeline.pretrain.packing import group
from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.shards.format import Shards


def generator(seed: int, epoch: int, step: int = 0) -> np.random.Generator:
    """The generator of an epoch (step 0) or of one step of it (from 1)."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, step, epoch]))


class LoaderOptions(Protocol):
    """What a loader takes from the stage's options."""

    @property
    def objective(self) -> Objective:
        """Makes sequences and batches."""

    @property
    def max_length(self) -> int:
        """Tokens in a sequence at most."""

    @property
    def batch_tokens(self) -> int:
        """Tokens in a batch at most."""


class Loader:
    """Batches of `batch_tokens` tokens by number, epoch after epoch."""

    def __init__(self, shards: Shards, options: LoaderOptions, vocab_size: int, seed: int) -> None:
        self.shards, self.objective, self.vocab_size = shards, options.objective, vocab_size
        self.max_length, self.batch_tokens, self.seed = options.max_length, options.batch_tokens, seed
        self.epoch = lru_cache(maxsize=2)(self._epoch)
        self.repeats = options.objective.epochs
        self.ends: list[int] = []  # number of the first step behind each epoch
        self.planning = Lock()  # threads that make batches plan an epoch once

    def _epoch(self, epoch: int) -> tuple[Sequences, list[np.ndarray]]:
        """The sequences of an epoch and the rows of each of its batches."""
        rng = generator(self.seed, self._drawn(epoch))
        sequences = self.objective.sequences(self.shards, self.max_length, rng)
        return sequences, group(sequences.lengths, rng.permutation(len(sequences)), self.batch_tokens)

    def _drawn(self, epoch: int) -> int:
        """The epoch whose numbers are drawn: with static masking they come again."""
        return epoch if self.repeats is None else epoch % self.repeats

    def batch(self, step: int) -> Batch:
        """The batch of step `step`, from 0."""
        with self.planning:
            epoch, inside = self._place(step)
            sequences, batches = self.epoch(epoch)
        rng = generator(self.seed, self._drawn(epoch), 1 + inside)
        return self.objective.batch(self.shards, sequences, batches[inside], self.vocab_size, rng)

    def _place(self, step: int) -> tuple[int, int]:
        """The epoch of a step and its number there."""
        while not self.ends or step >= self.ends[-1]:
            self.ends.append((self.ends[-1] if self.ends else 0) + len(self.epoch(len(self.ends))[1]))
        epoch = next(i for i, end in enumerate(self.ends) if step < end)
        return epoch, step - (self.ends[epoch - 1] if epoch else 0)

    def steps_per_epoch(self) -> int:
        """Steps of the first epoch."""
        return len(self.epoch(0)[1])

    def steps_for(self, tokens: int) -> int:
        """How many steps see about `tokens` tokens."""
        sequences, batches = self.epoch(0)
        return max(1, round(tokens / (int(sequences.lengths.sum()) / len(batches))))

    def tokens_until(self, steps: int) -> int:
        """How many tokens, special tokens included, the first `steps` steps see."""
        last, inside = self._place(steps - 1)
        whole = sum(int(self.epoch(epoch)[0].lengths.sum()) for epoch in range(last))
        sequences, batches = self.epoch(last)
        return whole + sum(int(sequences.lengths[rows].sum()) for rows in batches[: inside + 1])
