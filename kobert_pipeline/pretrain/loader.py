"""Batches as a function of (seed, epoch, step): a counter-based generator (Philox) draws the random numbers of each
batch from those three alone."""

from functools import lru_cache
from threading import Lock

import numpy as np

from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.packing import group
from kobert_pipeline.pretrain.segments import Sequences
from kobert_pipeline.shards.format import Shards


def generator(seed: int, epoch: int, step: int = 0) -> np.random.Generator:
    """The random generator of an epoch (step 0), or of one of its steps (from 1)."""
    # the two low words count the draws, so the streams of two steps cannot overlap
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, step, epoch]))


class Loader:
    """Batches of at most `batch_tokens` tokens by the number of the step, epoch after epoch."""

    def __init__(self, shards: Shards, options: PretrainOptions, vocab_size: int, seed: int) -> None:
        self.shards, self.objective, self.vocab_size = shards, options.objective, vocab_size
        self.max_length, self.batch_tokens, self.seed = options.max_length, options.batch_tokens, seed
        # two, since at the end of an epoch other threads already build batches of the next
        self.epoch = lru_cache(maxsize=2)(self._epoch)
        # of each epoch planned so far: the number of the first step after it, and how many tokens it has
        self.epoch_ends: list[int] = []
        self.epoch_tokens: list[int] = []
        self.planning_lock = Lock()  # several threads build batches, but an epoch is planned once

    def _epoch(self, epoch: int) -> tuple[Sequences, list[np.ndarray]]:
        """The sequences of an epoch and the rows of each of its batches."""
        rng = generator(self.seed, epoch)
        sequences = self.objective.sequences(self.shards, self.max_length, rng)
        return sequences, group(sequences.lengths, rng.permutation(len(sequences)), self.batch_tokens)

    def batch(self, step: int, progress: float = 1.0) -> Batch:
        """The batch of step `step`, from 0, as the objective is at `progress` in the training, from 0 to 1."""
        with self.planning_lock:
            epoch, inside = self._locate(step)
            sequences, batches = self.epoch(epoch)
        rng = generator(self.seed, epoch, 1 + inside)
        return self.objective.at(progress).batch(self.shards, sequences, batches[inside], self.vocab_size, rng)

    def _locate(self, step: int) -> tuple[int, int]:
        """(epoch, number of the step within it)."""
        # one epoch after another: how many steps it has is known only once it is planned
        while not self.epoch_ends or step >= self.epoch_ends[-1]:
            sequences, batches = self.epoch(len(self.epoch_ends))
            self.epoch_ends.append((self.epoch_ends[-1] if self.epoch_ends else 0) + len(batches))
            self.epoch_tokens.append(int(sequences.lengths.sum()))
        epoch = next(i for i, end in enumerate(self.epoch_ends) if step < end)
        return epoch, step - (self.epoch_ends[epoch - 1] if epoch else 0)

    def steps_per_epoch(self) -> int:
        """Number of steps of the first epoch."""
        return len(self.epoch(0)[1])

    def steps_for(self, tokens: int) -> int:
        """The number of steps in which about `tokens` tokens are seen, at the first epoch's mean batch size."""
        return max(1, round(tokens / self.tokens_per_step()))

    def tokens_per_step(self) -> float:
        """The mean batch size of the first epoch."""
        sequences, batches = self.epoch(0)
        return int(sequences.lengths.sum()) / len(batches)

    def tokens_until(self, steps: int) -> int:
        """The number of tokens in the first `steps` steps, including special tokens."""
        last, inside = self._locate(steps - 1)
        sequences, batches = self.epoch(last)
        return sum(self.epoch_tokens[:last]) + sum(int(sequences.lengths[rows].sum()) for rows in batches[: inside + 1])
