"""Cross-fitting: each seed of a fine-tuning leaves out its own part of the training set, so that every training text
can get soft labels from a model that has not seen it (out-of-fold predictions; Chernozhukov et al. 2018)."""

from itertools import pairwise
from zlib import crc32

import numpy as np

from kobert_pipeline.features.format import Features
from kobert_pipeline.shards.format import ranges

Fold = tuple[int, int]
"""The number of a part, from 0, and how many parts there are."""


def folds_of(features: Features, parts: int) -> np.ndarray:
    """The part of each text, (n,), by its tokens, so that texts that occur twice are in one part."""
    # a checksum and not `hash`, which differs from process to process; of ids in one type, since it reads bytes
    ids, windows = np.asarray(features.arrays["input_ids"], np.int32), features.arrays["windows"].tolist()
    return np.array([crc32(ids[start:end].tobytes()) % parts for start, end in pairwise(windows)], np.int64)


def texts_at(features: Features, rows: np.ndarray) -> Features:
    """The texts in the given rows (m,) with their labels, without examples."""
    windows, total = np.asarray(features.arrays["windows"]), len(features.arrays["input_ids"])
    lengths = np.diff(windows)[rows]
    tokens = ranges(windows[rows], lengths)
    # an array has a value per token or per text, and there are more tokens than texts, so its length tells which
    arrays = {
        name: array[tokens] if len(array) == total else array[rows]
        for name, array in features.arrays.items()
        if array.ndim and name != "windows"
    }
    return Features(arrays | {"windows": np.concatenate([[0], np.cumsum(lengths)])}, [])


def left_out(features: Features, fold: Fold) -> np.ndarray:
    """The rows of the texts of a part, (m,)."""
    part, parts = fold
    return np.flatnonzero(folds_of(features, parts) == part)


def without(features: Features, fold: Fold | None) -> Features:
    """The texts that are not in a part; all where it is None."""
    if fold is None:
        return features
    return texts_at(features, np.setdiff1d(np.arange(len(features)), left_out(features, fold)))
