"""One side of a tokenizer's input: its pieces for the subword model, and where each of them lies in the text as given."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .composing import composed
from .cutter import Cutter
from .morpheme import Cut

Span = tuple[int, int]
Side = str | list[str]
"""A text, or the words of a text that was split already."""


class Stretch(NamedTuple):
    """What lies between special tokens, or (`special`) such a token: its NFC text, where each character begins and ends in the text (or
    word) as given, the number of the given word, and whether it opens a text or word."""

    text: str
    begins: Sequence[int]
    finishes: Sequence[int]
    word: int
    opens: bool
    special: bool


@dataclass(slots=True)
class Pieces:
    """The P morphemes of a side, special tokens that are written in it included.

    `spellings` go to the subword model; `starts` and `ends` are their characters in the NFC text of all stretches in a row, whose N
    characters begin at `begins` and end at `finishes` in the text (or word) as given; `exact` says whether a spelling is those
    characters, `marks` counts the word mark before it (0 or 1); `words` is the given word of each, None where the side was one text.
    """

    spellings: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    exact: list[bool] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    begins: Sequence[int] = ()
    finishes: Sequence[int] = ()
    words: list[int] | None = None

    def locate(self, piece: int, start: int, end: int) -> Span:
        """Where the characters `start` to `end` of a spelling lie in the text as given. A spelling that replaces the text's has no
        places inside: all parts of it lie where the morpheme lies."""
        left, right = self.starts[piece], self.ends[piece]
        if self.exact[piece]:
            mark = self.marks[piece]
            left, right = left + max(start - mark, 0), left + max(end - mark, 0)
        if left < right:
            return self.begins[left], self.finishes[right - 1]
        place = self.begins[left] if left < len(self.begins) else (self.finishes[-1] if self.finishes else 0)
        return place, place

    def add(self, stretch: Stretch, cut: Cut | None) -> None:
        """Append a stretch and its cut (None for a special token)."""
        shift = len(self.begins)
        # most texts are one stretch in NFC, whose characters are simply counted: a range says it without a number for each
        self.begins = [*self.begins, *stretch.begins] if shift else stretch.begins
        self.finishes = [*self.finishes, *stretch.finishes] if shift else stretch.finishes
        if cut is None:
            spellings, starts, ends, exact, marks = [stretch.text], [0], [len(stretch.text)], [True], [0]
        else:
            spellings, starts, ends = cut.pieces(stretch.text), cut.starts.tolist(), cut.ends.tolist()
            marks = cut.initial.tolist()
            exact = [True] * len(cut) if cut.spellings is None else list(_exact(stretch.text, cut))
            if marks and not stretch.opens and not starts[0]:  # what follows a special token without a space goes on with its eojeol
                marks[0], spellings[0] = 0, spellings[0][1:]
        self.spellings += spellings
        self.starts += [start + shift for start in starts] if shift else starts
        self.ends += [end + shift for end in ends] if shift else ends
        self.exact += exact
        self.marks += marks
        if self.words is not None:
            self.words += [stretch.word] * len(spellings)


def _exact(text: str, cut: Cut) -> Iterator[bool]:
    return (text[start:end] == spelling for start, end, _, spelling in cut)


def pieces_of(sides: list[Side], cutter: Cutter, special_tokens: re.Pattern[str] | None) -> list[Pieces]:
    """The pieces of `sides`, cut as one batch, equal stretches once. `special_tokens` matches what is not to be cut."""
    stretches = [list(_stretches(side, special_tokens)) for side in sides]
    wanted = list(dict.fromkeys(stretch.text for of_side in stretches for stretch in of_side if not stretch.special))
    cuts = dict(zip(wanted, cutter.cuts(wanted), strict=True))
    found = []
    for side, of_side in zip(sides, stretches, strict=True):
        pieces = Pieces(words=None if isinstance(side, str) else [])
        for stretch in of_side:
            pieces.add(stretch, None if stretch.special else cuts[stretch.text])
        found.append(pieces)
    return found


def _stretches(side: Side, special_tokens: re.Pattern[str] | None) -> Iterator[Stretch]:
    for word, text in enumerate([side] if isinstance(side, str) else side):
        reach = 0
        for match in special_tokens.finditer(text) if special_tokens else ():
            if match.start() > reach:
                yield _stretch(text, reach, match.start(), word)
            places = range(match.start(), match.end())
            yield Stretch(match.group(), places, [place + 1 for place in places], word, match.start() == 0, special=True)
            reach = match.end()
        if reach < len(text):
            yield _stretch(text, reach, len(text), word)


def _stretch(text: str, start: int, end: int, word: int) -> Stretch:
    nfc, begins, finishes = composed(text[start:end])
    if start:
        begins, finishes = [place + start for place in begins], [place + start for place in finishes]
    return Stretch(nfc, begins, finishes, word, start == 0, special=False)
