"""BERT's masking (Devlin et al. 2019): of the chosen tokens 80 % become [MASK], 10 % a random token, and 10 % stay.

Whole units (tokens, morphemes or eojeols) are chosen together; special tokens are never chosen.
"""

from typing import Literal

import numpy as np

from kobert_pipeline.shards.format import EOJEOL, MORPHEME
from kobert_pipeline.tokenizer.special_tokens import OUR_IDS, SpecialIds

Unit = Literal["token", "morpheme", "eojeol"]


def unit_starts(boundaries: np.ndarray, unit: Unit) -> np.ndarray:
    """(T,) bool: the tokens at which a unit begins."""
    if unit == "token":
        return np.ones(len(boundaries), bool)
    return (boundaries & (MORPHEME if unit == "morpheme" else EOJEOL)) != 0


def choose(begins: np.ndarray, maskable: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """The positions to predict, ascending: whole units in random order until `rate` of the maskable tokens is reached.

    `begins`, `maskable`: (T,) bool.
    """
    positions = np.flatnonzero(maskable)
    if not len(positions):
        return positions
    # prepend=-2: the first of all positions starts a unit, too, even at 0
    starts = begins[positions] | (np.diff(positions, prepend=-2) > 1)  # a special token ends a unit
    unit = np.cumsum(starts) - 1  # (P,) the unit of each maskable token
    lengths = np.bincount(unit)
    order = rng.permutation(len(lengths))
    target = rate * len(positions)
    reached = np.cumsum(lengths[order])
    count = int(np.searchsorted(reached, target, side="right"))
    if count < len(order):
        # the last unit would exceed the target; it is taken with the probability that makes `rate` the expected share
        missing = target - (reached[count - 1] if count else 0)
        count += int(rng.random() < missing / lengths[order[count]])
    chosen = np.zeros(len(lengths), bool)
    chosen[order[:count]] = True
    return positions[chosen[unit]]


def replace(
    input_ids: np.ndarray,
    positions: np.ndarray,
    vocab_size: int,
    rng: np.random.Generator,
    mask_share: float = 0.8,
    random_share: float = 0.1,
    special: SpecialIds = OUR_IDS,
) -> np.ndarray:
    """A copy of `input_ids` in which the tokens at `positions` become [MASK] with probability `mask_share`, a random
    token with `random_share`, and else stay."""
    masked = input_ids.copy()
    draw = rng.random(len(positions))
    masked[positions[draw < mask_share]] = special.mask
    random = positions[(draw >= mask_share) & (draw < mask_share + random_share)]
    drawn = rng.integers(0, vocab_size - len(special.every), len(random))
    for id_ in special.every:  # ascending: what was drawn is the rank among the ids that are not special
        drawn += drawn >= id_
    # which may be the original token again, as in BERT
    masked[random] = drawn
    return masked
