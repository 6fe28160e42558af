"""The nouns of the front end: a `Morpheme` (a span of the text) and the `Cut` of a whole text.

A morpheme is a span of the text and nothing else: Kiwi restores forms (했다 -> 하 + 었 + 다 over two characters), so forms are not
substrings and joining them does not give the text back. Spans do: every character that is not white space lies in exactly one.
"""

from typing import NamedTuple

WORD_MARK = "▁"
"""Stands before the first morpheme of an eojeol in the vocabulary (U+2581, as SentencePiece writes it)."""

MAX_MORPHEME_CHARACTERS = 64
"""A longer run (an URL, 'ㅋ' 200 times) is cut, so that no subword model has to give up on it."""


class Morpheme(NamedTuple):
    """Characters `start` to `end` (exclusive) of the text; `sentence` counts from 0."""

    start: int
    end: int
    sentence: int


Cut = list[Morpheme]
"""The morphemes of one text in order: disjoint, no white space inside, all other characters covered."""


def starts_eojeol(text: str, start: int) -> bool:
    """Whether white space (or nothing) stands before `start`."""
    return start == 0 or text[start - 1].isspace()


def marked(text: str, morpheme: Morpheme) -> str:
    """The morpheme as the subword model sees it: with `WORD_MARK` where an eojeol begins."""
    surface = text[morpheme.start : morpheme.end]
    return WORD_MARK + surface if starts_eojeol(text, morpheme.start) else surface
