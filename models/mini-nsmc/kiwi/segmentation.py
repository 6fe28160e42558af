# SPDX-License-Identifier: Apache-2.0
"""Splits texts at an analyzer's boundaries so that no character is lost and no offset moves.

Everything here is a pure function of the texts. The analysis stage, the shards and the published tokenizer all use this
file, which is why their ids agree on every document. A batch of texts is joined and processed as arrays over its
characters, because a Python step per morpheme would cost as much time as the analyzer.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from .morpheme import MAX_MORPHEME_CHARACTERS, REPLACING, Segmentation

MAX_UNIT_CHARACTERS = 2000
"""Most characters that an analyzer gets at once: Kiwi has crashed the process on a single word of 40,000 characters."""

WHITE_SPACE = re.compile(r"\s")
IS_WHITE = np.array([chr(code).isspace() for code in range(0x3002)])
"""Whether a code point is white space; none is beyond U+3000, so the last entry stands for all later ones."""
LINE_BREAK = ord("\n")
IS_PUNCTUATION = np.array([unicodedata.category(chr(code))[0] in "PS" for code in range(0x3040)] + [False])
"""Whether a code point is punctuation or a symbol; those beyond the table count as letters."""

Span = tuple[int, int]


class Tokens(NamedTuple):
    """An analyzer's answer for one unit as columns: start, end and sentence number of each morpheme that it found, and
    their spellings in styles such as `lemma` (None: spelled as in the text).

    In this file these are called tokens, as the analyzers do, and morphemes are what is made of them: tokens may
    overlap, be empty or leave gaps.
    """

    starts: list[int]
    ends: list[int]
    sentences: list[int]
    spellings: list[str] | None = None


def units(text: str) -> Iterator[Span]:
    """The spans that the analyzer gets one by one: lines, and parts of very long lines, split at white space where
    possible."""
    start = 0
    for line in text.split("\n"):
        yield from _split_line(text, start, start + len(line))
        start += len(line) + 1


def _split_line(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > MAX_UNIT_CHARACTERS:
        limit = start + MAX_UNIT_CHARACTERS
        # in the second half only, or a line with an early space would be split into many short parts
        breaks = [match.end() for match in WHITE_SPACE.finditer(text, start + MAX_UNIT_CHARACTERS // 2, limit)]
        stop = breaks[-1] if breaks else limit
        yield start, stop
        start = stop
    if not text[start:end].isspace() and start < end:
        yield start, end


def segment(texts: list[str], spans: list[list[Span]], tokens: list[Tokens], style: str) -> list[Segmentation]:
    """The segmentations of `texts` (NFC, no invisible characters). `spans` are the `units` of each text, `tokens` the
    analysis of all units in order; `style` is one of `STYLES` in `morpheme.py`."""
    joined = _JoinedTexts(texts, spans, tokens)
    if style in REPLACING:
        starts, ends, spellings = _replaced_morphemes(joined)
    else:
        boundaries = _unit_boundaries(joined) if style == "none" else _token_boundaries(joined)
        # all text that is not white space, whether the analyzer found it or not
        starts, ends = _runs(~joined.white, boundaries)
        spellings = None
    return joined.split_by_text(starts, ends, spellings)


class _JoinedTexts:
    """A batch of texts joined by line breaks, and the analyzer's tokens at their positions in the joined text.

    With C characters in all and T tokens: `white`, `line_breaks`, `brackets` (whether it is a "[") and `punctuation`
    are (C,) bool; `starts`, `ends`, `sentences` and `unit_of` (the number of its unit) are (T,). `unit_starts` has one
    entry per unit, `text_starts` one per text and C + 1.
    """

    def __init__(self, texts: list[str], spans: list[list[Span]], tokens: list[Tokens]) -> None:
        self.text = "\n".join(texts)
        codes = _codes(self.text)
        self.white = _white(codes)
        self.line_breaks = codes == LINE_BREAK
        self.brackets = codes == ord("[")
        self.punctuation = IS_PUNCTUATION[np.minimum(codes, len(IS_PUNCTUATION) - 1)]
        self.text_starts = np.cumsum([0] + [len(text) + 1 for text in texts])
        text_offsets = np.repeat(self.text_starts[:-1], [len(units_of_text) for units_of_text in spans])
        unit_spans = np.array(list(chain.from_iterable(spans)), np.int64).reshape(-1, 2)
        self.unit_starts, unit_ends = unit_spans.T + text_offsets
        self.unit_of = np.repeat(np.arange(len(tokens)), [len(unit.starts) for unit in tokens])
        total = len(self.unit_of)
        starts = np.fromiter(chain.from_iterable(unit.starts for unit in tokens), np.int64, total)
        ends = np.fromiter(chain.from_iterable(unit.ends for unit in tokens), np.int64, total)
        # an analyzer that reports characters beyond its unit must not reach into the next text
        offset, limit = self.unit_starts[self.unit_of], unit_ends[self.unit_of]
        self.starts = np.minimum(starts + offset, limit)
        self.ends = np.minimum(ends + offset, limit)
        self.sentences = np.fromiter(chain.from_iterable(unit.sentences for unit in tokens), np.int64, total)
        self.spellings = list(chain.from_iterable(unit.spellings or [] for unit in tokens))

    def sentence_starts(self) -> np.ndarray:
        """Whether a sentence starts at each character, (C + 1,) bool: at every unit, and where the analyzer's sentence
        number grows inside one."""
        first_of_unit = _changes(self.unit_of)
        numbers = self.sentences - self.sentences.min(initial=0)  # from 0, for an analyzer that counts otherwise
        # (unit, sentence) as one number; by the running maximum a sentence number that decreases changes nothing
        keys = self.unit_of * (int(numbers.max(initial=0)) + 1) + numbers
        grows = _changes(np.maximum.accumulate(keys))
        flags = np.zeros(len(self.white) + 1, bool)
        flags[self.starts[grows & ~first_of_unit]] = True
        flags[self.unit_starts] = True
        return flags

    def split_by_text(self, starts: np.ndarray, ends: np.ndarray, spellings: list[str] | None) -> list[Segmentation]:
        """One `Segmentation` per text from the morphemes of the joined text."""
        number = np.cumsum(self.sentence_starts())[starts]
        initial, sentence_changes = _initials(self.white, self.line_breaks, starts, ends), _changes(number)
        bounds = np.searchsorted(starts, self.text_starts)  # number of the first morpheme of each text, and of all
        firsts = bounds[bounds < len(starts)]
        initial[firsts] = sentence_changes[firsts] = True
        # numbered again, because a sentence without morphemes (white space alone) would leave a gap in `number`
        sentences = np.cumsum(sentence_changes)
        segmentations = []
        for offset, left, right in zip(self.text_starts.tolist(), bounds.tolist(), bounds[1:].tolist(), strict=False):
            first_sentence = sentences[left] if right > left else 0
            segmentations.append(
                Segmentation(
                    starts=(starts[left:right] - offset).astype(np.int32),
                    ends=(ends[left:right] - offset).astype(np.int32),
                    sentences=(sentences[left:right] - first_sentence).astype(np.int32),
                    initial=initial[left:right],
                    spellings=None if spellings is None else spellings[left:right],
                )
            )
        return segmentations


def initials(text: str, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Which morphemes of `text` are the first of their eojeol: (N,) bool."""
    codes = _codes(text)
    return _initials(_white(codes), codes == LINE_BREAK, starts, ends)


def _initials(white: np.ndarray, line_breaks: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """As `initials`, with `white` and `line_breaks` saying which characters are white space or end a line."""
    # two morphemes are in the same eojeol if the same number of white-space characters is before them
    count = np.concatenate([[0], np.cumsum(white)])
    before = np.maximum(starts - 1, 0)
    # an empty span belongs to the character before it, but not to another line, which may be of another text
    own_line = np.append(~line_breaks, True)[before]
    return _changes(count[np.where((ends == starts) & own_line, before, starts)])


def _changes(values: np.ndarray) -> np.ndarray:
    """Which of the values, (N,), differ from the one before; the first one counts as different."""
    changes = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def _codes(text: str) -> np.ndarray:
    """The code points of `text`: (characters,) uint32."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _white(codes: np.ndarray) -> np.ndarray:
    """Which code points are white space: (characters,) bool."""
    return IS_WHITE[np.minimum(codes, len(IS_WHITE) - 1)]


def _unit_boundaries(joined: _JoinedTexts) -> np.ndarray:
    """Boundaries that are independent of the analyzer, (C + 1,) bool: True where no morpheme may contain both the
    character and the one before it."""
    boundaries = np.zeros(len(joined.white) + 1, bool)
    boundaries[joined.unit_starts] = True
    # after a "[", so that the characters [MASK] in a text never become the special token
    boundaries[1:][joined.brackets] = True
    return boundaries


def _token_boundaries(joined: _JoinedTexts) -> np.ndarray:
    """Boundaries between the analyzer's tokens, (C + 1,) bool. Tokens that share a character (하 + 었 in 했) are
    merged."""
    boundaries = _unit_boundaries(joined)
    not_empty = joined.ends > joined.starts
    starts, ends = joined.starts[not_empty], joined.ends[not_empty]
    if len(starts):
        # a new group of tokens starts where all earlier tokens have ended and no later token reaches back
        lowest = np.minimum.accumulate(starts[::-1])[::-1]  # smallest start of this and all later tokens
        highest = np.maximum.accumulate(ends)  # largest end of this and all earlier tokens
        first = np.concatenate([[True], lowest[1:] >= highest[:-1]])
        last = np.concatenate([first[1:], [True]])
        group_starts, group_ends = lowest[first], highest[last]
        boundaries[group_starts] = boundaries[group_ends] = True
        _detach_punctuation(joined.punctuation, group_starts, group_ends, boundaries)
    return boundaries


def _detach_punctuation(punctuation: np.ndarray, starts: np.ndarray, ends: np.ndarray, boundaries: np.ndarray) -> None:
    """Add boundaries, in place, that separate a single punctuation mark from either end of a token (-20, Inc.), because
    answers and names end there. Marks inside (3.14) and several marks in a row stay."""
    long = ends - starts > 1
    starts, ends = starts[long], ends[long]
    boundaries[starts[punctuation[starts] & ~punctuation[starts + 1]] + 1] = True
    boundaries[ends[punctuation[ends - 1] & ~punctuation[ends - 2]] - 1] = True


def _runs(mask: np.ndarray, boundaries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of the runs of characters for which `mask` is True, split at `boundaries` and after every
    `MAX_MORPHEME_CHARACTERS` characters."""
    before = np.concatenate([[False], mask[:-1]])
    starts = np.flatnonzero(mask & (boundaries[:-1] | ~before))
    stops = np.append(np.flatnonzero(boundaries[:-1] | ~mask), len(mask))
    ends = stops[np.searchsorted(stops, starts, side="right")] if len(starts) else starts
    long = np.flatnonzero(ends - starts > MAX_MORPHEME_CHARACTERS)
    if not len(long):
        return starts, ends
    more = [np.arange(starts[i] + MAX_MORPHEME_CHARACTERS, ends[i], MAX_MORPHEME_CHARACTERS) for i in long]
    with_limit = boundaries.copy()
    with_limit[np.concatenate(more)] = True
    # only once more: no run is too long now
    return _runs(mask, with_limit)


def _replaced_morphemes(joined: _JoinedTexts) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """For the styles in which the analyzer spells the morphemes: starts, ends and spellings of its tokens, and of the
    text that it skipped between them, which is spelled as it is."""
    starts, ends, spellings = _usable_tokens(joined)
    # number of tokens over each character, as the running sum of their starts and ends
    covered = np.zeros(len(joined.white) + 1, np.int64)
    # `covered[starts] += 1` would count several tokens that start at the same character once
    np.add.at(covered, starts, 1)
    np.add.at(covered, ends, -1)
    boundaries = _unit_boundaries(joined)
    boundaries[starts] = boundaries[ends] = True
    gap_starts, gap_ends = _runs(~joined.white & (np.cumsum(covered)[:-1] == 0), boundaries)
    gaps = [joined.text[start:end] for start, end in zip(gap_starts.tolist(), gap_ends.tolist(), strict=True)]
    all_starts, all_ends, all_spellings = (
        np.concatenate([starts, gap_starts]),
        np.concatenate([ends, gap_ends]),
        spellings + gaps,
    )
    # stable, since tokens of one contraction start at the same character
    order = np.argsort(all_starts, kind="stable")
    return all_starts[order], all_ends[order], [all_spellings[i] for i in order.tolist()]


def _usable_tokens(joined: _JoinedTexts) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The tokens without white space at either end, with starts and ends that never decrease. Empty spans (an elided
    copula) stay; a token with an empty or too long spelling is dropped, so its characters count as skipped."""
    solid = np.flatnonzero(~joined.white)
    # the first character from the start on, and the last one before the end, that is not white space
    trimmed_starts = np.append(solid, len(joined.white))[np.searchsorted(solid, joined.starts)]
    trimmed_ends = np.concatenate([[-1], solid])[np.searchsorted(solid, joined.ends)] + 1
    empty = joined.ends <= joined.starts
    starts, ends = np.where(empty, joined.starts, trimmed_starts), np.where(empty, joined.starts, trimmed_ends)
    spellings = ["".join(spelling.split()) for spelling in joined.spellings]
    fits = np.array([0 < len(spelling) <= MAX_MORPHEME_CHARACTERS for spelling in spellings], bool)
    kept = np.flatnonzero(fits & (empty | (ends > starts)))
    starts = np.maximum.accumulate(starts[kept])
    return starts, np.maximum(np.maximum.accumulate(ends[kept]), starts), [spellings[i] for i in kept.tolist()]
