"""Windows -> padded batches of about equal length, as a function of (seed, step). The windows of one example's answer
choices stay in one batch."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np
import torch

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.rows import MAX_PADDING_CPU, padded_arrays
from kobert_pipeline.finetune.class_weights import weights_of
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX, PAD_ID
from kobert_pipeline.training.transfer import copy_to_device

SORTED_BATCHES = 64
"""Batches whose rows are sorted by length together: less padding, and the order is still random."""
MAX_PADDING_GPU = 8192
"""Tokens of padding above which other devices get another batch, where a small batch takes as long as a large one."""


class Batches:
    """Training batches of `features` by number, epoch after epoch.

    A row is one window, or the windows of one example's choices; `targets` hold a value per row or per token. Widths
    are rounded up to a multiple of `pad_to_multiple_of`, but not beyond the longest window of all.
    """

    def __init__(
        self,
        features: Features,
        targets: dict[str, np.ndarray],
        batch_size: int,
        seed: int,
        pad_to_multiple_of: int = 1,
        pad_id: int = PAD_ID,
        class_weights: np.ndarray | None = None,
    ) -> None:
        self.pad_id = pad_id
        self.features, self.targets, self.batch_size, self.seed = features, targets, batch_size, seed
        self.pad_to_multiple_of, self.longest = pad_to_multiple_of, int(features.lengths.max())
        self.per_epoch = -(-len(features) // batch_size)
        # (n,): how much each row counts in the loss, a mean over rows, or over labelled tokens, by their class weights
        self.weights = np.ones(len(features), np.int64)
        for array in filter(self._per_token, targets.values()):
            self.weights = np.add.reduceat(array != IGNORE_INDEX, features.arrays["windows"][:-1], dtype=np.int64)
        if class_weights is not None:
            weights = weights_of(targets["labels"], class_weights)
            per_token = self._per_token(weights)
            self.weights = np.add.reduceat(weights, features.arrays["windows"][:-1]) if per_token else weights
        # two, since at the end of an epoch other threads already build batches of the next
        self.epoch = lru_cache(maxsize=2)(self._epoch)

    def _epoch(self, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch."""
        rng = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, 0, epoch]))
        order = rng.permutation(len(self.features))
        lengths, pool_size = self.features.lengths, SORTED_BATCHES * self.batch_size
        pools = [order[i : i + pool_size] for i in range(0, len(order), pool_size)]
        order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        # shuffled once more, or lengths would grow from batch to batch within each pool
        return [batches[i] for i in rng.permutation(len(batches))]

    def batch(self, step: int, part: int, parts: int, device: torch.device | str = "cpu") -> dict[str, torch.Tensor]:
        """Part `part` of `parts` of the batch of step `step`, all from 0, under the argument names of `transformers`
        models, with `share`: the part's share of the step's loss."""
        rows, width = self._rows_and_width(step)
        part_rows = np.array_split(rows, parts)[part]
        # with more parts than rows some are empty; every rank must run the model, so they get a row with share 0
        chosen = part_rows if len(part_rows) else rows[:1]
        share = float(self.weights[part_rows].sum() / self.weights[rows].sum())
        per_token = {name: array for name, array in self.targets.items() if self._per_token(array)}
        batch = padded(self.features, chosen, "cpu", width, per_token, self.pad_id)
        # a tensor, so that it travels in the one copy to the device
        batch["share"] = torch.tensor(share)
        per_row = {name: array[chosen] for name, array in self.targets.items() if name not in per_token}
        batch |= {name: torch.from_numpy(array) for name, array in per_row.items()}
        return copy_to_device(batch, device)

    def parts_at(self, step: int, max_tokens: int) -> int:
        """Into how many parts of at most `max_tokens` tokens, padding included, the batch of a step is split, but none
        of less than a row."""
        rows, width = self._rows_and_width(step)
        rows_per_part = max(1, max_tokens // (width * self.features.choices))
        return -(-len(rows) // rows_per_part)

    def _rows_and_width(self, step: int) -> tuple[np.ndarray, int]:
        """The rows of a step's batch, and the width that all its parts are padded to, since the softmax of span logits
        goes over padding, too."""
        rows = self.epoch(step // self.per_epoch)[step % self.per_epoch]
        width = int(self.features.lengths[rows].max())
        return rows, min(-(-width // self.pad_to_multiple_of) * self.pad_to_multiple_of, self.longest)

    def _per_token(self, array: np.ndarray) -> bool:
        return len(array) != len(self.features)  # every row has at least two tokens, [CLS] and [SEP]


class BatchSchedule:
    """Several sets of batches after one another, each for a number of epochs, by the number of the step."""

    def __init__(self, parts: Sequence[tuple[Batches, int]]) -> None:
        self.batches = [batches for batches, _ in parts]
        self.ends = list(accumulate(batches.per_epoch * epochs for batches, epochs in parts))

    @property
    def steps(self) -> int:
        """Number of steps in all."""
        return self.ends[-1]

    def batch(self, step: int, part: int, parts: int, device: torch.device | str = "cpu") -> dict[str, torch.Tensor]:
        """Part `part` of `parts` of the batch of a step, as `Batches.batch` gives it."""
        batches, inside = self._locate(step)
        return batches.batch(inside, part, parts, device)

    def parts_at(self, step: int, max_tokens: int) -> int:
        """Into how many parts the batch of a step is split, as `Batches.parts_at` says."""
        batches, inside = self._locate(step)
        return batches.parts_at(inside, max_tokens)

    def _locate(self, step: int) -> tuple[Batches, int]:
        """The batches that a step belongs to, and the step's index in them."""
        index = bisect_right(self.ends, step)
        return self.batches[index], step - (self.ends[index - 1] if index else 0)


def max_padding_on(device: torch.device | str) -> int:
    """The most padding that a batch of a prediction should have on a device, in tokens."""
    return MAX_PADDING_CPU if torch.device(device).type == "cpu" else MAX_PADDING_GPU


def padded(
    features: Features,
    rows: np.ndarray,
    device: torch.device | str,
    width: int | None = None,
    labels: dict[str, np.ndarray] | None = None,
    pad_id: int = PAD_ID,
) -> dict[str, torch.Tensor]:
    """`padded_arrays` as tensors on a device."""
    arrays = padded_arrays(features, rows, width, labels, pad_id)
    return copy_to_device({name: torch.from_numpy(array) for name, array in arrays.items()}, device)
