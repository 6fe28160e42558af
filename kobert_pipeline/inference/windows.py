"""Long texts in windows of tokens: each is computed by itself, and the text's result is their mean.

A window counts by its number of tokens, so the short one at the end of a text counts little. Time grows with the number
of windows, and so with the length of the text; memory does not, but for the windows' results.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.morphemes.normalization import replace_surrogates

OVERLAP = 4
"""Neighbouring windows share one token in so many, so that most tokens are far from an end in one of them."""


TRUNCATE = "truncate"
LONG = (TRUNCATE, "windows")
"""What is done with a text of more tokens than the model reads."""


def splits(long: str) -> bool:
    """Whether long texts are split into windows, and not truncated. Raises UserError for a word that is not in
    `LONG`."""
    if long not in LONG:
        raise UserError(f"long texts are either truncated or split, not {long!r:.40}{did_you_mean(long, LONG)}")
    return long == "windows"


def windows_of(tokenizer: Any, texts: Sequence[str], max_length: int) -> tuple[list[list[int]], np.ndarray]:
    """The token ids of all windows of at most `max_length` tokens, special tokens included, and the number of each
    one's text (w,). A text that fits is a single window."""
    if not texts:
        return [], np.zeros(0, np.int64)
    encoded = tokenizer(
        [replace_surrogates(text) for text in texts],
        truncation=True,
        max_length=max_length,
        stride=max_length // OVERLAP,  # the tokens that neighbours share, not the distance of their starts
        return_overflowing_tokens=True,
    )
    return encoded["input_ids"], np.array(encoded["overflow_to_sample_mapping"], np.int64)


def mean_by_text(values: np.ndarray, ids: list[list[int]], text_of: np.ndarray) -> np.ndarray:
    """The mean of the windows' values (w, d) for each text, weighted by their tokens: (n, d)."""
    weights = np.array([len(row) for row in ids], np.float64)
    # a text may have no token, where the tokenizer adds none of its own
    totals = np.maximum(np.bincount(text_of, weights), 1)
    sums = np.zeros((len(totals), values.shape[1]))
    # not `sums[text_of] += ...`, which adds only one window of each text
    np.add.at(sums, text_of, weights[:, None] * values)
    means: np.ndarray = (sums / totals[:, None]).astype(values.dtype)
    return means
