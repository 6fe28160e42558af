"""Windows -> padded batches of about equal length, as a function of (seed, step). Windows that are choices of one example stay together."""

from functools import lru_cache

import numpy as np
import torch

from kobert_pipeline.features.format import Features
from kobert_pipeline.tokenizer.special_tokens import PAD_ID

POOL = 64
"""Batches whose rows are sorted by length together: less padding, still a random order."""


class Batches:
    """Training batches of `features` by number, epoch after epoch."""

    def __init__(self, features: Features, targets: dict[str, np.ndarray], batch_size: int, seed: int) -> None:
        self.features, self.targets, self.batch_size, self.seed = features, targets, batch_size, seed
        self.per_epoch = -(-len(features) // batch_size)
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
        """Part `part` of `parts` of the batch of step `step`, all from 0, under the names that `transformers` models take, and `share`: how
        much of the step it is (0 where there are more parts than rows, and some row stands in)."""
        rows = self.epoch(step // self.per_epoch)[step % self.per_epoch]
        mine = np.array_split(rows, parts)[part]
        chosen = mine if len(mine) else rows[:1]
        width = int(self.features.lengths[rows].max())  # that of the whole step: the softmax over a window's places counts its padding
        batch = padded(self.features, chosen, device, width) | {"share": torch.tensor(len(mine) / len(rows), device=device)}
        return batch | {name: torch.from_numpy(array[chosen]).to(device) for name, array in self.targets.items()}


def by_length(features: Features, batch_size: int) -> list[np.ndarray]:
    """All rows, shortest first, in batches: for prediction."""
    order = np.argsort(features.lengths, kind="stable")
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]


def padded(features: Features, rows: np.ndarray, device: torch.device | str, width: int | None = None) -> dict[str, torch.Tensor]:
    """`input_ids, token_type_ids, attention_mask`, each (n, L), of choices (n, choices, L); L is that of the longest, or `width`."""
    windows = rows[:, None] * features.choices + np.arange(features.choices)  # (n, C)
    begins, ends = features.arrays["windows"][windows, None], features.arrays["windows"][windows + 1, None]
    index = begins + np.arange(width or int(features.lengths[rows].max()))  # (n, C, L)
    real = index < ends
    index = np.where(real, index, 0)
    arrays = {
        "input_ids": np.where(real, features.arrays["input_ids"][index], PAD_ID),
        "token_type_ids": np.where(real, features.arrays["token_type_ids"][index], 0),
        "attention_mask": real,
    }
    shown = slice(None) if features.choices > 1 else 0
    return {name: torch.from_numpy(array[:, shown].astype(np.int64)).to(device) for name, array in arrays.items()}
