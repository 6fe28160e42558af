"""Document filters: the reason why a document is dropped, which is counted in the manifest, or None.

The rules on repetition are Gopher's (Rae et al. 2021, table A1), over eojeols: a Korean eojeol is worth two or three
English words, so one short n-gram and one threshold are enough. The thresholds were set on real corpora, see
docs/corpus.md.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.document import Document

HANGUL = ((0xAC00, 0xD7A3), (0x3131, 0x318E), (0x1100, 0x11FF))  # syllables, compatibility jamo, conjoining jamo
N_GRAM = 4
"""Eojeols in a run that is checked for repetition."""
LONG_ENOUGH = 200
"""Characters from which a document is checked for repetition."""


class FilterOptions(Options):
    """Thresholds of the document filters."""

    min_characters: int = Field(10, ge=0)
    """Shorter documents are dropped as `short`."""
    min_hangul: float = Field(0.2, ge=0, le=1)
    """Documents with a smaller share of Hangul among their letters are dropped as `not_korean`."""
    max_symbols: float = Field(0.4, ge=0, le=1)
    """Documents with a larger share of characters that are neither letters, digits nor white space are dropped as
    `symbols`."""
    max_repeated_lines: float = Field(0.3, ge=0, le=1)
    """Documents with a larger share of their characters in repeated lines are dropped as `repeated_lines`; 1 keeps
    all."""
    max_repeated_eojeols: float = Field(0.4, ge=0, le=1)
    """Documents with a larger share of repeated runs of four eojeols are dropped as `repeated_eojeols`; 1 keeps
    all."""


def reason_to_drop(document: Document, options: FilterOptions) -> str | None:
    """The reason to drop `document`, or None to keep it."""
    text = document.text
    if len(text) < options.min_characters:
        return "short"
    hangul, symbols = shares(text)
    if hangul < options.min_hangul:
        return "not_korean"
    if symbols > options.max_symbols:
        return "symbols"
    if len(text) < LONG_ENOUGH:
        return None
    checks: dict[str, tuple[Callable[[str], float], float]] = {
        "repeated_lines": (repeated_lines, options.max_repeated_lines),
        "repeated_eojeols": (repeated_eojeols, options.max_repeated_eojeols),
    }
    return next((reason for reason, (share, most) in checks.items() if most < 1 and share(text) > most), None)


def shares(text: str) -> tuple[float, float]:
    """The share of Hangul (syllables and jamo) among the letters of `text`, and the share of symbols among its
    characters without white space; 0.0 for an empty denominator."""
    # (characters,) code points -> (characters,) kinds by one table lookup
    codes = np.minimum(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32), len(_kinds()) - 1)
    letters, digits, symbols = (int(np.count_nonzero(_kinds()[codes] == kind)) for kind in (1, 2, 3))
    hangul = sum(int(np.count_nonzero((codes >= first) & (codes <= last))) for first, last in HANGUL)
    return (hangul / letters if letters else 0.0), (symbols / (letters + digits + symbols) if symbols else 0.0)


@cache
def _kinds() -> np.ndarray:
    """The kind of each code point: 0 white space, 1 letter, 2 digit, 3 anything else. The last entry stands for all
    beyond the Basic Multilingual Plane."""
    return np.array([*(_kind(chr(code)) for code in range(0x10000)), 3], np.uint8)


def _kind(character: str) -> int:
    if character.isspace():
        return 0
    if character.isalpha():
        return 1
    return 2 if character.isalnum() else 3


def repeated_lines(text: str) -> float:
    """Share of the characters that are in lines which occurred before."""
    lines = text.split("\n")
    total = sum(map(len, lines))
    return 1 - sum(map(len, dict.fromkeys(lines))) / total if total else 0.0


def repeated_eojeols(text: str) -> float:
    """Share of the runs of `N_GRAM` eojeols that occurred before."""
    numbers: dict[str, int] = {}
    ids = np.array([numbers.setdefault(eojeol, len(numbers)) for eojeol in text.split()], np.uint64)
    count = len(ids) - N_GRAM + 1
    if count < 1:
        return 0.0
    # one hash per n-gram, a sum of products modulo 2^64: overflow is meant
    with np.errstate(over="ignore"):
        grams = sum(
            # + 1, because the first eojeol has the number 0, and would add nothing at any place
            (ids[i : i + count] + np.uint64(1)) * np.uint64(pow(0x9E3779B97F4A7C15, i + 1, 2**64))
            for i in range(N_GRAM)
        )
    return 1 - len(np.unique(grams)) / count
