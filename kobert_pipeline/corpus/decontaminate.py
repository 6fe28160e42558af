"""Keep evaluation texts out of training texts: by paragraph (a single review is a paragraph), never by whole document.

A paragraph is contaminated when, white space ignored, it shares a run of `RUN` characters with an evaluation text, or is one as a whole
and has at least `WHOLE` letters. Runs are found by a rolling hash over the paragraph (vectorised) and then confirmed letter by letter.
"""

from collections.abc import Iterable

import numpy as np

RUN = 30
WHOLE = 10
_BASE = 0x9E3779B97F4A7C15  # odd, so it has an inverse modulo 2^64
_INVERSE = pow(_BASE, -1, 2**64)


def squeezed(text: str) -> str:
    """`text` without white space."""
    return "".join(text.split())


def letters(text: str) -> int:
    """How many characters of `text` are letters or digits."""
    return sum(character.isalnum() for character in text)


class Evaluation:
    """Everything that must not be trained on."""

    def __init__(self, texts: Iterable[str]) -> None:
        squeezed_texts = [squeezed(text) for text in texts]
        self.whole = {text for text in squeezed_texts if letters(text) >= WHOLE}
        self._runs = {text[i : i + RUN] for text in squeezed_texts for i in range(len(text) - RUN + 1)}
        self._hashes = np.unique(np.concatenate([np.empty(0, np.uint64), *map(run_hashes, squeezed_texts)]))

    def holds(self, paragraph: str) -> bool:
        """Whether `paragraph` is contaminated."""
        text = squeezed(paragraph)
        if text in self.whole:
            return True
        hashes = run_hashes(text)
        if not len(hashes) or not len(self._hashes):
            return False
        places = np.searchsorted(self._hashes, hashes)
        places[places == len(self._hashes)] = 0
        return any(text[i : i + RUN] in self._runs for i in np.flatnonzero(self._hashes[places] == hashes))


def run_hashes(text: str) -> np.ndarray:
    """Hashes (uint64) of all runs of `RUN` characters: sums of code * base^i modulo 2^64, shifted back to the run's start."""
    count = len(text) - RUN + 1
    if count < 1:
        return np.empty(0, np.uint64)
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(codes * _powers(_BASE, len(codes)))])
        return (sums[RUN:] - sums[:count]) * _powers(_INVERSE, count)


_tables: dict[int, np.ndarray] = {}


def _powers(base: int, count: int) -> np.ndarray:
    if base not in _tables or len(_tables[base]) < count:
        table = np.full(max(count, 4096), base, np.uint64)
        table[0] = 1
        _tables[base] = np.multiply.accumulate(table)
    return _tables[base][:count]
