"""The noun of pretraining: a `Batch`, sequences packed behind one another without padding."""

from dataclasses import dataclass

import numpy as np

IGNORE_INDEX = -100
"""A label that no loss counts (PyTorch's and HF's number)."""


@dataclass(frozen=True)
class Batch:
    """n sequences of T pieces in all, of which K are to be predicted.

    `input_ids`, `token_type_ids`, `position_ids`: (T,) int64. `lengths`: (n,) pieces of each sequence. `masked_positions`: (K,) places
    among the T, ascending. `labels`: (K,) the pieces that stood there. `next_sentence_label`: (n,) 0 next, 1 random, -100 no pair.
    """

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    position_ids: np.ndarray
    lengths: np.ndarray
    masked_positions: np.ndarray
    labels: np.ndarray
    next_sentence_label: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """(n,) where each sequence begins: its [CLS]."""
        return np.cumsum(self.lengths) - self.lengths
