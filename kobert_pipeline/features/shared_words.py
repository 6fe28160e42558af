"""How many of a question's words each sentence of its context has.

Counting shared words finds the right sentence more often than a model with little training does, and the two make
different mistakes (docs/results/questions.md).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kobert_pipeline.features.candidates import tagged_sentences

CONTENT = ("NN", "VV", "VA", "SN", "SL", "SH", "XR", "MAG")
"""Beginnings of the tags of words that say something: nouns, verbs, numbers, foreign words and adverbs."""
_EMPTY = """
무엇 누구 어디 언제 얼마 몇 하 되 있 이름 것 사람 곳 때 해 년
"""
EMPTY = frozenset(_EMPTY.split())
"""Words of questions that say what is asked for, or nothing."""


class Sentence(NamedTuple):
    """Characters `start` to `end` (exclusive) of a context, and the words there."""

    start: int
    end: int
    words: frozenset[str]


@lru_cache(maxsize=1024)
def sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences of a text with their words. Kept, because questions share contexts."""
    return tuple(
        Sentence(found[0].start, found[-1].end, frozenset(m.form for m in found if m.tag.startswith(CONTENT)) - EMPTY)
        for found in tagged_sentences(text)
    )


def shares(question: str, context: str) -> list[tuple[int, int, float]]:
    """The (start, end, share) of each sentence of a context, in characters.

    A share is a part, 0 to 1, of the question's words that the context has, where a word counts the less the more
    sentences have it.
    """
    asked = frozenset[str]().union(*(sentence.words for sentence in sentences(question)))
    found = sentences(context)
    common = [asked & sentence.words for sentence in found]
    numbers = {word: sum(word in words for words in common) for word in frozenset[str]().union(*common)}
    total = sum(1 / number for number in numbers.values()) or 1.0
    return [
        (sentence.start, sentence.end, sum(1 / numbers[word] for word in words) / total)
        for sentence, words in zip(found, common, strict=True)
    ]


def token_shares(offsets: list[tuple[int, int]], found: list[tuple[int, int, float]]) -> np.ndarray:
    """For each token of a window, (L,), the share of the sentence it begins in; 0 for tokens outside the context, whose
    offsets are negative."""
    places = np.searchsorted([start for start, _, _ in found], [start for start, _ in offsets], side="right")
    return np.array([0.0, *(share for _, _, share in found)], np.float32)[places]
