"""Windows -> padded batches of about equal length, as a function of (seed, step). Windows that are choices of one
example stay together."""

from functools import lru_cache

import numpy as np
import torch

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.tagging import IGNORE_INDEX
from kobert_pipeline.tokenizer.special_tokens import PAD_ID

POOL = 64
"""Batches whose rows are sorted by length together: less padding, still a random order."""


FILLS = {"input_ids": PAD_ID, "token_type_ids": 0}
"""What of the features a model takes, and what it is padded with."""


class Batches:
    """Training batches of `features` by number, epoch after epoch. `targets` hold a value per row or per token; a row
    is a window, or the windows of one example's choices. Windows are padded to a multiple of `pad_to_multiple_of`, but
    not beyond the longest of all."""

    def __init__(
        self,
        features: Features,
        targets: dict[str, np.ndarray],
        batch_size: int,
        seed: int,
        pad_to_multiple_of: int = 1,
    ) -> None:
        self.features, self.targets, self.batch_size, self.seed = features, targets, batch_size, seed
        self.pad_to_multiple_of, self.longest = pad_to_multiple_of, int(features.lengths.max())
        self.per_epoch = -(-len(features) // batch_size)
        self.weights = np.ones(len(features), np.int64)  # (n,): what each row counts in the loss, which is a mean
        for array in filter(self._of_tokens, targets.values()):
            self.weights = np.add.reduceat(array != IGNORE_INDEX, features.arrays["windows"][:-1], dtype=np.int64)
        self.epoch = lru_cache(maxsize=1)(self._epoch)

    def _epoch(self, epoch: int) -> list[np.ndarray]:
        rng = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, 0, epoch]))
        order = rng.permutation(len(self.features))
        lengths = self.features.lengths
        pools = [order[i : i + POOL * self.batch_size] for i in range(0, len(order), POOL * self.batch_size)]
        order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        return [batches[i] for i in rng.permutation(len(batches))]

    def batch(self, step: int, part: int, parts: int, device: torch.device | str = "cpu") -> dict[str, torch.Tensor]:
        """Part `part` of `parts` of the batch of step `step`, all from 0, under the names that `transformers` models
        take, and `share`: how much of the step it is (0 where there are more parts than rows, and some row stands
        in)."""
        rows = self.epoch(step // self.per_epoch)[step % self.per_epoch]
        mine = np.array_split(rows, parts)[part]
        chosen = mine if len(mine) else rows[:1]
        width = int(
            self.features.lengths[rows].max()
        )  # that of the whole step: the softmax over a window's places counts its padding
        width = min(-(-width // self.pad_to_multiple_of) * self.pad_to_multiple_of, self.longest)
        share = float(self.weights[mine].sum() / self.weights[rows].sum())
        of_tokens = {name: array for name, array in self.targets.items() if self._of_tokens(array)}
        batch = padded(self.features, chosen, device, width, of_tokens) | {"share": torch.tensor(share, device=device)}
        of_rows = {name: array[chosen] for name, array in self.targets.items() if name not in of_tokens}
        return batch | {name: torch.from_numpy(array).to(device) for name, array in of_rows.items()}

    def _of_tokens(self, array: np.ndarray) -> bool:
        return len(array) != len(self.features)  # a row holds two tokens at least, [CLS] and [SEP]


def by_length(features: Features, batch_size: int) -> list[np.ndarray]:
    """All rows, shortest first, in batches: for prediction."""
    order = np.argsort(features.lengths, kind="stable")
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]


def padded(
    features: Features,
    rows: np.ndarray,
    device: torch.device | str,
    width: int | None = None,
    labels: dict[str, np.ndarray] | None = None,
) -> dict[str, torch.Tensor]:
    """`input_ids, token_type_ids, attention_mask` and `labels` (tokens,), each (n, L), of choices (n, choices, L); L is
    `width`, or that of the longest."""
    index, real = cells(features, rows, width or int(features.lengths[rows].max()))
    arrays = {name: np.where(real, features.arrays[name][index], fill) for name, fill in FILLS.items()} | {
        "attention_mask": real
    }
    arrays |= {name: np.where(real, array[index], IGNORE_INDEX) for name, array in (labels or {}).items()}
    return {name: torch.from_numpy(array.astype(np.int64)).to(device) for name, array in arrays.items()}


def cells(features: Features, rows: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Which token stands where, and where one stands at all: (n, width) each, of choices (n, choices, width)."""
    windows = rows[:, None] * features.choices + np.arange(features.choices)  # (n, C)
    begins, ends = features.arrays["windows"][windows, None], features.arrays["windows"][windows + 1, None]
    index = begins + np.arange(width)  # (n, C, L)
    real = index < ends
    shown = slice(None) if features.choices > 1 else 0
    return np.where(real, index, 0)[:, shown], real[:, shown]
