# SPDX-License-Identifier: Apache-2.0
"""The data types of this folder: a `Morpheme` (a span of a text) and the `Segmentation` of a whole text.

A morpheme is a span, not a string, because Kiwi restores forms (했다 -> 하 + 었 + 다 over two characters): joined forms
do not give the text back, spans do. In the styles `surface` and `none` every character that is not white space is in
exactly one span. In the others (`form`, `lemma`, `tagged`) the analyzer spells the morphemes, and spans may overlap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

WORD_MARK = "▁"
"""Prefix of the first morpheme of an eojeol in the vocabulary (U+2581, as in SentencePiece)."""

MAX_MORPHEME_CHARACTERS = 64
"""A longer run (a URL, 'ㅋ' 200 times) is split, since WordPiece gives a word beyond its length limit one [UNK]."""

STYLES = ("surface", "form", "lemma", "tagged", "none")
REPLACING = ("form", "lemma", "tagged")
"""Styles whose morphemes are spelled by the analyzer, not by the text."""


class Morpheme(NamedTuple):
    """Characters `start` to `end` (exclusive) of the text; `sentence` counts from 0; `spelling` is None where it equals
    the characters."""

    start: int
    end: int
    sentence: int
    spelling: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Segmentation:
    """The N morphemes of one text in order.

    `starts`, `ends`, `sentences` are (N,) int32 and never decrease; `initial` (N,) bool marks the first morpheme of
    each eojeol; `spellings` are N strings, or None where the text itself spells all of them.
    """

    starts: np.ndarray
    ends: np.ndarray
    sentences: np.ndarray
    initial: np.ndarray
    spellings: list[str] | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Morpheme]:
        spellings: Sequence[str | None] = [None] * len(self) if self.spellings is None else self.spellings
        rows = zip(self.starts.tolist(), self.ends.tolist(), self.sentences.tolist(), spellings, strict=True)
        return (Morpheme(*row) for row in rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Segmentation):
            return False
        return list(self) == list(other) and self.initial.tolist() == other.initial.tolist()

    def words(self, text: str) -> list[str]:
        """The morphemes as the subword model gets them: with `WORD_MARK` where an eojeol starts."""
        if self.spellings is None:
            rows = zip(self.starts.tolist(), self.ends.tolist(), self.initial.tolist(), strict=True)
            return [WORD_MARK + text[start:end] if first else text[start:end] for start, end, first in rows]
        return [
            WORD_MARK + spelling if first else spelling
            for spelling, first in zip(self.spellings, self.initial.tolist(), strict=True)
        ]
