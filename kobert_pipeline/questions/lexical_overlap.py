"""Lexical overlap: how many of a question's words each sentence of its context has.

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

from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.questions.answer_candidates import tagged_sentences

CONTENT = ("NN", "VV", "VA", "SN", "SL", "SH", "XR", "MAG")
"""Beginnings of the tags of content words: nouns, verbs, numbers, foreign words and adverbs."""
_EMPTY = """
하 되 있 이름 것 사람 곳 때 해 년 수 명 언제 얼마 얼마나 얼마큼 얼만큼 얼마간 왜 어떻
"""
EMPTY = frozenset(_EMPTY.split())
"""Words with these tags that say what a question asks for, or nothing."""


class Sentence(NamedTuple):
    """Characters `start` to `end` (exclusive) of a text, and the content words there."""

    start: int
    end: int
    words: frozenset[str]


@lru_cache(maxsize=64)
def sentences_of(text: str) -> tuple[Sentence, ...]:
    """The sentences of a text with their content words. Cached, because questions share contexts."""
    return tuple(
        Sentence(sentence[0].start, sentence[-1].end, content_words(sentence)) for sentence in tagged_sentences(text)
    )


def content_words(sentence: Sequence[TaggedMorpheme]) -> frozenset[str]:
    """The words of a sentence that say something."""
    return frozenset(morpheme.form for morpheme in sentence if morpheme.tag.startswith(CONTENT)) - EMPTY


def sentence_overlaps(question: str, context: str) -> list[tuple[int, int, float]]:
    """The (start, end, overlap) of each sentence of a context, in characters.

    The overlap, 0 to 1, is the sentence's share of the question's words that occur in the context; a word in n
    sentences weighs 1/n.
    """
    asked = frozenset[str]().union(*(content_words(sentence) for sentence in tagged_sentences(question)))
    sentences = sentences_of(context)
    shared = [asked & sentence.words for sentence in sentences]
    counts = Counter(chain.from_iterable(shared))
    total = fsum(1 / count for count in counts.values()) or 1.0  # fsum: sets have no order
    return [
        (sentence.start, sentence.end, fsum(1 / counts[word] for word in words) / total)
        for sentence, words in zip(sentences, shared, strict=True)
    ]


def token_overlaps(offsets: list[tuple[int, int]], overlaps: list[tuple[int, int, float]]) -> np.ndarray:
    """For each token of a window the overlap of the sentence that it begins in, (L,) float32; 0 for tokens outside the
    context, whose offsets are negative. `overlaps` are the `sentence_overlaps` of the context."""
    # (L,) 0: before the first sentence, as negative offsets are; i: in the i-th sentence, counted from 1
    sentences = np.searchsorted([start for start, _, _ in overlaps], [start for start, _ in offsets], side="right")
    return np.array([0.0, *(overlap for _, _, overlap in overlaps)], np.float32)[sentences]
