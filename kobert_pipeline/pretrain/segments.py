"""Which stretches of text become sequences: segment pairs of ordered documents (BERT's next sentence prediction), single paragraphs of
unordered ones. A function of the shards, the options and a generator."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kobert_pipeline.pretrain.batch import IGNORE_INDEX
from kobert_pipeline.shards.format import PARAGRAPH, SENTENCE, Shard, Shards

NEXT, RANDOM = 0, 1
"""HF's `next_sentence_label`."""


@dataclass(frozen=True)
class Sequences:
    """N sequences as stretches of global positions. `a`, `b`: (N, 2) int64 start and end (exclusive); an empty `b` is no pair.
    `next_sentence_label`: (N,) int64."""

    a: np.ndarray
    b: np.ndarray
    next_sentence_label: np.ndarray

    def __len__(self) -> int:
        return len(self.a)

    @property
    def lengths(self) -> np.ndarray:
        """(N,) pieces of each sequence with [CLS] and its [SEP]s."""
        second = self.b[:, 1] - self.b[:, 0]
        return 2 + self.a[:, 1] - self.a[:, 0] + second + (second > 0)


def plan_sequences(shards: Shards, max_length: int, short_share: float, pairs: bool, rng: np.random.Generator) -> Sequences:
    """Every piece of the shards in one sequence of at most `max_length` pieces; B segments are exchanged between documents, so that no
    text is lost to the random half."""
    spans: list[tuple[int, int, int]] = []  # start, where B begins (end: nowhere), end
    documents: list[int] = []
    for offset, shard in zip(shards.offsets, shards.shards, strict=False):
        for number in range(len(shard.ordered)):
            found = _document_spans(shard, number, max_length, short_share, pairs, rng)
            spans += [(int(offset) + start, int(offset) + middle, int(offset) + end) for start, middle, end in found]
            documents += [int(offset) + int(shard.documents[number])] * len(found)
    table = np.array(spans, np.int64).reshape(-1, 3)
    a, b = table[:, [0, 1]], table[:, [1, 2]].copy()
    label = np.where(b[:, 1] > b[:, 0], NEXT, IGNORE_INDEX)
    _exchange(b, label, np.array(documents, np.int64), rng)
    room = np.maximum(max_length - 3 - (a[:, 1] - a[:, 0]), 0)  # a full A that has no B leaves less than nothing
    b[:, 1] = np.minimum(b[:, 1], b[:, 0] + room)
    return Sequences(a, b, label)


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
