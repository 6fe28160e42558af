"""One side of a tokenizer's input: its morphemes for the subword model, and where each of them is in the text as given.

A text is analysed as a whole, without the markers in it; words that were split already are analysed as the text that
they make. Where a marker stood or a word ended, morphemes are cut besides, so markers and given words never share one.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from .added_tokens import AddedTokens, FoundToken
from .morpheme import WORD_MARK, Segmentation
from .normalization import nfc_with_offsets
from .segmenter import Segmenter

Span = tuple[int, int]
Side = str | list[str]
"""A text, or the words of a text that was split already."""


class Placed(NamedTuple):
    """An added token before the character `place` of a passage: its span in the text (or word) as given, and the given
    word's number."""

    place: int
    content: str
    span: Span
    word: int


@dataclass(slots=True)
class Passage:
    """N characters that are analysed together: NFC `text`, where each begins and finishes in the text (or word) as
    given, and the number of its given word. `breaks` are places where morphemes are cut besides. Unless it `opens` the
    text, its start continues an eojeol."""

    opens: bool
    text: str = ""
    begins: list[int] = field(default_factory=list)
    finishes: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    added: list[Placed] = field(default_factory=list)

    def write(self, text: str, begins: Sequence[int], finishes: Sequence[int], word: int) -> None:
        """Append characters of a word."""
        self.text += text
        self.begins += begins
        self.finishes += finishes
        self.words += [word] * len(text)

    def separate(self, separator: str) -> None:
        """End a given word: the separator counts as an empty place at its end."""
        self.breaks.append(len(self.text))
        end = self.finishes[-1] if self.finishes else 0
        self.write(separator, [end] * len(separator), [end] * len(separator), self.words[-1] if self.words else 0)

    def insert(self, content: str, span: Span, word: int) -> None:
        """Put an added token here."""
        self.breaks.append(len(self.text))
        self.added.append(Placed(len(self.text), content, span, word))

    def morphemes(self, cut: Segmentation) -> Iterator[tuple[int, int, str, bool]]:
        """Start, end, spelling and whether it begins an eojeol, of every morpheme of `cut`. One that reaches over a
        break is cut there, and its parts are spelled as the text spells them."""
        rows = zip(cut, cut.initial.tolist(), strict=True)
        for (start, end, _, spelling), first in rows:
            initial = first and (self.opens or start > 0)
            inner = self.breaks[bisect_right(self.breaks, start) : bisect_left(self.breaks, end)]
            if not inner:
                yield start, end, self.text[start:end] if spelling is None else spelling, initial
                continue
            for left, right in pairwise([start, *inner, end]):
                part = self.text[left:right].lstrip()
                left = right - len(part)
                if part := part.rstrip():
                    yield left, left + len(part), part, initial if left == start else self.text[left - 1].isspace()


@dataclass(slots=True)
class PreTokens:
    """The P morphemes of a side, added tokens that are written in it included.

    `spellings` go to the subword model; `starts` and `ends` are their characters in the NFC text, whose N characters
    begin at `begins` and end at `finishes` in the text (or word) as given; `exact` says whether a spelling is those
    characters, `marks` counts the word mark before it (0 or 1); `words` is the given word of each, None where the side
    was one text; `added` are the numbers of added tokens.
    """

    spellings: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    exact: list[bool] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    begins: Sequence[int] = ()
    finishes: Sequence[int] = ()
    words: list[int] | None = None
    added: set[int] = field(default_factory=set)

    def locate(self, word: int, start: int, end: int) -> Span:
        """Where the characters `start` to `end` of a spelling are in the text as given. A spelling that replaces the
        text's has no places inside: all parts of it are where the morpheme is. An empty morpheme is at the end of the
        character before it."""
        left, right = self.starts[word], self.ends[word]
        if self.exact[word]:
            mark = self.marks[word]
            left, right = left + max(start - mark, 0), left + max(end - mark, 0)
        if left < right:
            return self.begins[left], self.finishes[right - 1]
        if self.starts[word] < self.ends[word]:  # the word mark alone
            return self.begins[left], self.begins[left]
        place = self.finishes[left - 1] if left else 0
        return place, place


def pretokenize(sides: list[Side], cutter: Segmenter, added: AddedTokens | None) -> list[PreTokens]:
    """The pieces of `sides`, cut as one batch, equal passages once. `added` finds what is not to be cut."""
    read = [_text(side, added) or list(_passages(side, added)) for side in sides]
    texts = (one.text for of_side in read for one in ([of_side] if isinstance(of_side, _Text) else of_side))
    wanted = list(dict.fromkeys(text for text in texts if text))
    cuts = dict(zip(wanted, cutter.segment(wanted), strict=True))
    return [
        _pretokens_of_text(of_side, cuts) if isinstance(of_side, _Text) else _pretokens(side, of_side, cuts)
        for side, of_side in zip(sides, read, strict=True)
    ]


class _Text(NamedTuple):
    """A side that is one passage without anything added, the common case: what a `Passage` holds for every character is
    a range here."""

    text: str
    begins: Sequence[int]
    finishes: Sequence[int]


def _text(side: Side, added: AddedTokens | None) -> _Text | None:
    if not isinstance(side, str):
        return None
    text = _Text(*nfc_with_offsets(side))
    return None if added and added.find(text.text) else text


def _pretokens_of_text(passage: _Text, cuts: dict[str, Segmentation]) -> PreTokens:
    text, begins, finishes = passage
    if not text:
        return PreTokens()
    cut = cuts[text]
    exact = (
        [True] * len(cut) if cut.spellings is None else [text[start:end] == spelling for start, end, _, spelling in cut]
    )
    return PreTokens(
        cut.words(text), cut.starts.tolist(), cut.ends.tolist(), exact, cut.initial.tolist(), begins, finishes
    )


def _passages(side: Side, added: AddedTokens | None) -> Iterator[Passage]:
    words = [side] if isinstance(side, str) else side
    # words that come with the white space between them are characters of one text, not eojeols
    separator = "" if any(word.isspace() for word in words) else " "
    passage = Passage(opens=True)
    for number, word in enumerate(words):
        text, begins, finishes = nfc_with_offsets(word)
        if number:
            passage.separate(separator)
        done = 0
        for token in added.find(text) if added else ():
            passage.write(text[done : token.left], begins[done : token.left], finishes[done : token.left], number)
            passage.insert(token.content, _span(token, begins, finishes), number)
            if not token.marker:
                yield passage
                passage = Passage(opens=False)
            done = token.right
        passage.write(text[done:], begins[done:], finishes[done:], number)
    yield passage


def _span(token: FoundToken, begins: Sequence[int], finishes: Sequence[int]) -> Span:
    return begins[token.start], finishes[token.end - 1]


def _pretokens(side: Side, passages: Sequence[Passage], cuts: dict[str, Segmentation]) -> PreTokens:
    """The pieces of all passages in a row. Before the characters of each is an empty place, for an empty morpheme at
    its start."""
    begins: list[int] = []
    finishes: list[int] = []
    found = PreTokens(begins=begins, finishes=finishes, words=None if isinstance(side, str) else [])

    def append(spelling: str, start: int, end: int, exact: bool, mark: bool, word: int) -> None:
        found.spellings.append(spelling)
        found.starts.append(start)
        found.ends.append(end)
        found.exact.append(exact)
        found.marks.append(mark)
        if found.words is not None:
            found.words.append(word)

    def insert(token: Placed) -> None:
        begins.append(token.span[0])
        finishes.append(token.span[1])
        found.added.add(len(found.spellings))
        append(token.content, len(begins) - 1, len(begins), False, False, token.word)

    for passage in passages:
        first, shift = passage.begins[0] if passage.begins else 0, len(begins) + 1
        begins += [first, *passage.begins]
        finishes += [first, *passage.finishes]
        waiting = deque(passage.added)
        for start, end, spelling, initial in passage.morphemes(cuts[passage.text]) if passage.text else ():
            while waiting and (waiting[0].place < start or waiting[0].place == start < end):
                insert(waiting.popleft())
            word = passage.words[start if start < end else max(start - 1, 0)]
            exact = passage.text[start:end] == spelling
            append(WORD_MARK * initial + spelling, start + shift, end + shift, exact, initial, word)
        for token in waiting:
            insert(token)
    return found
