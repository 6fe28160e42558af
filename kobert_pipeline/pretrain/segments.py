"""Which stretches of text become sequences: pairs of segments or sentences, or as many sentences as fit (the four ways
that Liu et al. 2019 compare); single paragraphs of unordered documents. A function of the shards, the options and a
generator."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from kobert_pipeline.pretrain.batch import IGNORE_INDEX
from kobert_pipeline.pretrain.sequences import fitting, sequence_starts, units_of
from kobert_pipeline.shards.format import Shards

NEXT, RANDOM = 0, 1
"""HF's `next_sentence_label`."""
IN_ORDER, EXCHANGED = 0, 1
"""The labels of ALBERT's order of segments."""
Pairs = Literal["next", "order"] | None
"""What a pair is asked about: whether B follows A (NSP), or in which order they stood (SOP)."""


class TextSpans(NamedTuple):
    """The stretches of text of all sequences in order, each followed by a [SEP]: `starts`, `ends`, `second` (whether it
    is a B), (R,); `bounds` (N + 1,): the runs of sequence n are `bounds[n]` to `bounds[n + 1]`."""

    starts: np.ndarray
    ends: np.ndarray
    second: np.ndarray
    bounds: np.ndarray


@dataclass(frozen=True)
class Sequences:
    """N sequences as stretches of global positions. `a`, `b`: (N, 2) int64 start and end (exclusive); an empty `b` is
    no pair. `next_sentence_label`: (N,) int64. `separators`: (S, 2) int64, in order: a row whose `a` runs over a border
    of documents, and where that lies."""

    a: np.ndarray
    b: np.ndarray
    next_sentence_label: np.ndarray
    separators: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int64))

    def __len__(self) -> int:
        return len(self.a)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(N,) tokens of each sequence with [CLS] and its [SEP]s."""
        second = self.b[:, 1] - self.b[:, 0]
        lengths: np.ndarray = 2 + self.a[:, 1] - self.a[:, 0] + second + (second > 0)
        return lengths + np.bincount(self.separators[:, 0], minlength=len(self))

    @cached_property
    def text_spans(self) -> TextSpans:
        """The stretches between separators."""
        paired = self.b[:, 1] > self.b[:, 0]
        rows, places = self.separators.T
        separated = np.bincount(rows, minlength=len(self))
        bounds = np.concatenate([[0], np.cumsum(1 + separated + paired)])
        firsts, lasts = bounds[:-1], bounds[:-1] + separated  # of A
        starts, ends, second = (
            np.empty(bounds[-1], np.int64),
            np.empty(bounds[-1], np.int64),
            np.zeros(bounds[-1], bool),
        )
        starts[firsts], ends[lasts] = self.a.T
        inside = firsts[rows] + np.arange(len(rows)) - (np.cumsum(separated) - separated)[rows]
        ends[inside] = starts[inside + 1] = places
        (starts[lasts[paired] + 1], ends[lasts[paired] + 1]), second[lasts[paired] + 1] = self.b[paired].T, True
        return TextSpans(starts, ends, second, bounds)


def plan_sequences(
    shards: Shards, max_length: int, short_seq_prob: float, pairs: Pairs, rng: np.random.Generator
) -> Sequences:
    """SEGMENT-PAIR: every token of the shards in one sequence of at most `max_length` tokens. For "next", B segments
    are exchanged between documents, so that no text is lost to the random half; for "order", half of the pairs change
    places."""
    columns: list[np.ndarray] = []  # start, where B begins (end: nowhere), end, where the document begins
    for offset, shard in shards:
        units = units_of(shard, max_length - 3, max_length - 2)
        alone = ~units.ordered | units.cut
        opens = alone | units.open_documents | np.append(True, alone[:-1])[: len(alone)]
        after = fitting(units.starts, units.ends, _room(len(alone), max_length, short_seq_prob, rng), opens)
        heads, drawn = sequence_starts(after), rng.random(len(alone))
        tails = after[heads]
        starts, ends = units.starts[heads], units.ends[tails - 1]
        several = tails - heads > 1 if pairs else np.zeros(len(heads), bool)
        chosen = heads + several * (
            1 + (drawn[heads] * (tails - heads - 1)).astype(np.int64)
        )  # a random sentence but the first
        middles = np.where(several, units.starts[chosen], ends)
        columns.append(offset + np.stack([starts, middles, ends, units.documents[heads]]))
    start, middle, end, document = np.concatenate([np.empty((4, 0), np.int64), *columns], 1)
    a, b = np.stack([start, middle], 1), np.stack([middle, end], 1)
    label = np.where(end > middle, NEXT, IGNORE_INDEX)
    if pairs == "order":
        return _reordered(a, b, label, rng)
    return _partners(a, b, label, document, max_length, rng)


def _room(count: int, max_length: int, short_seq_prob: float, rng: np.random.Generator) -> np.ndarray:
    """BERT's `short_seq_prob`: a share of sequences is short, so that fine-tuning on short inputs finds a familiar
    length."""
    return np.where(rng.random(count) < short_seq_prob, rng.integers(2, max_length - 2, count), max_length - 3)


def _partners(
    a: np.ndarray, b: np.ndarray, label: np.ndarray, documents: np.ndarray, max_length: int, rng: np.random.Generator
) -> Sequences:
    """Half of the pairs with another document's B, cut to the room there is."""
    _exchange(b, label, documents, rng)
    room = np.maximum(max_length - 3 - (a[:, 1] - a[:, 0]), 0)  # a full A that has no B leaves less than nothing
    b[:, 1] = np.minimum(b[:, 1], b[:, 0] + room)
    return Sequences(a, b, label)


def _exchange(b: np.ndarray, label: np.ndarray, documents: np.ndarray, rng: np.random.Generator) -> None:
    """Half of the pairs, chosen at random, hand their B around a ring. A pair that got a B of its own document is no
    example of either."""
    paired = np.flatnonzero(label == NEXT)
    ring = rng.permutation(paired)[: len(paired) // 2]
    giver = np.roll(ring, 1)
    b[ring] = b[giver]
    label[ring] = np.where(documents[ring] == documents[giver], IGNORE_INDEX, RANDOM)


def _reordered(a: np.ndarray, b: np.ndarray, label: np.ndarray, rng: np.random.Generator) -> Sequences:
    """Half of the pairs with their segments exchanged."""
    paired = np.flatnonzero(label == NEXT)
    turned = rng.permutation(paired)[: len(paired) // 2]
    a, label = a.copy(), label.copy()
    a[turned], b[turned] = b[turned], a[turned]
    label[paired], label[turned] = IN_ORDER, EXCHANGED
    return Sequences(a, b, label)


def sentence_pairs(shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
    """SENTENCE-PAIR: two sentences of an ordered document, half of them with the second one of another. What has no
    partner, or is too long for one, stands alone."""
    columns: list[np.ndarray] = []
    for offset, shard in shards:
        units = units_of(shard, max_length - 3, max_length - 3)
        count = len(units.starts)
        whole = units.ordered & ~units.cut
        joins = (
            whole[:-1] & whole[1:] & ~units.open_documents[1:] & (units.ends[1:] - units.starts[:-1] <= max_length - 3)
        )
        after = np.arange(1, count + 1) + np.append(joins, False)[:count]
        heads = sequence_starts(after)
        middles, ends = units.ends[heads], units.ends[after[heads] - 1]
        columns.append(offset + np.stack([units.starts[heads], middles, ends, units.documents[heads]]))
    start, middle, end, document = np.concatenate([np.empty((4, 0), np.int64), *columns], 1)
    label = np.where(end > middle, NEXT, IGNORE_INDEX)
    return _partners(np.stack([start, middle], 1), np.stack([middle, end], 1), label, document, max_length, rng)


def full_sentences(shards: Shards, max_length: int, across: bool) -> Sequences:
    """FULL-SENTENCES (`across` the boundaries of documents, which are marked), or DOC-SENTENCES: as many sentences as
    fit. Paragraphs of unordered documents are documents of their own here."""
    spans: list[np.ndarray] = []
    separators: list[np.ndarray] = []
    count = 0
    for offset, shard in shards:
        units = units_of(shard, max_length - 2, max_length - 2)
        boundaries = units.open_documents | (~units.ordered & units.first)
        marks = np.cumsum(boundaries)  # every border inside a sequence costs a [SEP]
        opens = np.arange(len(boundaries)) == 0 if across else boundaries
        after = fitting(units.starts + marks, units.ends + marks, max_length - 2, opens)
        heads = sequence_starts(after)
        spans.append(offset + np.stack([units.starts[heads], units.ends[after[heads] - 1]], 1))
        inside = np.setdiff1d(np.flatnonzero(boundaries), heads)
        rows = np.searchsorted(heads, inside, side="right") - 1
        separators.append(np.stack([count + rows, offset + units.starts[inside]], 1))
        count += len(heads)
    none = np.empty((0, 2), np.int64)
    a = np.concatenate([none, *spans])
    return Sequences(a, np.repeat(a[:, 1:], 2, 1), np.full(len(a), IGNORE_INDEX), np.concatenate([none, *separators]))
