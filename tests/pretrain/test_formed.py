"""The formats of sequences: nothing is lost, nothing is too long, and document boundaries are kept as each format
says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from synthetic_shards import articles, corpora, documents, generators, shards_of

from kobert_pipeline.pretrain.packing import pack
from kobert_pipeline.pretrain.segments import (
    IN_ORDER,
    SWAPPED,
    full_sentences,
    plan_sequences,
)
from kobert_pipeline.shards.format import PARAGRAPH, SENTENCE
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, IGNORE_INDEX, SEP_ID

LENGTHS = st.integers(16, 64)


def separated(sequences, row: int) -> list[int]:
    """Where documents border inside a sequence."""
    return sequences.separators[sequences.separators[:, 0] == row, 1].tolist()


def boundaries_of(shards, bit: int) -> set[int]:
    return {
        int(offset) + int(place)
        for offset, shard in zip(shards.offsets, shards.shards, strict=False)
        for place in np.flatnonzero(shard.boundaries & bit)
    }


@given(shards=corpora, max_length=LENGTHS, across=st.booleans())
def test_full_sentences_hold_every_token_once_and_in_order(shards, max_length, across) -> None:
    sequences = full_sentences(shards, max_length, across)
    places = [place for start, end in sequences.a.tolist() for place in range(start, end)]
    assert places == [place for start, end, _ in documents(shards) for place in range(start, end)]
    assert (sequences.lengths <= max_length).all()
    assert (sequences.next_sentence_label == IGNORE_INDEX).all()


@given(shards=corpora, max_length=LENGTHS, across=st.booleans())
def test_separators_are_where_documents_and_unordered_paragraphs_begin(shards, max_length, across) -> None:
    sequences = full_sentences(shards, max_length, across)
    begins = {start for start, _, _ in documents(shards)}
    unordered = [(start, end) for start, end, ordered in documents(shards) if not ordered]
    begins |= {
        place for place in boundaries_of(shards, PARAGRAPH) if any(start <= place < end for start, end in unordered)
    }
    for row, (start, end) in enumerate(sequences.a.tolist()):
        assert separated(sequences, row) == [place for place in range(start + 1, end) if place in begins]
    if not across:
        assert not len(sequences.separators)


@given(shards=corpora, max_length=LENGTHS)
def test_packed_full_sentences_have_a_mark_at_every_border(shards, max_length) -> None:
    sequences = full_sentences(shards, max_length, True)
    packed = pack(shards, sequences, np.arange(len(sequences)))
    assert packed.lengths.tolist() == sequences.lengths.tolist()
    assert not packed.token_type_ids.any()
    for row, ids in enumerate(np.split(packed.input_ids, np.cumsum(packed.lengths)[:-1])):
        start, end = sequences.a[row].tolist()
        expected = [CLS_ID]
        for place in range(start, end):
            expected += [SEP_ID] * (place in separated(sequences, row))
            expected.append(int(shards.gather(np.array([place]), np.array([1]))[0][0]))
        assert ids.tolist() == [*expected, SEP_ID]


def test_sentences_are_only_cut_where_none_would_fit() -> None:
    shards = shards_of(articles(30))
    begins = boundaries_of(shards, SENTENCE)
    sequences = full_sentences(shards, 40, True)
    assert {start for start, _ in sequences.a.tolist()} <= begins
    assert sequences.lengths.mean() > full_sentences(shards, 40, False).lengths.mean()


@given(shards=corpora, max_length=LENGTHS, rng=generators)
def test_pairs_in_order_or_exchanged_are_neighbours_of_one_document(shards, max_length, rng) -> None:
    sequences = plan_sequences(shards, max_length, 0.1, "order", rng)
    assert (sequences.lengths <= max_length).all()
    places = sorted(
        place for spans in (sequences.a, sequences.b) for start, end in spans.tolist() for place in range(start, end)
    )
    assert places == [place for start, end, _ in documents(shards) for place in range(start, end)]
    begins = boundaries_of(shards, SENTENCE)
    for a, b, label in zip(
        sequences.a.tolist(), sequences.b.tolist(), sequences.next_sentence_label.tolist(), strict=True
    ):
        if label == IGNORE_INDEX:
            assert b[0] == b[1]
            continue
        first, second = (a, b) if label == IN_ORDER else (b, a)
        assert first[1] == second[0] in begins
        assert any(start <= first[0] and second[1] <= end and ordered for start, end, ordered in documents(shards))
    counts = [(sequences.next_sentence_label == label).sum() for label in (IN_ORDER, SWAPPED)]
    assert 0 <= counts[0] - counts[1] <= 1
