"""Decontamination: find training paragraphs that overlap evaluation texts. Paragraphs are removed, not documents.

A paragraph is contaminated if, ignoring white space, it shares `RUN` consecutive characters with an evaluation text, or
contains a whole shorter one of at least `MIN_WHOLE` letters, `MIN_KINDS` of them different. In a document whose order
means something both may go over several lines, each of which is then contaminated: the text may have been wrapped
at a fixed width. Candidates are found by a vectorised rolling hash and then compared character by character.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from kobert_pipeline.corpus.cleaning import to_nfc
from kobert_pipeline.morphemes.normalization import remove_invisible

RUN = 30
BLOCK = 1_000_000
"""Characters of a document that are hashed at once, so that memory does not grow with its length."""
MIN_WHOLE = 10
MIN_KINDS = 3
"""Different letters that a text matched as a whole must have; laughter (ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ) is not evidence."""
_BASE = 0x9E3779B97F4A7C15  # odd, so it has an inverse modulo 2^64
_INVERSE = pow(_BASE, -1, 2**64)


def remove_whitespace(text: str) -> str:
    """`text` without white space."""
    return "".join(text.split())


def comparable(text: str) -> str:
    """What two texts have in common that are read as the same one: composed (NFC), without white space and invisible
    characters."""
    return remove_whitespace(to_nfc(remove_invisible(text)))


def count_letters(text: str) -> int:
    """How many characters of `text` are letters or digits."""
    return sum(character.isalnum() for character in text)


def is_distinctive(text: str) -> bool:
    """Whether `text` (without white space) says enough to be matched as a whole: at least `MIN_WHOLE` letters or
    digits, `MIN_KINDS` of them different."""
    return count_letters(text) >= MIN_WHOLE and len(set(filter(str.isalnum, text))) >= MIN_KINDS


class EvaluationTexts:
    """An index of evaluation texts, which must not be in the training data."""

    def __init__(self, texts: Iterable[str]) -> None:
        compact = {remove_whitespace(text) for text in texts}
        self._runs = {text[i : i + RUN] for text in compact for i in range(len(text) - RUN + 1)}
        self._short: dict[str, list[str]] = defaultdict(list)  # by their first MIN_WHOLE characters
        # texts of RUN characters or more are in `_runs`, so only shorter ones have to be found as a whole
        for text in compact:
            if len(text) < RUN and is_distinctive(text):
                self._short[text[:MIN_WHOLE]].append(text)
        none = np.empty(0, np.uint64)
        self._run_hashes = np.unique(np.concatenate([none, *(run_hashes(text) for text in compact)]))
        self._short_hashes = np.unique(np.concatenate([none, *(run_hashes(text, MIN_WHOLE) for text in self._short)]))

    def overlaps(self, paragraph: str) -> bool:
        """Whether `paragraph` is contaminated."""
        return any(True for _ in self._shared(remove_whitespace(paragraph)))

    def contaminated_lines(self, lines: list[str]) -> list[bool]:
        """Which lines of a document are contaminated, also by what goes over several of them."""
        compact = [remove_whitespace(line) for line in lines]
        contaminated = [False] * len(lines)
        ends = np.cumsum([len(text) for text in compact])
        for start, length in self._shared("".join(compact)):
            first, last = np.searchsorted(ends, [start, start + length - 1], side="right").tolist()
            contaminated[first : last + 1] = [True] * (last + 1 - first)
        return contaminated

    def _shared(self, text: str) -> Iterator[tuple[int, int]]:
        """The (start, length) in `text`, which has no white space, of the runs and of the whole shorter texts that are
        in the evaluation texts, too."""
        for begin in range(0, len(text), BLOCK):
            # with the first characters of the next block, so that what crosses their border is found
            block = text[begin : begin + BLOCK + RUN - 1]
            # equal hashes only propose a place: the characters decide, so a collision drops no paragraph
            for i in _matches(run_hashes(block), self._run_hashes):
                if block[i : i + RUN] in self._runs:
                    yield begin + i, RUN
            for i in _matches(run_hashes(block, MIN_WHOLE), self._short_hashes):
                for whole in self._short.get(block[i : i + MIN_WHOLE], ()):
                    if block.startswith(whole, i):
                        yield begin + i, len(whole)


def _matches(hashes: np.ndarray, known: np.ndarray) -> Iterator[int]:
    """The indices of `hashes` whose value is in `known` (sorted)."""
    if len(hashes) and len(known):
        places = np.searchsorted(known, hashes)
        places[places == len(known)] = 0  # larger than all known; any index will do, since the values differ
        yield from np.flatnonzero(known[places] == hashes).tolist()


def run_hashes(text: str, size: int = RUN) -> np.ndarray:
    """Hashes of all runs of `size` characters, (len(text) - size + 1,) uint64: the sum of code * base^i modulo 2^64,
    with i counted from the start of the run."""
    count = len(text) - size + 1
    if count < 1:
        return np.empty(0, np.uint64)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        # differences of prefix sums give every run at once; times base^-start they do not depend on the position
        # codes (N,) -> sums (N + 1,) -> hashes (N - size + 1,)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(codes * _powers(_BASE, len(codes)))])
        return (sums[size:] - sums[:count]) * _powers(_INVERSE, count)


_tables: dict[int, np.ndarray] = {}


def _powers(base: int, count: int) -> np.ndarray:
    """base^0, base^1, ... modulo 2^64, (count,) uint64; kept for the next call."""
    if base not in _tables or len(_tables[base]) < count:
        table = np.full(max(count, 4096), base, np.uint64)
        table[0] = 1
        _tables[base] = np.multiply.accumulate(table)
    return _tables[base][:count]
