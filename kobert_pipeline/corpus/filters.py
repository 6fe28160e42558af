"""Reasons not to learn from a document. A filter says None (keep) or the reason, which is counted in the manifest.

The rules on repetition are those of Gopher (Rae et al. 2021, table A1), over eojeols: a Korean eojeol says as much as
two or three English words, so shorter n-grams and one threshold do. The thresholds were set on real corpora, see
docs/corpus.md.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.document import Document

HANGUL = ((0xAC00, 0xD7A3), (0x3131, 0x318E), (0x1100, 0x11FF))
N_GRAM = 4
"""Eojeols that count as repeated only together."""
LONG_ENOUGH = 200
"""Characters below which nothing is said of repetition."""


class FilterOptions(Options):
    """Thresholds of the document filters."""

    min_characters: int = Field(10, ge=0)
    """Shorter documents are dropped as `short`."""
    min_hangul: float = Field(0.2, ge=0, le=1)
    """Share of letters that must be Hangul, else `not_korean`."""
    max_symbols: float = Field(0.4, ge=0, le=1)
    """Share of characters (white space aside) that may be neither letters nor digits, else `symbols`."""
    max_repeated_lines: float = Field(0.3, ge=0, le=1)
    """Share of a document's characters that may lie in lines it has had before, else `repeated_lines`; 1 keeps all."""
    max_repeated_eojeols: float = Field(0.4, ge=0, le=1)
    """Share of its runs of four eojeols that it may have had before, else `repeated_eojeols`; 1 keeps all."""


def reason_to_drop(document: Document, options: FilterOptions) -> str | None:
    """Why `document` is dropped, or None."""
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
    """Hangul syllables and jamo among the letters of `text`, and symbols among its characters; 0 where there are none
    of either."""
    codes = np.minimum(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32), len(_kinds()) - 1)
    letters, digits, symbols = (int(np.count_nonzero(_kinds()[codes] == kind)) for kind in (1, 2, 3))
    hangul = sum(int(np.count_nonzero((codes >= first) & (codes <= last))) for first, last in HANGUL)
    return (hangul / letters if letters else 0.0), (symbols / (letters + digits + symbols) if symbols else 0.0)


@cache
def _kinds() -> np.ndarray:
    """Per code point 0 white space, 1 letter, 2 digit, 3 anything else; one entry for all beyond the Basic Multilingual
    Plane."""
    kinds = [
        0 if one.isspace() else 1 if one.isalpha() else 2 if one.isalnum() else 3 for one in map(chr, range(0x10000))
    ]
    return np.array([*kinds, 3], np.uint8)


def repeated_lines(text: str) -> float:
    """Share of the characters that lie in lines that stood before."""
    lines = text.split("\n")
    total = sum(map(len, lines))
    return 1 - sum(map(len, dict.fromkeys(lines))) / total if total else 0.0


def repeated_eojeols(text: str) -> float:
    """Share of the runs of `N_GRAM` eojeols that stood before."""
    numbers: dict[str, int] = {}
    ids = np.array([numbers.setdefault(eojeol, len(numbers)) for eojeol in text.split()], np.uint64)
    count = len(ids) - N_GRAM + 1
    if count < 1:
        return 0.0
    with np.errstate(over="ignore"):
        grams = sum(
            (ids[i : i + count] + np.uint64(1)) * np.uint64(pow(0x9E3779B97F4A7C15, i + 1, 2**64))
            for i in range(N_GRAM)
        )
    return 1 - len(np.unique(grams)) / count
