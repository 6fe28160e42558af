"""The part-of-speech feature: token types that also say which part of speech a token of the context is.

A model with little pretraining has hardly seen most names, nor where the particle after one begins; the analyzer knows
both. Chen et al. (ACL 2017, "Reading Wikipedia to answer open-domain questions") give their reader such tags, too.
"""

import random
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from kobert_pipeline.morphemes.normalization import nfc_with_offsets, replace_surrogates
from kobert_pipeline.questions.answer_candidates import tagged_sentences
from kobert_pipeline.questions.exact_match import TYPES

CLASSES = (
    ("NNP",), ("NNG",), ("NNB", "NR", "NP"), ("SN", "W_"), ("SL", "SH"), ("X",), ("J",), ("VCP",), ("V",), ("E",),
    ("M",), ("SS",), ("S",),
)  # fmt: skip
"""Beginnings of Kiwi's tags, the first that fits: names, nouns, bound nouns with numerals and pronouns, numbers,
foreign letters, affixes, particles, the copula, verbs, endings, adverbs and determiners, quotes and brackets, other
symbols. A class is its number here, from 1; 0 is a token without a tag."""
# at most 256, since features store token types as uint8
POS_TYPES = TYPES * (1 + len(CLASSES))
"""Number of token types: those of `match_types`, once for each class."""
UNTAGGED_SHARE = 0.1
"""How many training examples have no tags, so that a model can also be used without the analyzer."""


def with_parts_of_speech(types: Sequence[int], offsets: Sequence[tuple[int, int]], classes: np.ndarray) -> list[int]:
    """The token types of a window (L), `match_types`, each in the block of its token's class. `offsets` are characters
    of the context, negative outside it, and `classes` those of the context's characters."""
    return [
        kind + TYPES * int(classes[start]) if start >= 0 and kind else kind
        for kind, (start, _) in zip(types, offsets, strict=True)
    ]


@lru_cache(maxsize=64)
def classes_of(context: str) -> np.ndarray:
    """The class of each character of a text and of its end, (C + 1,) uint8, of morphemes that share a character the
    first. Cached, because questions share contexts."""
    text, starts, ends = nfc_with_offsets(replace_surrogates(context))
    classes = np.zeros(len(context) + 1, np.uint8)  # a token of white space may be at the end
    for sentence in tagged_sentences(text):
        for _, tag, start, end in sentence:
            if start < end:
                part = classes[starts[start] : ends[end - 1]]  # a view: what is assigned to it is in `classes`
                part[part == 0] = _class_of(tag)
    return classes


@lru_cache
def _class_of(tag: str) -> int:
    return next((number for number, tags in enumerate(CLASSES, 1) if tag.startswith(tags)), 0)


def is_untagged(identity: str) -> bool:
    """Whether a training example, by its id, is one of those without tags."""
    return random.Random(identity).random() < UNTAGGED_SHARE
