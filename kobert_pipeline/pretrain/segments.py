"""The spans of text that become sequences: pairs of segments or sentences, or as many sentences as fit (the four
formats that Liu et al. 2019 compare); single paragraphs of unordered documents.

All functions depend only on the shards, the options and a random generator.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from kobert_pipeline.pretrain.batch import IGNORE_INDEX
from kobert_pipeline.pretrain.sequences import sentences_of, sequence_ends, sequence_starts
from kobert_pipeline.shards.format import Shards

NEXT, RANDOM = 0, 1
"""The values of `next_sentence_label` for NSP, as in HF."""
IN_ORDER, SWAPPED = 0, 1
"""Its values for ALBERT's sentence order prediction."""
PairTask = Literal["next", "order"] | None
"""What is predicted for a sequence pair: whether B follows A (NSP), or whether the two are in order (SOP)."""


class TextSpans(NamedTuple):
    """The R spans of text of N sequences in order, each followed by a [SEP] when packed.

    `starts`, `ends`, `second` (whether the span is a segment B): (R,). The spans of sequence n are numbers `bounds[n]`
    to `bounds[n + 1]` (exclusive); `bounds` is (N + 1,).
    """

    starts: np.ndarray
    ends: np.ndarray
    second: np.ndarray
    bounds: np.ndarray


@dataclass(frozen=True)
class Sequences:
    """N sequences as spans of global positions in the shards.

    `a`, `b`: (N, 2) int64 start and end (exclusive); where `b` is empty there is no pair. `next_sentence_label`: (N,)
    int64. `separators`: (M, 2) int64, for each document boundary inside an `a` the number of the sequence and the
    position of the boundary, in order.
    """

    a: np.ndarray
    b: np.ndarray
    next_sentence_label: np.ndarray
    separators: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int64))

    def __len__(self) -> int:
        return len(self.a)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(N,) the number of tokens of each sequence, including [CLS] and [SEP]s."""
        second = self.b[:, 1] - self.b[:, 0]
        lengths: np.ndarray = 2 + self.a[:, 1] - self.a[:, 0] + second + (second > 0)
        return lengths + np.bincount(self.separators[:, 0], minlength=len(self))

    @cached_property
    def text_spans(self) -> TextSpans:
        """The spans between separators."""
        paired = self.b[:, 1] > self.b[:, 0]
        rows, places = self.separators.T
        separated = np.bincount(rows, minlength=len(self))
        bounds = np.concatenate([[0], np.cumsum(1 + separated + paired)])
        firsts, lasts = bounds[:-1], bounds[:-1] + separated  # the first and the last span of each A
        starts, ends = np.empty(bounds[-1], np.int64), np.empty(bounds[-1], np.int64)
        second = np.zeros(bounds[-1], bool)
        starts[firsts], ends[lasts] = self.a.T
        # a separator ends the span before it and starts the one after it; `inside` numbers the spans before separators
        inside = firsts[rows] + np.arange(len(rows)) - (np.cumsum(separated) - separated)[rows]
        ends[inside] = starts[inside + 1] = places
        of_b = lasts[paired] + 1
        (starts[of_b], ends[of_b]), second[of_b] = self.b[paired].T, True
        return TextSpans(starts, ends, second, bounds)


def plan_sequences(
    shards: Shards, max_length: int, short_seq_prob: float, pairs: PairTask, rng: np.random.Generator
) -> Sequences:
    """SEGMENT-PAIR: every token of the shards in one sequence of at most `max_length` tokens.

    For the task "next" half of the pairs get the B of another document's pair, so that no text is lost to the random
    half; for "order" the segments of half of the pairs are swapped. Paragraphs of unordered documents stay single.
    """
    columns: list[np.ndarray] = []  # start of A, start of B (or the end, if there is no pair), end, document's start
    for offset, shard in shards:
        sentences = sentences_of(shard, max_length - 3, max_length - 2)  # [CLS] A [SEP] B [SEP], or [CLS] A [SEP]
        alone = ~sentences.ordered | sentences.is_split
        opens = alone | sentences.starts_document | np.append(True, alone[:-1])[: len(alone)]
        room = _target_lengths(len(alone), max_length, short_seq_prob, rng)
        after = sequence_ends(sentences.starts, sentences.ends, room, opens)
        firsts, drawn = sequence_starts(after), rng.random(len(alone))
        lasts = after[firsts]  # exclusive
        starts, ends = sentences.starts[firsts], sentences.ends[lasts - 1]
        is_pair = lasts - firsts > 1 if pairs else np.zeros(len(firsts), bool)
        # B begins at a random sentence of the sequence, but not at its first
        first_of_b = firsts + is_pair * (1 + (drawn[firsts] * (lasts - firsts - 1)).astype(np.int64))
        middles = np.where(is_pair, sentences.starts[first_of_b], ends)
        columns.append(offset + np.stack([starts, middles, ends, sentences.documents[firsts]]))
    start, middle, end, document = np.concatenate([np.empty((4, 0), np.int64), *columns], 1)
    a, b = np.stack([start, middle], 1), np.stack([middle, end], 1)
    label = np.where(end > middle, NEXT, IGNORE_INDEX)
    if pairs == "order":
        return _with_swapped_segments(a, b, label, rng)
    return _with_random_partners(a, b, label, document, max_length, rng)


def _target_lengths(count: int, max_length: int, short_seq_prob: float, rng: np.random.Generator) -> np.ndarray:
    """(count,) the target length of a sequence that starts at each sentence. As with BERT's `short_seq_prob` a share of
    them is short, because inputs of fine-tuning are often short, too."""
    return np.where(rng.random(count) < short_seq_prob, rng.integers(2, max_length - 2, count), max_length - 3)


def _with_random_partners(
    a: np.ndarray, b: np.ndarray, label: np.ndarray, documents: np.ndarray, max_length: int, rng: np.random.Generator
) -> Sequences:
    """Half of the pairs with the B of another document, truncated to `max_length`."""
    _rotate_segments(b, label, documents, rng)
    room = np.maximum(max_length - 3 - (a[:, 1] - a[:, 0]), 0)  # < 0 where an A without a B is full
    b[:, 1] = np.minimum(b[:, 1], b[:, 0] + room)
    return Sequences(a, b, label)


def _rotate_segments(b: np.ndarray, label: np.ndarray, documents: np.ndarray, rng: np.random.Generator) -> None:
    """Rotate the B of half of the pairs, chosen at random, in place: each gets the B of the one before."""
    paired = np.flatnonzero(label == NEXT)
    chosen = rng.permutation(paired)[: len(paired) // 2]
    source = np.roll(chosen, 1)
    b[chosen] = b[source]
    # a B of the same document is neither the next nor a random segment
    label[chosen] = np.where(documents[chosen] == documents[source], IGNORE_INDEX, RANDOM)


def _with_swapped_segments(a: np.ndarray, b: np.ndarray, label: np.ndarray, rng: np.random.Generator) -> Sequences:
    """The segments of half of the pairs, chosen at random, swapped."""
    paired = np.flatnonzero(label == NEXT)
    swapped = rng.permutation(paired)[: len(paired) // 2]
    a, label = a.copy(), label.copy()
    a[swapped], b[swapped] = b[swapped], a[swapped]
    label[paired], label[swapped] = IN_ORDER, SWAPPED
    return Sequences(a, b, label)


def sentence_pairs(shards: Shards, max_length: int, rng: np.random.Generator) -> Sequences:
    """SENTENCE-PAIR: two sentences of an ordered document, or for half of the pairs the second one of another document.
    A sentence that is left over or too long for a pair is a sequence of its own."""
    columns: list[np.ndarray] = []  # as in plan_sequences
    for offset, shard in shards:
        sentences = sentences_of(shard, max_length - 3, max_length - 3)
        starts, ends, count = sentences.starts, sentences.ends, len(sentences.starts)
        pairable = sentences.ordered & ~sentences.is_split
        fits = ends[1:] - starts[:-1] <= max_length - 3
        joins_next = pairable[:-1] & pairable[1:] & ~sentences.starts_document[1:] & fits
        after = np.arange(1, count + 1) + np.append(joins_next, False)[:count]
        firsts = sequence_starts(after)
        columns.append(
            offset + np.stack([starts[firsts], ends[firsts], ends[after[firsts] - 1], sentences.documents[firsts]])
        )
    start, middle, end, document = np.concatenate([np.empty((4, 0), np.int64), *columns], 1)
    label = np.where(end > middle, NEXT, IGNORE_INDEX)
    a, b = np.stack([start, middle], 1), np.stack([middle, end], 1)
    return _with_random_partners(a, b, label, document, max_length, rng)


def full_sentences(shards: Shards, max_length: int, across: bool) -> Sequences:
    """As many sentences as fit: FULL-SENTENCES (`across` document boundaries, each marked by a [SEP]), or
    DOC-SENTENCES. A paragraph of an unordered document counts as a document of its own."""
    spans: list[np.ndarray] = []
    separators: list[np.ndarray] = []
    count = 0
    for offset, shard in shards:
        sentences = sentences_of(shard, max_length - 2, max_length - 2)
        boundaries = sentences.starts_document | (~sentences.ordered & sentences.is_first_part)
        # each boundary inside a sequence takes the room of a [SEP], as if the text after it were shifted by one token
        shifts = np.cumsum(boundaries)
        opens = np.arange(len(boundaries)) == 0 if across else boundaries
        after = sequence_ends(sentences.starts + shifts, sentences.ends + shifts, max_length - 2, opens)
        firsts = sequence_starts(after)
        spans.append(offset + np.stack([sentences.starts[firsts], sentences.ends[after[firsts] - 1]], 1))
        inside = np.setdiff1d(np.flatnonzero(boundaries), firsts)
        rows = np.searchsorted(firsts, inside, side="right") - 1
        separators.append(np.stack([count + rows, offset + sentences.starts[inside]], 1))
        count += len(firsts)
    none = np.empty((0, 2), np.int64)
    a = np.concatenate([none, *spans])
    empty_b = np.repeat(a[:, 1:], 2, 1)
    return Sequences(a, empty_b, np.full(len(a), IGNORE_INDEX), np.concatenate([none, *separators]))
