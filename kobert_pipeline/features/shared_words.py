"""How many of a question's words each sentence of its context has.

Counting shared words finds the right sentence more often than a model with little training does, and the two make
different mistakes (docs/results/questions.md).
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from math import fsum
from typing import NamedTuple

import numpy as np

from kobert_pipeline.features.candidates import Tagged, tagged_sentences

CONTENT = ("NN", "VV", "VA", "SN", "SL", "SH", "XR", "MAG")
"""Beginnings of the tags of words that say something: nouns, verbs, numbers, foreign words and adverbs."""
_EMPTY = """
하 되 있 이름 것 사람 곳 때 해 년 수 명 언제 얼마 얼마나 왜 어떻
"""
EMPTY = frozenset(_EMPTY.split())
"""Words with these tags that say what a question asks for, or nothing."""


class Sentence(NamedTuple):
    """Characters `start` to `end` (exclusive) of a context, and the words there."""

    start: int
    end: int
    words: frozenset[str]


@lru_cache(maxsize=64)
def sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences of a text with their words. Kept, because questions share contexts."""
    return tuple(Sentence(found[0].start, found[-1].end, words(found)) for found in tagged_sentences(text))


def words(sentence: Sequence[Tagged]) -> frozenset[str]:
    """The words of a sentence that say something."""
    return frozenset(morpheme.form for morpheme in sentence if morpheme.tag.startswith(CONTENT)) - EMPTY


def shares(question: str, context: str) -> list[tuple[int, int, float]]:
    """The (start, end, share) of each sentence of a context, in characters.

    The share, 0 to 1, is of those words of the question that occur in the context; a word in n sentences weighs 1/n.
    """
    asked = frozenset[str]().union(*(words(sentence) for sentence in tagged_sentences(question)))
    found = sentences(context)
    common = [asked & sentence.words for sentence in found]
    numbers = Counter(chain.from_iterable(common))
    total = fsum(1 / number for number in numbers.values()) or 1.0  # fsum: sets have no order
    return [
        (sentence.start, sentence.end, fsum(1 / numbers[word] for word in shared) / total)
        for sentence, shared in zip(found, common, strict=True)
    ]


def token_shares(offsets: list[tuple[int, int]], found: list[tuple[int, int, float]]) -> np.ndarray:
    """For each token of a window, (L,), the share of the sentence it begins in; 0 for tokens outside the context, whose
    offsets are negative."""
    places = np.searchsorted([start for start, _, _ in found], [start for start, _ in offsets], side="right")
    return np.array([0.0, *(share for _, _, share in found)], np.float32)[places]
