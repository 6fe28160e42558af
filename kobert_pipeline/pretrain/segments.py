"""Which stretches of text become sequences: pairs of segments or sentences, or as many sentences as fit (the four ways that Liu et al. 2019
compare); single paragraphs of unordered documents. A function of the shards, the options and a generator."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from kobert_pipeline.pretrain.batch import IGNORE_INDEX
from kobert_pipeline.shards.format import PARAGRAPH, SENTENCE, Shard, Shards

NEXT, RANDOM = 0, 1
"""HF's `next_sentence_label`."""
IN_ORDER, EXCHANGED = 0, 1
"""The labels of ALBERT's order of segments."""
Pairs = Literal["next", "order"] | None
"""What a pair is asked about: whether B follows A (NSP), or in which order they stood (SOP)."""


@dataclass(frozen=True)
class Sequences:
    """N sequences as stretches of global positions. `a`, `b`: (N, 2) int64 start and end (exclusive); an empty `b` is no pair.
    `next_sentence_label`: (N,) int64. `separated`: rows whose `a` runs over borders of documents, and where those lie."""

    a: np.ndarray
    b: np.ndarray
    next_sentence_label: np.ndarray
    separated: dict[int, list[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.a)

    @property
    def lengths(self) -> np.ndarray:
        """(N,) pieces of each sequence with [CLS] and its [SEP]s."""
        second = self.b[:, 1] - self.b[:, 0]
        lengths: np.ndarray = 2 + self.a[:, 1] - self.a[:, 0] + second + (second > 0)
        for row, places in self.separated.items():
            lengths[row] += len(places)
        return lengths


def plan_sequences(shards: Shards, max_length: int, short_share: float, pairs: Pairs, rng: np.random.Generator) -> Sequences:
    """SEGMENT-PAIR: every piece of the shards in one sequence of at most `max_length` pieces. For "next", B segments are exchanged between
    documents, so that no text is lost to the random half; for "order", half of the pairs change places."""
    spans: list[tuple[int, int, int]] = []  # start, where B begins (end: nowhere), end
    documents: list[int] = []
    for offset, shard in zip(shards.offsets, shards.shards, strict=False):
        for number in range(len(shard.ordered)):
            found = _document_spans(shard, number, max_length, short_share, pairs is not None, rng)
            spans += [(int(offset) + start, int(offset) + middle, int(offset) + end) for start, middle, end in found]
            documents += [int(offset) + int(shard.documents[number])] * len(found)
    table = np.array(spans, np.int64).reshape(-1, 3)
    a, b = table[:, [0, 1]], table[:, [1, 2]].copy()
    label = np.where(b[:, 1] > b[:, 0], NEXT, IGNORE_INDEX)
    if pairs == "order":
        return _reordered(a, b, label, rng)
    return _partners(a, b, label, np.array(documents, np.int64), max_length, rng)


def _partners(
    a: np.ndarray, b: np.ndarray, label: np.ndarray, documents: np.ndarray, max_length: int, rng: np.random.Generator
) -> Sequences:
    """Half of the pairs with another document's B, cut to the room there is."""
    _exchange(b, label, documents, rng)
    room = np.maximum(max_length - 3 - (a[:, 1] - a[:, 0]), 0)  # a full A that has no B leaves less than nothing
    b[:, 1] = np.minimum(b[:, 1], b[:, 0] + room)
    return Sequences(a, b, label)


def _reordered(a: np.ndarray, b: np.ndarray, label: np.ndarray, rng: np.random.Generator) -> Sequences:
    """Half of the pairs with their segments exchanged."""
    paired = np.flatnonzero(label == NEXT)
    turned = rng.permutation(paired)[: len(paired) // 2]
    a, label = a.copy(), label.copy()
    a[turned], b[turned] = b[turned], a[turned]
    label[paired], label[turned] = IN_ORDER, EXCHANGED
    return Sequences(a, b, label)


def sentence_pairs(shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
    """SENTENCE-PAIR: two sentences of an ordered document, half of them with the second one of another. What has no partner, or is too long
    for one, stands alone."""
    spans: list[tuple[int, int, int]] = []
    documents: list[int] = []
    for start, end, document, ordered in _units(shards):
        last = spans[-1] if spans else (0, 0, 0)
        alone = last[1] == last[2] and documents and documents[-1] == document and last[2] == start
        if ordered and alone and end - last[0] <= max_length - 3:
            spans[-1] = (last[0], start, end)
            continue
        room = max_length - 3
        found = [(i, j, j) for i, j in _chunks(start, end, room)]
        spans += found
        documents += [document if ordered and len(found) == 1 else -len(spans)] * len(found)
    table = np.array(spans, np.int64).reshape(-1, 3)
    a, b = table[:, [0, 1]], table[:, [1, 2]].copy()
    label = np.where(b[:, 1] > b[:, 0], NEXT, IGNORE_INDEX)
    return _partners(a, b, label, np.array(documents, np.int64), max_length, rng)


def full_sentences(shards: Shards, max_length: int, across: bool) -> Sequences:
    """FULL-SENTENCES (`across` the borders of documents, which are marked), or DOC-SENTENCES: as many sentences as fit. Paragraphs of
    unordered documents are documents of their own here."""
    spans: list[tuple[int, int]] = []
    separated: dict[int, list[int]] = {}
    length, before = max_length + 1, None  # of the sequence under way, and its last document
    firsts = set(shards.offsets.tolist())  # a stretch lies in one shard
    for start, end, document, ordered in _units(shards):
        key = (document, None if ordered else start)
        extra = int(key != before)
        fits = length + extra + end - start <= max_length and (across or not extra) and spans[-1][1] == start and start not in firsts
        before = key
        if fits:
            if extra:
                separated.setdefault(len(spans) - 1, []).append(start)
            spans[-1] = (spans[-1][0], end)
            length += extra + end - start
        else:
            spans += _chunks(start, end, max_length - 2)
            length = 2 + spans[-1][1] - spans[-1][0]
    a = np.array(spans, np.int64).reshape(-1, 2)
    return Sequences(a, np.repeat(a[:, 1:], 2, 1), np.full(len(a), IGNORE_INDEX), separated)


def _units(shards: Shards) -> Iterator[tuple[int, int, int, bool]]:
    """Start, end, document (where it begins) and whether it is ordered, of every sentence; of unordered documents of every paragraph."""
    for offset, shard in zip(shards.offsets.tolist(), shards.shards, strict=False):
        for number in range(len(shard.ordered)):
            start, end = int(shard.documents[number]), int(shard.documents[number + 1])
            bit = SENTENCE if shard.ordered[number] else PARAGRAPH
            breaks = start + np.flatnonzero(shard.borders[start:end] & bit)
            for left, right in _between(breaks, end):
                yield offset + left, offset + right, offset + start, bool(shard.ordered[number])


def _document_spans(
    shard: Shard, number: int, max_length: int, short_share: float, pairs: bool, rng: np.random.Generator
) -> list[tuple[int, int, int]]:
    start, end = int(shard.documents[number]), int(shard.documents[number + 1])
    borders = shard.borders[start:end]
    if not shard.ordered[number]:
        breaks = start + np.flatnonzero(borders & PARAGRAPH)
        room = max_length - 2
        return [(i, j, j) for left, right in _between(breaks, end) for i, j in _chunks(left, right, room)]
    breaks = start + np.flatnonzero(borders & SENTENCE)
    spans: list[tuple[int, int, int]] = []
    gathered: list[int] = []  # sentence starts of the sequence under way
    room = _room(max_length, short_share, rng)
    for left, right in _between(breaks, end):
        if gathered and right - gathered[0] > room:
            spans.append(_split(gathered, left, pairs, rng))
            gathered, room = [], _room(max_length, short_share, rng)
        if right - left > max_length - 3:
            spans += [(i, j, j) for i, j in _chunks(left, right, max_length - 3)]
            continue
        gathered.append(left)
    if gathered:
        spans.append(_split(gathered, end, pairs, rng))
    return spans


def _room(max_length: int, short_share: float, rng: np.random.Generator) -> int:
    """BERT's `short_seq_prob`: a share of sequences is short, so that fine-tuning on short inputs finds a familiar length."""
    if rng.random() < short_share:
        return int(rng.integers(2, max_length - 2))
    return max_length - 3


def _split(sentences: list[int], end: int, pairs: bool, rng: np.random.Generator) -> tuple[int, int, int]:
    """A|B at a random sentence border; a single sentence makes no pair."""
    if not pairs or len(sentences) < 2:
        return sentences[0], end, end
    return sentences[0], sentences[int(rng.integers(1, len(sentences)))], end


def _exchange(b: np.ndarray, label: np.ndarray, documents: np.ndarray, rng: np.random.Generator) -> None:
    """Half of the pairs, chosen at random, hand their B around a ring. A pair that got a B of its own document is no example of either."""
    paired = np.flatnonzero(label == NEXT)
    ring = rng.permutation(paired)[: len(paired) // 2]
    giver = np.roll(ring, 1)
    b[ring] = b[giver]
    label[ring] = np.where(documents[ring] == documents[giver], IGNORE_INDEX, RANDOM)


def _between(breaks: np.ndarray, end: int) -> list[tuple[int, int]]:
    return list(pairwise([*breaks.tolist(), end]))


def _chunks(left: int, right: int, room: int) -> list[tuple[int, int]]:
    return [(i, min(i + room, right)) for i in range(left, right, room)]
