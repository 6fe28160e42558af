"""Planning without a Python step per sentence equals plain loops over the sentences."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from synthetic_shards import articles, corpora, reviews, shards_of

from kobert_pipeline.pretrain.segments import full_sentences, plan_sequences
from kobert_pipeline.pretrain.sequences import sentences_of, sequence_ends, sequence_starts
from kobert_pipeline.shards.format import PARAGRAPH, SENTENCE, Shard, Shards
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

LENGTHS = st.integers(16, 64)
Unit = tuple[int, int, int, bool, bool, bool]
"""Start, end, document's start, ordered, part of something too long, first part."""
Row = tuple[int, int, list[int]]
"""Start, end, and where boundaries are inside."""

HOLES = shards_of(
    [], [(True, []), (False, [])], articles(2), [(False, []), *reviews(2), (True, []), (True, [[3, 90, 4]])], []
)
"""Shards and documents without tokens between others, and sentences that are too long."""


def plain_units(shard: Shard, ordered_room: int, unordered_room: int) -> Iterator[Unit]:
    documents = zip(
        *(shard.documents[places].tolist() for places in (slice(None, -1), slice(1, None))),
        shard.ordered.tolist(),
        strict=True,
    )
    for begin, end, ordered in documents:
        bit, room = (SENTENCE, ordered_room) if ordered else (PARAGRAPH, unordered_room)
        cuts = [place for place in range(begin, end) if shard.boundaries[place] & bit] + [end]
        for left, right in pairwise(cuts):
            for start in range(left, right, room):
                yield start, min(start + room, right), begin, ordered, right - left > room, start == left


@settings(deadline=None)
@given(corpora, LENGTHS, LENGTHS)
@example(HOLES, 16, 20)
def test_units_equal_a_walk_through_the_documents(shards: Shards, ordered_room: int, unordered_room: int) -> None:
    for shard in shards.shards:
        expected = list(plain_units(shard, ordered_room, unordered_room))
        assert (
            list(zip(*(column.tolist() for column in sentences_of(shard, ordered_room, unordered_room)), strict=True))
            == expected
        )


sizes_and_boundaries = st.lists(st.tuples(st.integers(1, 30), st.booleans(), st.integers(1, 60)), max_size=60)


@given(sizes_and_boundaries)
def test_the_way_from_head_to_head_equals_a_greedy_walk(given: list[tuple[int, bool, int]]) -> None:
    sizes, opens, rooms = (
        (np.array(column) for column in zip(*given, strict=True)) if given else (np.empty(0, np.int64),) * 3
    )
    ends = np.cumsum(sizes)
    after = sequence_ends(ends - sizes, ends, rooms, opens.astype(bool))
    expected, place = [], 0
    while place < len(sizes):
        expected.append(place)
        taken, following = sizes[place], place + 1
        while following < len(sizes) and not opens[following] and taken + sizes[following] <= rooms[place]:
            taken, following = taken + sizes[following], following + 1
        assert after[place] == following
        place = following
    assert sequence_starts(after).tolist() == expected


def plain_segments(shards: Shards, max_length: int) -> Iterator[tuple[int, int]]:
    """As many sentences of an ordered document as leave room for [CLS] and two [SEP]; what is unordered or too long
    is alone."""
    for offset, shard in shards:
        open_: list[int] = []  # start, end, document, whether it takes more
        for start, end, document, ordered, cut, _ in plain_units(shard, max_length - 3, max_length - 2):
            alone = cut or not ordered
            if open_ and not alone and open_[3] and document == open_[2] and end - open_[0] <= max_length - 3:
                open_[1] = end
                continue
            if open_:
                yield offset + open_[0], offset + open_[1]
            open_ = [start, end, document, not alone]
        if open_:
            yield offset + open_[0], offset + open_[1]


@settings(deadline=None)
@given(corpora, LENGTHS)
@example(HOLES, 16)
def test_segments_equal_a_walk_through_the_sentences(shards: Shards, max_length: int) -> None:
    sequences = plan_sequences(shards, max_length, 0.0, "order", np.random.default_rng(0))
    a, b = sequences.a.T, sequences.b.T  # (2, N) each; the two segments of a pair are neighbours, in either order
    starts = np.where(b[0] < b[1], np.minimum(a[0], b[0]), a[0])
    ends = np.where(b[0] < b[1], np.maximum(a[1], b[1]), a[1])
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == list(plain_segments(shards, max_length))
    assert ((sequences.next_sentence_label == IGNORE_INDEX) == (b[0] == b[1])).all()
    assert not len(sequences.separators)


def plain_sentences(shards: Shards, max_length: int, across: bool) -> Iterator[Row]:
    """As many sentences as leave room for [CLS] and [SEP], and a [SEP] for each boundary inside."""
    for offset, shard in shards:
        row: Row | None = None
        document = -1
        for start, end, begin, ordered, _, first in plain_units(shard, max_length - 2, max_length - 2):
            boundary = begin != document or (not ordered and first)
            document = begin
            if row and (across or not boundary) and end - row[0] + len(row[2]) + boundary <= max_length - 2:
                row = (row[0], end, row[2] + [start] * boundary)
                continue
            if row:
                yield offset + row[0], offset + row[1], [offset + place for place in row[2]]
            row = (start, end, [])
        if row:
            yield offset + row[0], offset + row[1], [offset + place for place in row[2]]


@settings(deadline=None)
@given(corpora, LENGTHS, st.booleans())
@example(HOLES, 16, True)
@example(HOLES, 16, False)
def test_full_sentences_equal_a_walk_through_the_sentences(shards: Shards, max_length: int, across: bool) -> None:
    sequences, expected = full_sentences(shards, max_length, across), list(plain_sentences(shards, max_length, across))
    assert sequences.a.tolist() == [[start, end] for start, end, _ in expected]
    assert sequences.separators.tolist() == [
        [row, place] for row, (_, _, inside) in enumerate(expected) for place in inside
    ]


@pytest.mark.parametrize("pairs", ["next", "order"])
def test_shards_without_a_token_give_no_sequence(pairs: Any) -> None:
    empty, rng = shards_of([], [(True, [])]), np.random.default_rng(0)
    for sequences in (
        plan_sequences(empty, 32, 0.1, pairs, rng),
        full_sentences(empty, 32, True),
    ):
        assert len(sequences) == 0, pairs
        assert sequences.lengths.tolist() == [], pairs
