"""Spans of a context as answers: the tokens of an answer, and the scores of all spans of a window that may be one."""

import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kobert_pipeline.features.task import without_leading_space
from kobert_pipeline.morphemes.normalization import remove_invisible

BRACKETS = ("()", "[]", "{}", "（）", "《》", "〈〉", "「」", "『』", "“”", "‘’")
"""Opening and closing brackets and quotation marks."""
APOSTROPHE = r"(?<=[A-Za-z])’(?=[A-Za-z])|(?<!\S)’(?=\w)"
"""The closing quotation mark where it is none: Schindler’s, ’90년대."""
EMPTY = np.zeros(0), np.zeros((0, 2), np.int64)
"""What `ScoredWindow.spans` gives where there are none."""


class ScoredWindow(NamedTuple):
    """A window of L tokens, and what is needed to score each of its spans as an answer."""

    starts: np.ndarray
    """(L,): what an answer that begins with each token scores; -inf where none may begin."""
    ends: np.ndarray
    """(L,): the same for the token that it ends with."""
    offsets: np.ndarray
    """(L, 2): the characters of each token in the context; negative for tokens outside it."""
    longest: int
    """Most tokens of an answer."""
    candidates: tuple[np.ndarray, np.ndarray] | None = None
    """Lengths and priors, (L, SLOTS) both, as `AnswerPriors.of_candidates` gives them."""
    parts: np.ndarray | None = None
    """The `text_parts` of the context, if an answer must begin and end at places with the same number."""

    def scores(self) -> tuple[int, np.ndarray]:
        """The first token of the context, and the scores (C, C) of the spans from each of its C tokens to each, -inf
        for spans that may not be answers."""
        inside = np.flatnonzero(self.offsets[:, 0] >= 0)
        if not len(inside):
            return 0, np.zeros((0, 0))
        low, high = inside[0], inside[-1] + 1  # (L,) -context-> (C,): the context is one run
        # (C,) + (C,) -> (C, C)
        scores = self.starts[low:high, None].astype(np.float64) + self.ends[None, low:high]
        if self.candidates:
            for lengths, priors in zip(*(array[low:high].T for array in self.candidates), strict=True):
                firsts = np.flatnonzero(lengths)
                # no cell twice: in one slot each first token has one candidate
                scores[firsts, firsts + lengths[firsts].astype(int) - 1] += priors[firsts]
        # start <= end, and at most `longest` tokens: a band above the diagonal
        allowed = np.triu(np.ones_like(scores, bool)) & np.tril(np.ones_like(scores, bool), self.longest - 1)
        if self.parts is not None:
            first, last = self.parts[self.offsets[low:high]].T
            allowed &= first[:, None] == last[None, :]
        scores[~allowed] = -np.inf
        return int(low), scores

    def best(self) -> tuple[float, int, int] | None:
        """The (score, first character, end character) of the best span; None where no span may be an answer."""
        low, scores = self.scores()
        if not scores.size:
            return None
        first, last = np.unravel_index(int(scores.argmax()), scores.shape)
        if scores[first, last] == -np.inf:  # no word of the context ends within `longest` tokens
            return None
        return float(scores[first, last]), int(self.offsets[low + first, 0]), int(self.offsets[low + last, 1])

    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """The scores (n,) of all spans that may be answers, and their characters (n, 2)."""
        low, scores = self.scores()
        firsts, lasts = np.nonzero(scores > -np.inf)
        spans = np.stack([self.offsets[low + firsts, 0], self.offsets[low + lasts, 1]], axis=1)
        return scores[firsts, lasts], spans.astype(np.int64)


@lru_cache(maxsize=16)
def text_parts(text: str) -> np.ndarray:
    """Numbers for the places between characters, (characters + 1,): an answer that crosses no line break and has as
    many opening as closing brackets of each kind begins and ends at places with the same number. Cached, because the
    windows of a context share it."""
    characters = np.array([*re.sub(APOSTROPHE, "'", text)])
    breaks = [characters == "\n"]
    halves = [(characters == pair[0]).astype(int) - (characters == pair[1]) for pair in BRACKETS]
    # between two places with equal counts there is no line break, and each bracket has its other half, in any order
    before = np.cumsum([*breaks, *halves], axis=1)  # up to each character
    # (counts, C) -> (counts, C + 1) -> (C + 1,)
    return np.unique(np.insert(before, 0, 0, axis=1), axis=1, return_inverse=True)[1]


def context_offsets(context: str, offsets: list[tuple[int, int]], sides: list[int | None]) -> list[tuple[int, int]]:
    """The characters of each token of a window, without leading spaces; (-1, -1) for tokens outside the context, since
    offsets of the question would be mistaken for characters of the context."""
    return [
        without_leading_space(context, span) if side == 1 else (-1, -1)
        for span, side in zip(offsets, sides, strict=True)
    ]


def word_boundaries(offsets: list[list[tuple[int, int]]], encoded: Any, example_of: list[int]) -> np.ndarray:
    """For each token of all windows, (tokens, 2): whether a word of the context begins with it, and whether one ends
    with it. A word that the end of a window cuts ends in the next window. `encoded` is what the tokenizer gave."""
    first: dict[tuple[int, int | None], int] = {}
    last: dict[tuple[int, int | None], int] = {}
    word_ids = [encoded.word_ids(window) for window in range(len(offsets))]
    windows = list(zip(offsets, word_ids, example_of, strict=True))
    for row, words, example in windows:
        for (start, end), word in zip(row, words, strict=True):
            if start >= 0:  # the question's words have the same ids
                key = example, word
                first[key], last[key] = min(first.get(key, start), start), max(last.get(key, end), end)
    return np.array(
        [
            (start == first[example, word], end == last[example, word]) if start >= 0 else (False, False)
            for row, words, example in windows
            for (start, end), word in zip(row, words, strict=True)
        ],
        np.uint8,
    )


def answer_tokens(offsets: list[tuple[int, int]], answers: list[list[Any]]) -> tuple[int, int]:
    """First and last token of the first answer, or (0, 0), which is [CLS], where the window does not contain all of
    it."""
    if not answers:
        return 0, 0
    # a window that holds only a part of the answer is trained as one without it, as in BERT's run_squad
    text, start = answers[0]
    # tokens exclude white space and invisible characters
    visible = [position for position, character in enumerate(text, start) if remove_invisible(character).strip()]
    start, end = (visible[0], visible[-1] + 1) if visible else (0, 0)
    # of tokens that share a character the outer ones, which hold all of the answer
    first = [i for i, (left, right) in enumerate(offsets) if left <= start < right]
    last = [i for i, (left, right) in enumerate(offsets) if left < end <= right]
    return (first[0], last[-1]) if first and last else (0, 0)
