"""The exact match feature: token types that say where a context has the words of its question.

A model with little pretraining must first learn to notice that two tokens are equal, which takes it longer than
anything else about questions. Chen et al. (ACL 2017, "Reading Wikipedia to answer open-domain questions") therefore
tell their reader which words of the context occur in the question. Here a token type also says how many of the
question's words are near a token, because a word alone says little about where the answer is.
"""

import numpy as np

NEAR = 16
"""Tokens on each side of a token that count as near it."""
LEVELS = 4
"""Degrees of how many of the question's words are near."""
ROUNDING = 1e-9
"""More than sums of the same numbers in another order differ by."""
TYPES = 1 + 2 * LEVELS
"""Number of token types: 0 outside the context; 1 (few or no words of the question are near) to `LEVELS` for tokens
that the question does not contain; the next `LEVELS` in the same way for tokens that it contains."""


def match_types(input_ids: list[int], sides: list[int | None]) -> np.ndarray:
    """The token types of a window, (L,) uint8: 0 outside the context.

    `sides` are 0 for tokens of the question, 1 for tokens of the context, and None for special tokens. A token of the
    question counts the less the more often it occurs in the context, as particles do. Levels are equal parts of the
    largest sum in the window.
    """
    ids, is_context = np.array(input_ids), np.array([side == 1 for side in sides], bool)
    context = ids[is_context]  # (L,) -> (C,)
    sums, in_question = np.zeros(len(context)), np.zeros(len(context), bool)
    for token in {token for token, side in zip(input_ids, sides, strict=True) if side == 0}:
        occurrences = np.flatnonzero(context == token)
        if len(occurrences):
            in_question[occurrences] = True
            # one at the first token that is near an occurrence, minus one after the last: their running sum counts them
            edges = np.zeros(len(context) + 1)
            # add.at, since occurrences near an end share an edge, which += would count once
            np.add.at(edges, np.maximum(occurrences - NEAR, 0), 1)
            np.add.at(edges, np.minimum(occurrences + NEAR + 1, len(context)), -1)
            sums += (np.cumsum(edges[:-1]) > 0) / len(occurrences)
    types = np.zeros(len(ids), np.uint8)
    # a share of exactly a half must not depend on the order of additions
    shares = sums / max(sums.max(initial=0), ROUNDING) + ROUNDING
    levels = np.minimum(shares * LEVELS, LEVELS - 1).astype(np.uint8)
    types[is_context] = 1 + levels + LEVELS * in_question
    return types
