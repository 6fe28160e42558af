"""Document filters: the reason why a document is dropped, which is counted in the manifest, or None.

The rules on repetition are Gopher's (Rae et al. 2021, table A1), over eojeols: a Korean eojeol is worth two or three
English words, so one short n-gram and one threshold are enough. The thresholds were set on real corpora, see
docs/corpus.md.
"""

from collections import Counter
from collections.abc import Callable

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
    # a text has few different characters, so counting them first makes the checks below several times as fast
    counts = Counter(text)
    letters = sum(count for character, count in counts.items() if character.isalpha())
    visible = sum(count for character, count in counts.items() if not character.isspace())
    symbols = visible - sum(count for character, count in counts.items() if character.isalnum())
    hangul = sum(
        count for character, count in counts.items() if any(first <= ord(character) <= last for first, last in HANGUL)
    )
    return (hangul / letters if letters else 0.0), (symbols / visible if visible else 0.0)


def repeated_lines(text: str) -> float:
    """Share of the characters that are in lines which occurred before."""
    lines = text.split("\n")
    total = sum(map(len, lines))
    return 1 - sum(map(len, dict.fromkeys(lines))) / total if total else 0.0


def repeated_eojeols(text: str) -> float:
    """Share of the runs of `N_GRAM` eojeols that occurred before."""
    words = text.split()
    grams = list(zip(*(words[i:] for i in range(N_GRAM)), strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
