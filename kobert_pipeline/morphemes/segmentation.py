"""Cut texts at an analyzer's borders so that no character is lost and no offset moves.

Everything here is a pure function of the texts. The analysis stage, the shards and the published tokenizer all cut by
this file, which is why their ids agree on every document. A batch of texts is joined and cut as one array of
characters, because a Python step per morpheme would cost as much as the analyzer.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from .morpheme import MAX_MORPHEME_CHARACTERS, REPLACING, Segmentation

MAX_UNIT_CHARACTERS = 2000
"""Most characters an analyzer gets at once: Kiwi has crashed natively on runs of 40,000 characters of one word."""

BLANK = re.compile(r"\s")
WHITE = np.array([chr(code).isspace() for code in range(0x3002)])
"""Whether a character is white space; none lies beyond U+3000."""
MARKS = np.array([unicodedata.category(chr(code))[0] in "PS" for code in range(0x3040)] + [False])
"""Whether a character is punctuation or a symbol; the last row stands for all beyond."""

Span = tuple[int, int]


class Tokens(NamedTuple):
    """What an analyzer says of one unit, a column each: characters and sentence of its tokens, and how the style spells
    them (None: as the text does). Tokens may overlap, be empty or leave gaps."""

    starts: list[int]
    ends: list[int]
    sentences: list[int]
    spellings: list[str] | None = None


def units(text: str) -> Iterator[Span]:
    """The spans handed to the analyzer one by one: lines, and of a very long line stretches that end at white space if
    they can."""
    start = 0
    for line in text.split("\n"):
        yield from _stretches(text, start, start + len(line))
        start += len(line) + 1


def _stretches(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > MAX_UNIT_CHARACTERS:
        limit = start + MAX_UNIT_CHARACTERS
        breaks = [match.end() for match in BLANK.finditer(text, start + MAX_UNIT_CHARACTERS // 2, limit)]
        stop = breaks[-1] if breaks else limit
        yield start, stop
        start = stop
    if not text[start:end].isspace() and start < end:
        yield start, end


def segment(texts: list[str], spans: list[list[Span]], tokens: list[Tokens], style: str) -> list[Segmentation]:
    """The cuts of `texts` (NFC, no lone surrogates). `spans` are the `units` of each, `tokens` the analysis of all
    units in order."""
    joined = _Joined(texts, spans, tokens)
    if style in REPLACING:
        starts, ends, spellings = _respelled(joined)
    else:
        edges = _units_only(joined) if style == "none" else _token_edges(joined)
        starts, ends = _runs(~joined.white, edges)
        spellings = None
    return joined.apart(starts, ends, spellings)


class _Joined:
    """Texts in one row with a line break between them, and their tokens in its coordinates."""

    def __init__(self, texts: list[str], spans: list[list[Span]], tokens: list[Tokens]) -> None:
        self.text = "\n".join(texts)
        codes = _codes(self.text)
        self.white, self.brackets, self.marks = (
            _white(codes),
            codes == ord("["),
            MARKS[np.minimum(codes, len(MARKS) - 1)],
        )
        self.texts = np.cumsum([0] + [len(text) + 1 for text in texts])
        of_units = np.repeat(self.texts[:-1], [len(of_text) for of_text in spans])
        self.units, unit_ends = np.array(list(chain.from_iterable(spans)), np.int64).reshape(-1, 2).T + of_units
        counts = [len(unit.starts) for unit in tokens]
        self.unit_of = np.repeat(np.arange(len(tokens)), counts)
        total = len(self.unit_of)
        offset, limit = self.units[self.unit_of], unit_ends[self.unit_of]
        self.starts = np.minimum(
            np.fromiter(chain.from_iterable(unit.starts for unit in tokens), np.int64, total) + offset, limit
        )
        self.ends = np.minimum(
            np.fromiter(chain.from_iterable(unit.ends for unit in tokens), np.int64, total) + offset, limit
        )
        self.sentences = np.fromiter(chain.from_iterable(unit.sentences for unit in tokens), np.int64, total)
        self.spellings = list(chain.from_iterable(unit.spellings or [] for unit in tokens))

    def sentence_starts(self) -> np.ndarray:
        """Per character, whether a sentence begins at it: at every unit, and where the analyzer's number grows inside
        one."""
        first = _changes(self.unit_of)
        numbers = self.sentences - self.sentences.min(initial=0)
        keys = self.unit_of * (int(numbers.max(initial=0)) + 1) + numbers
        grows = _changes(np.maximum.accumulate(keys))
        flags = np.zeros(len(self.white) + 1, bool)
        flags[self.starts[grows & ~first]] = True
        flags[self.units] = True
        return flags

    def apart(self, starts: np.ndarray, ends: np.ndarray, spellings: list[str] | None) -> list[Segmentation]:
        """One `Cut` a text from the morphemes of all."""
        number = np.cumsum(self.sentence_starts())[starts]
        initial, opens = _initials(self.white, starts, ends), _changes(number)
        bounds = np.searchsorted(starts, self.texts)
        firsts = bounds[bounds < len(starts)]
        initial[firsts] = opens[firsts] = True
        sentences = np.cumsum(opens)
        cuts = []
        for offset, left, right in zip(self.texts.tolist(), bounds.tolist(), bounds[1:].tolist(), strict=False):
            zero = sentences[left] if right > left else 0
            columns = (starts[left:right] - offset, ends[left:right] - offset, sentences[left:right] - zero)
            begins, finishes, numbers = (column.astype(np.int32) for column in columns)
            cuts.append(
                Segmentation(
                    begins, finishes, numbers, initial[left:right], None if spellings is None else spellings[left:right]
                )
            )
        return cuts


def initials(text: str, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Which morphemes of `text` are the first of their eojeol: (N,) bool."""
    return _initials(_white(_codes(text)), starts, ends)


def _initials(white: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Between two of one eojeol no white space is passed. An empty span belongs to the character before it."""
    passed = np.concatenate([[0], np.cumsum(white)])
    return _changes(passed[np.where(ends > starts, starts, np.maximum(starts - 1, 0))])


def _changes(values: np.ndarray) -> np.ndarray:
    """Which of the values, (N,), differ from the one before; the first does."""
    changes = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def _codes(text: str) -> np.ndarray:
    """(characters,) uint32"""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _white(codes: np.ndarray) -> np.ndarray:
    """(characters,) bool"""
    return WHITE[np.minimum(codes, len(WHITE) - 1)]


def _units_only(joined: _Joined) -> np.ndarray:
    """Edges that no analyzer decides. Behind a bracket there is one, so that a text that says [MASK] is not spelled by
    that token."""
    edges = np.zeros(len(joined.white) + 1, bool)
    edges[joined.units] = True
    edges[1:][joined.brackets] = True
    return edges


def _token_edges(joined: _Joined) -> np.ndarray:
    """Per character, whether a morpheme may not reach over it from before. Tokens that share a character (contracted
    morphemes: 하 + 었 in 했) become one, so only where all tokens before have ended and none later reaches back is there
    an edge."""
    edges = _units_only(joined)
    solid = joined.ends > joined.starts
    starts, ends = joined.starts[solid], joined.ends[solid]
    if len(starts):
        lowest = np.minimum.accumulate(starts[::-1])[::-1]
        highest = np.maximum.accumulate(ends)
        first = np.concatenate([[True], lowest[1:] >= highest[:-1]])
        last = np.concatenate([first[1:], [True]])
        edges[lowest[first]] = edges[highest[last]] = True
        _free_marks(joined.marks, lowest[first], highest[last], edges)
    return edges


def _free_marks(marks: np.ndarray, starts: np.ndarray, ends: np.ndarray, edges: np.ndarray) -> None:
    """Cut a single mark off either end of a token (-20, Inc.): answers and names end there. Marks inside (3.14) and in
    a row stay."""
    long = ends - starts > 1
    starts, ends = starts[long], ends[long]
    edges[starts[marks[starts] & ~marks[starts + 1]] + 1] = True
    edges[ends[marks[ends - 1] & ~marks[ends - 2]] - 1] = True


def _runs(wanted: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of the stretches of `wanted` characters, divided at `edges` and after
    `MAX_MORPHEME_CHARACTERS`."""
    before = np.concatenate([[False], wanted[:-1]])
    begins = np.flatnonzero(wanted & (edges[:-1] | ~before))
    marks = np.append(np.flatnonzero(edges[:-1] | ~wanted), len(wanted))
    ends = marks[np.searchsorted(marks, begins, side="right")] if len(begins) else begins
    long = np.flatnonzero(ends - begins > MAX_MORPHEME_CHARACTERS)
    if not len(long):
        return begins, ends
    more = [np.arange(begins[i] + MAX_MORPHEME_CHARACTERS, ends[i], MAX_MORPHEME_CHARACTERS) for i in long]
    divided = edges.copy()
    divided[np.concatenate(more)] = True
    return _runs(wanted, divided)


def _respelled(joined: _Joined) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The analyzer's tokens with their spellings, and in the gaps what it skipped, spelled by the text."""
    starts, ends, spellings = _spelled_tokens(joined)
    covered = np.zeros(len(joined.white) + 1, np.int64)
    np.add.at(covered, starts, 1)
    np.add.at(covered, ends, -1)
    edges = _units_only(joined)
    edges[starts] = edges[ends] = True
    gap_starts, gap_ends = _runs(~joined.white & (np.cumsum(covered)[:-1] == 0), edges)
    gaps = [joined.text[start:end] for start, end in zip(gap_starts.tolist(), gap_ends.tolist(), strict=True)]
    order = np.argsort(np.concatenate([starts, gap_starts]), kind="stable")
    everything = spellings + gaps
    return (
        np.concatenate([starts, gap_starts])[order],
        np.concatenate([ends, gap_ends])[order],
        [everything[i] for i in order.tolist()],
    )


def _spelled_tokens(joined: _Joined) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The tokens that are no white space, without white space at their ends, made monotone. A spelling that is empty or
    longer than `MAX_MORPHEME_CHARACTERS` is not used: the characters count as skipped. Empty spans (a copula left out)
    stay."""
    solid = np.flatnonzero(~joined.white)
    after = np.append(solid, len(joined.white))[np.searchsorted(solid, joined.starts)]
    before = np.concatenate([[-1], solid])[np.searchsorted(solid, joined.ends)] + 1
    empty = joined.ends <= joined.starts
    starts, ends = np.where(empty, joined.starts, after), np.where(empty, joined.starts, before)
    spellings = ["".join(spelling.split()) for spelling in joined.spellings]
    fits = np.array([0 < len(spelling) <= MAX_MORPHEME_CHARACTERS for spelling in spellings], bool)
    kept = np.flatnonzero(fits & (empty | (ends > starts)))
    starts = np.maximum.accumulate(starts[kept])
    return starts, np.maximum(np.maximum.accumulate(ends[kept]), starts), [spellings[i] for i in kept.tolist()]
