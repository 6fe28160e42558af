"""BERT's masking (Devlin et al. 2019): of the chosen tokens 80 % become [MASK], 10 % a random token, 10 % stay. Whole
units (tokens, morphemes or eojeols) are chosen together, never special tokens."""

from typing import Literal

import numpy as np

from kobert_pipeline.shards.format import EOJEOL, MORPHEME
from kobert_pipeline.tokenizer.special_tokens import MASK_ID, SPECIAL_TOKENS

Unit = Literal["token", "morpheme", "eojeol"]


def unit_starts(boundaries: np.ndarray, unit: Unit) -> np.ndarray:
    """(T,) bool: the tokens that begin a unit."""
    if unit == "token":
        return np.ones(len(boundaries), bool)
    return (boundaries & (MORPHEME if unit == "morpheme" else EOJEOL)) != 0


def choose(begins: np.ndarray, maskable: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """The positions to predict, ascending: whole units in random order until `rate` of the maskable tokens are reached.

    `begins`, `maskable`: (T,) bool. The last unit is taken only with the chance that keeps the expected share at
    `rate`, whatever the units' lengths.
    """
    places = np.flatnonzero(maskable)
    if not len(places):
        return places
    starts = begins[places] | (np.diff(places, prepend=-2) > 1)  # a unit does not reach over a special token
    unit = np.cumsum(starts) - 1  # (P,) which unit each maskable token belongs to
    lengths = np.bincount(unit)
    order = rng.permutation(len(lengths))
    wanted = rate * len(places)
    reached = np.cumsum(lengths[order])
    count = int(np.searchsorted(reached, wanted, side="right"))
    if count < len(order):
        missing = wanted - (reached[count - 1] if count else 0)
        count += int(rng.random() < missing / lengths[order[count]])
    chosen = np.zeros(len(lengths), bool)
    chosen[order[:count]] = True
    return places[chosen[unit]]


def replace(
    input_ids: np.ndarray,
    positions: np.ndarray,
    vocab_size: int,
    rng: np.random.Generator,
    mask_share: float = 0.8,
    random_share: float = 0.1,
) -> np.ndarray:
    """A copy of `input_ids` with the tokens at `positions` replaced: [MASK] for `mask_share` of them, a random token
    for `random_share`."""
    masked = input_ids.copy()
    draw = rng.random(len(positions))
    masked[positions[draw < mask_share]] = MASK_ID
    random = positions[(draw >= mask_share) & (draw < mask_share + random_share)]
    masked[random] = rng.integers(len(SPECIAL_TOKENS), vocab_size, len(random))
    return masked
