# SPDX-License-Identifier: Apache-2.0
"""One side of the tokenizer's input (a text, or one of a pair) as morphemes with their places in the text as given.

A text is analysed as a whole, without the markers in it; words that were split already are analysed as the text they
form. At markers and at ends of given words morphemes are split in addition, so no morpheme holds parts of two words or
of both sides of a marker.

Two coordinate systems meet here: `starts` and `ends` count characters of the NFC text that was analysed. `begins` and
`finishes` translate them: character i of the NFC text is characters `begins[i]` to `finishes[i]` (exclusive) of the
text (or word) as given.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from .added_tokens import AddedTokens
from .morpheme import WORD_MARK, Segmentation
from .normalization import nfc_with_offsets
from .segmenter import Segmenter

Span = tuple[int, int]
Side = str | list[str]
"""A text, or the words of a text that was split already."""


class InsertedToken(NamedTuple):
    """An added token before the character `place` of a passage: its span in the text (or word) as given, and the number
    of the given word."""

    place: int
    content: str
    span: Span
    word: int


@dataclass(slots=True)
class Passage:
    """N characters of a side that are analysed together.

    `text` is NFC, `begins` and `finishes` are its places as given, and `words` the number of the given word of each
    character; morphemes are split at `breaks`. Unless it `starts_text`, its start continues an eojeol.
    """

    starts_text: bool
    text: str = ""
    begins: list[int] = field(default_factory=list)
    finishes: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    added: list[InsertedToken] = field(default_factory=list)

    def append(self, text: str, begins: Sequence[int], finishes: Sequence[int], word: int) -> None:
        """Append characters of a given word."""
        self.text += text
        self.begins += begins
        self.finishes += finishes
        self.words += [word] * len(text)

    def end_word(self, separator: str) -> None:
        """End a given word: the separator, which nobody gave, counts as an empty span at the word's end."""
        self.breaks.append(len(self.text))
        end = self.finishes[-1] if self.finishes else 0
        self.append(separator, [end] * len(separator), [end] * len(separator), self.words[-1] if self.words else 0)

    def insert(self, content: str, span: Span, word: int) -> None:
        """Insert an added token after the characters so far."""
        self.breaks.append(len(self.text))
        self.added.append(InsertedToken(len(self.text), content, span, word))

    def morphemes(self, segmentation: Segmentation) -> Iterator[tuple[int, int, str, bool]]:
        """Start, end, spelling and whether it starts an eojeol, for every morpheme. One that spans a break is split
        there, and its parts are spelled as in the text."""
        rows = zip(segmentation, segmentation.initial.tolist(), strict=True)
        for (start, end, _, spelling), first in rows:
            initial = first and (self.starts_text or start > 0)
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
    """The P morphemes of a side, and the added tokens in it, ready for the subword model.

    `spellings` are the subword model's input; `starts` and `ends` their characters in the NFC text of N characters;
    `begins` and `finishes` (N each) the places of those characters as given; `exact` says whether a spelling equals the
    characters, `marks` counts the word mark before it (0 or 1); `words` is the number of the given word, None where the
    side was one text; `added` are the indices of added tokens.
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

    def append(self, spelling: str, start: int, end: int, exact: bool, mark: bool, word: int) -> None:
        """Append one morpheme or added token."""
        self.spellings.append(spelling)
        self.starts.append(start)
        self.ends.append(end)
        self.exact.append(exact)
        self.marks.append(mark)
        if self.words is not None:
            self.words.append(word)

    def locate(self, index: int, start: int, end: int) -> Span:
        """The span, in the text as given, of the characters `start` to `end` of the spelling at `index`."""
        left, right = self.starts[index], self.ends[index]
        # a spelling that differs from the text has no places inside: all its tokens get the span of the morpheme
        if self.exact[index]:
            mark = self.marks[index]
            left, right = left + max(start - mark, 0), left + max(end - mark, 0)
        if left < right:
            return self.begins[left], self.finishes[right - 1]
        if self.starts[index] < self.ends[index]:  # the word mark alone
            return self.begins[left], self.begins[left]
        # an empty morpheme is at the end of the character before it
        place = self.finishes[left - 1] if left else 0
        return place, place


def pretokenize(sides: list[Side], segmenter: Segmenter, added: AddedTokens | None) -> list[PreTokens]:
    """The morphemes of `sides`, segmented as one batch. `added` finds the tokens that are not to be analysed (None:
    there are none)."""
    prepared = [_plain_text(side, added) or list(_passages(side, added)) for side in sides]
    passages = (part for parts in prepared for part in ([parts] if isinstance(parts, _PlainText) else parts))
    # a dict, not a list: equal texts of a batch are analysed once
    texts = list(dict.fromkeys(passage.text for passage in passages if passage.text))
    segmentations = dict(zip(texts, segmenter.segment(texts), strict=True))
    return [
        _from_plain_text(parts, segmentations)
        if isinstance(parts, _PlainText)
        else _from_passages(side, parts, segmentations)
        for side, parts in zip(sides, prepared, strict=True)
    ]


class _PlainText(NamedTuple):
    """A side that is one passage without added tokens, by far the most common case: its columns need no copies."""

    text: str
    begins: Sequence[int]
    finishes: Sequence[int]


def _plain_text(side: Side, added: AddedTokens | None) -> _PlainText | None:
    if not isinstance(side, str):
        return None
    text = _PlainText(*nfc_with_offsets(side))
    return None if added and added.find(text.text) else text


def _from_plain_text(passage: _PlainText, segmentations: dict[str, Segmentation]) -> PreTokens:
    text, begins, finishes = passage
    if not text:
        return PreTokens()
    found = segmentations[text]
    if found.spellings is None:
        exact = [True] * len(found)
    else:
        exact = [text[start:end] == spelling for start, end, _, spelling in found]
    starts, ends, initial = found.starts.tolist(), found.ends.tolist(), found.initial.tolist()
    return PreTokens(found.words(text), starts, ends, exact, initial, begins, finishes)


def _passages(side: Side, added: AddedTokens | None) -> Iterator[Passage]:
    words = [side] if isinstance(side, str) else side
    # words that come with the white space between them are characters of one text (KLUE-NER), not eojeols
    separator = "" if any(word.isspace() for word in words) else " "
    passage = Passage(starts_text=True)
    for number, word in enumerate(words):
        text, begins, finishes = nfc_with_offsets(word)
        if number:
            passage.end_word(separator)
        done = 0
        for token in added.find(text) if added else ():
            passage.append(text[done : token.left], begins[done : token.left], finishes[done : token.left], number)
            passage.insert(token.content, (begins[token.start], finishes[token.end - 1]), number)
            # a marker is invisible to the analyzer; any other token stands for characters that it cannot know
            if not token.marker:
                yield passage
                passage = Passage(starts_text=False)
            done = token.right
        passage.append(text[done:], begins[done:], finishes[done:], number)
    yield passage


def _from_passages(side: Side, passages: Sequence[Passage], segmentations: dict[str, Segmentation]) -> PreTokens:
    """The morphemes and added tokens of all passages in a row."""
    begins: list[int] = []
    finishes: list[int] = []
    pretokens = PreTokens(begins=begins, finishes=finishes, words=None if isinstance(side, str) else [])

    def insert(token: InsertedToken) -> None:
        begins.append(token.span[0])
        finishes.append(token.span[1])
        pretokens.added.add(len(pretokens.spellings))
        pretokens.append(token.content, len(begins) - 1, len(begins), False, False, token.word)

    for passage in passages:
        # an empty place before the characters of each passage, for an empty morpheme at its start
        first, shift = passage.begins[0] if passage.begins else 0, len(begins) + 1
        begins += [first, *passage.begins]
        finishes += [first, *passage.finishes]
        waiting = deque(passage.added)
        morphemes = passage.morphemes(segmentations[passage.text]) if passage.text else ()
        for start, end, spelling, initial in morphemes:
            # an empty morpheme belongs to the character before it, so an added token at the same place comes after it
            while waiting and (waiting[0].place < start or waiting[0].place == start < end):
                insert(waiting.popleft())
            word = passage.words[start if start < end else max(start - 1, 0)]
            exact = passage.text[start:end] == spelling
            pretokens.append(WORD_MARK * initial + spelling, start + shift, end + shift, exact, initial, word)
        for token in waiting:
            insert(token)
    return pretokens
