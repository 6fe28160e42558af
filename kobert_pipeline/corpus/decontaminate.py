"""Decontamination: find training paragraphs that overlap evaluation texts. Paragraphs are removed, not documents.

A paragraph is contaminated if, ignoring white space, it shares `RUN` consecutive characters with an evaluation text, or
contains a whole shorter one of at least `MIN_WHOLE` letters, `MIN_KINDS` of them different. In a document whose order
means something both may go over several lines, each of which is then contaminated: the text may have been wrapped
at a fixed width.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from kobert_pipeline.corpus.cleaning import to_nfc
from kobert_pipeline.morphemes.normalization import remove_invisible

RUN = 30
MIN_WHOLE = 10
MIN_KINDS = 3
"""Different letters that a text matched as a whole must have; laughter (ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ) is not evidence."""


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
            # a distinctive text has at least MIN_WHOLE characters, so no key is shorter than what `_shared` looks up
            if len(text) < RUN and is_distinctive(text):
                self._short[text[:MIN_WHOLE]].append(text)

    def overlaps(self, paragraph: str) -> bool:
        """Whether `paragraph` is contaminated."""
        return any(True for _ in self._shared(remove_whitespace(paragraph)))

    def contaminated_lines(self, lines: list[str]) -> list[bool]:
        """Which lines of a document are contaminated, also by what goes over several of them."""
        compact = [remove_whitespace(line) for line in lines]
        contaminated = [False] * len(lines)
        # (lines,) positions in the joined text; an empty line ends where the line before it does
        ends = np.cumsum([len(text) for text in compact])
        for start, length in self._shared("".join(compact)):
            # right: the end of a line is the position of the next line's first character, past empty lines
            first, last = np.searchsorted(ends, [start, start + length - 1], side="right").tolist()
            contaminated[first : last + 1] = [True] * (last + 1 - first)
        return contaminated

    def _shared(self, text: str) -> Iterator[tuple[int, int]]:
        """The (start, length) in `text`, which has no white space, of the runs and of the whole shorter texts that are
        in the evaluation texts, too."""
        for i in range(len(text) - RUN + 1):
            if text[i : i + RUN] in self._runs:
                yield i, RUN
        for i in range(len(text) - MIN_WHOLE + 1):
            for whole in self._short.get(text[i : i + MIN_WHOLE], ()):
                if text.startswith(whole, i):
                    yield i, len(whole)
