"""The spans of text that become sequences, in three formats that Liu et al. 2019 (RoBERTa) compare: SEGMENT-PAIR with a
segment A and a segment B, FULL-SENTENCES and DOC-SENTENCES with as many sentences as fit.

A document whose paragraphs have no meaningful order (the reviews of a film) is called unordered. Its paragraphs are
never paired. Positions are global: they count the tokens of all shards, one shard after another.

All functions depend only on the shards, the options and a random generator.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from kobert_pipeline.pretrain.sequences import sentences_of, sequence_ends, sequence_starts
from kobert_pipeline.shards.format import Shards
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

NEXT, RANDOM = 0, 1
"""The values of `next_sentence_label` for NSP, as in HF."""
IN_ORDER, SWAPPED = 0, 1
"""The values of `next_sentence_label` for ALBERT's sentence order prediction."""
PairTask = Literal["next", "order"]
"""What is predicted for a sequence pair: whether B follows A (NSP), or whether the two are in order (SOP)."""


class TextSpans(NamedTuple):
    """The text of N sequences as R spans in order, each followed by a [SEP] when packed: a segment A is one span, or
    several where it contains document boundaries; a segment B is one.

    `starts`, `ends` (exclusive, global positions) and `second` (whether the span is a segment B): (R,). Sequence n has
    the spans `bounds[n]` to `bounds[n + 1]` (exclusive); `bounds` is (N + 1,).
    """

    starts: np.ndarray
    ends: np.ndarray
    second: np.ndarray
    bounds: np.ndarray


@dataclass(frozen=True)
class Sequences:
    """N sequences as spans of global positions in the shards.

    `a`, `b`: (N, 2) int64 start and end (exclusive) of the segments; where `b` is empty there is no pair.
    `next_sentence_label`: (N,) int64. `separators`: (M, 2) int64, one row per document boundary inside a segment A, in
    order: the number of the sequence, and the position of the first token after the boundary.
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
        """The segments, split at their separators."""
        # A with boundaries at s and t, and B -> spans [A0, s) [s, t) [t, A1) [B0, B1)
        paired = self.b[:, 1] > self.b[:, 0]
        rows, positions = self.separators.T
        separator_counts = np.bincount(rows, minlength=len(self))
        bounds = np.concatenate([[0], np.cumsum(1 + separator_counts + paired)])
        firsts, lasts = bounds[:-1], bounds[:-1] + separator_counts  # the first and the last span of each A
        starts, ends = np.empty(bounds[-1], np.int64), np.empty(bounds[-1], np.int64)
        second = np.zeros(bounds[-1], bool)
        starts[firsts], ends[lasts] = self.a.T
        # the k-th separator of a sequence ends its k-th span and starts the next one
        number_in_sequence = np.arange(len(rows)) - (np.cumsum(separator_counts) - separator_counts)[rows]
        before_separator = firsts[rows] + number_in_sequence
        ends[before_separator] = starts[before_separator + 1] = positions
        of_b = lasts[paired] + 1
        starts[of_b], ends[of_b] = self.b[paired].T
        second[of_b] = True
        return TextSpans(starts, ends, second, bounds)


def plan_sequences(
    shards: Shards, max_length: int, short_seq_prob: float, pairs: PairTask, rng: np.random.Generator
) -> Sequences:
    """SEGMENT-PAIR: ordered documents as pairs of segments, each pair of at most `max_length` tokens. A paragraph of an
    unordered document is a sequence of its own, and so is each part of a sentence that is too long."""
    # every token of the shards is in one sequence
    # per shard (4, sequences): start of A, start of B (or the end, if there is no pair), end, start of the document
    columns: list[np.ndarray] = []
    for offset, shard in shards:
        # room for the special tokens of [CLS] A [SEP] B [SEP] in ordered documents, of [CLS] A [SEP] in unordered ones
        sentences = sentences_of(shard, max_length - 3, max_length - 2)
        alone = ~sentences.ordered | sentences.is_split
        # a sequence must start at each of these: what is alone, what follows that, and the start of a document
        follows_alone = np.append(True, alone[:-1])[: len(alone)]
        opens = alone | sentences.starts_document | follows_alone
        # for every sentence, because it is not known yet which ones start a sequence
        room = _target_lengths(len(alone), max_length, short_seq_prob, rng)
        # for each sentence, the number of the one after a sequence that would start with it
        after = sequence_ends(sentences.starts, sentences.ends, room, opens)
        firsts, drawn = sequence_starts(after), rng.random(len(alone))
        stops = after[firsts]
        starts, ends = sentences.starts[firsts], sentences.ends[stops - 1]
        is_pair = stops - firsts > 1
        # B begins at a random sentence of the sequence, but not at its first
        first_of_b = firsts + is_pair * (1 + (drawn[firsts] * (stops - firsts - 1)).astype(np.int64))
        middles = np.where(is_pair, sentences.starts[first_of_b], ends)
        columns.append(offset + np.stack([starts, middles, ends, sentences.documents[firsts]]))
    start, middle, end, document = np.concatenate([np.empty((4, 0), np.int64), *columns], 1)
    a, b = np.stack([start, middle], 1), np.stack([middle, end], 1)
    label = np.where(end > middle, NEXT, IGNORE_INDEX)
    # half of the pairs swap their segments (SOP), or pass their B on to one another (NSP), so that random pairs need no
    # text of their own
    if pairs == "order":
        return _with_swapped_segments(a, b, label, rng)
    return _with_random_partners(a, b, label, document, max_length, rng)


def _target_lengths(count: int, max_length: int, short_seq_prob: float, rng: np.random.Generator) -> np.ndarray:
    """(count,) for each sentence, the tokens of text that a sequence starting with it may have. As in BERT, a share
    `short_seq_prob` of them is short, because inputs of fine-tuning are often short, too."""
    # from 2 tokens to all that fit, both included, as in BERT's create_pretraining_data.py
    return np.where(rng.random(count) < short_seq_prob, rng.integers(2, max_length - 2, count), max_length - 3)


def _with_random_partners(
    a: np.ndarray, b: np.ndarray, label: np.ndarray, documents: np.ndarray, max_length: int, rng: np.random.Generator
) -> Sequences:
    """For NSP: half of the pairs get the B of another pair, truncated so that the sequence fits into `max_length`. The
    label is RANDOM if that B is from another document."""
    _rotate_segments(b, label, documents, rng)
    # an A without a B needs one [SEP] less and may be one token longer, which would leave -1
    room = np.maximum(max_length - 3 - (a[:, 1] - a[:, 0]), 0)
    b[:, 1] = np.minimum(b[:, 1], b[:, 0] + room)
    return Sequences(a, b, label)


def _rotate_segments(b: np.ndarray, label: np.ndarray, documents: np.ndarray, rng: np.random.Generator) -> None:
    """Rotate the B of half of the pairs, chosen at random, in place: each gets the B of the one before."""
    paired = np.flatnonzero(label == NEXT)
    chosen = rng.permutation(paired)[: len(paired) // 2]
    source = np.roll(chosen, 1)  # a ring, so that every B is used exactly once
    b[chosen] = b[source]
    # a B from elsewhere in the same document is neither the next nor a random segment, so it has no label
    label[chosen] = np.where(documents[chosen] == documents[source], IGNORE_INDEX, RANDOM)


def _with_swapped_segments(a: np.ndarray, b: np.ndarray, label: np.ndarray, rng: np.random.Generator) -> Sequences:
    """For SOP: swap the segments of half of the pairs, chosen at random."""
    paired = np.flatnonzero(label == NEXT)
    swapped = rng.permutation(paired)[: len(paired) // 2]
    a, label = a.copy(), label.copy()
    a[swapped], b[swapped] = b[swapped], a[swapped]
    label[paired], label[swapped] = IN_ORDER, SWAPPED
    return Sequences(a, b, label)


def full_sentences(shards: Shards, max_length: int, across: bool) -> Sequences:
    """As many sentences as fit: FULL-SENTENCES (`across` document boundaries, each marked by a [SEP]), or
    DOC-SENTENCES. A paragraph of an unordered document counts as a document of its own, so that only FULL-SENTENCES
    joins it with others."""
    spans: list[np.ndarray] = []
    separators: list[np.ndarray] = []
    count = 0
    for offset, shard in shards:
        sentences = sentences_of(shard, max_length - 2, max_length - 2)
        boundaries = sentences.starts_document | (~sentences.ordered & sentences.is_first_part)
        # each boundary inside a sequence takes the room of a [SEP], as if the text after it were shifted by one token
        shifts = np.cumsum(boundaries)
        opens = sentences.follows_gap if across else boundaries  # a sequence has no gaps
        after = sequence_ends(sentences.starts + shifts, sentences.ends + shifts, max_length - 2, opens)
        firsts = sequence_starts(after)
        spans.append(offset + np.stack([sentences.starts[firsts], sentences.ends[after[firsts] - 1]], 1))
        inside = np.setdiff1d(np.flatnonzero(boundaries), firsts)  # boundaries within a sequence, not at its start
        rows = np.searchsorted(firsts, inside, side="right") - 1
        separators.append(np.stack([count + rows, offset + sentences.starts[inside]], 1))
        count += len(firsts)
    none = np.empty((0, 2), np.int64)
    a = np.concatenate([none, *spans])
    empty_b = np.repeat(a[:, 1:], 2, 1)
    return Sequences(a, empty_b, np.full(len(a), IGNORE_INDEX), np.concatenate([none, *separators]))
