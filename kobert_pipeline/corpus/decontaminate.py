"""Keep evaluation texts out of training texts: by paragraph (a single review is a paragraph), never by whole document.

A paragraph is contaminated when, white space ignored, it shares a run of `RUN` characters with an evaluation text, or
holds the whole of one that has at least `WHOLE` letters of `KINDS` kinds. Runs, and the first `WHOLE` characters of
texts shorter than a run, are found by a rolling hash over the paragraph (vectorised) and then confirmed letter by
letter.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

RUN = 30
MIN_WHOLE = 10
MIN_KINDS = 3
"""Kinds of letters in a text that is found as a whole; laughter (ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ) is nobody's text."""
_BASE = 0x9E3779B97F4A7C15  # odd, so it has an inverse modulo 2^64
_INVERSE = pow(_BASE, -1, 2**64)


def remove_whitespace(text: str) -> str:
    """`text` without white space."""
    return "".join(text.split())


def count_letters(text: str) -> int:
    """How many characters of `text` are letters or digits."""
    return sum(character.isalnum() for character in text)


def is_distinctive(text: str) -> bool:
    """Whether `text` (squeezed) is found as a whole: at least `WHOLE` letters or digits, of at least `KINDS` kinds."""
    return count_letters(text) >= MIN_WHOLE and len(set(filter(str.isalnum, text))) >= MIN_KINDS


class EvaluationTexts:
    """Everything that must not be trained on."""

    def __init__(self, texts: Iterable[str]) -> None:
        squeezed_texts = {remove_whitespace(text) for text in texts}
        self._runs = {text[i : i + RUN] for text in squeezed_texts for i in range(len(text) - RUN + 1)}
        self._short: dict[str, list[str]] = defaultdict(list)
        for text in squeezed_texts:
            if len(text) < RUN and is_distinctive(text):
                self._short[text[:MIN_WHOLE]].append(text)
        self._run_hashes = np.unique(
            np.concatenate([np.empty(0, np.uint64), *(run_hashes(text) for text in squeezed_texts)])
        )
        self._short_hashes = np.unique(
            np.concatenate([np.empty(0, np.uint64), *(run_hashes(text, MIN_WHOLE) for text in self._short)])
        )

    def overlaps(self, paragraph: str) -> bool:
        """Whether `paragraph` is contaminated."""
        text = remove_whitespace(paragraph)
        return any(text[i : i + RUN] in self._runs for i in _matches(run_hashes(text), self._run_hashes)) or any(
            text.startswith(whole, i)
            for i in _matches(run_hashes(text, MIN_WHOLE), self._short_hashes)
            for whole in self._short.get(text[i : i + MIN_WHOLE], ())
        )


def _matches(hashes: np.ndarray, known: np.ndarray) -> Iterator[int]:
    """Where one of `known` (sorted) stands among `hashes`."""
    if len(hashes) and len(known):
        found = np.searchsorted(known, hashes)
        found[found == len(known)] = 0
        yield from np.flatnonzero(known[found] == hashes).tolist()


def run_hashes(text: str, size: int = RUN) -> np.ndarray:
    """Hashes (uint64) of all runs of `size` characters: sums of code * base^i modulo 2^64, shifted back to the run's
    start."""
    count = len(text) - size + 1
    if count < 1:
        return np.empty(0, np.uint64)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(codes * _powers(_BASE, len(codes)))])
        return (sums[size:] - sums[:count]) * _powers(_INVERSE, count)


_tables: dict[int, np.ndarray] = {}


def _powers(base: int, count: int) -> np.ndarray:
    if base not in _tables or len(_tables[base]) < count:
        table = np.full(max(count, 4096), base, np.uint64)
        table[0] = 1
        _tables[base] = np.multiply.accumulate(table)
    return _tables[base][:count]
