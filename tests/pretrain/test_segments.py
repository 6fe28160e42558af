"""Which spans of text become sequences."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_shards import all_boundaries, articles, corpora, document_of, documents, generators, reviews, shards_of

from kobert_pipeline.pretrain.segments import NEXT, RANDOM, Sequences, plan_sequences
from kobert_pipeline.shards.format import PARAGRAPH, SENTENCE, Shards
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

lengths = st.integers(16, 64)
shares = st.sampled_from([0.0, 0.1, 1.0])


def rows(sequences: Sequences) -> list[tuple[tuple[int, int], tuple[int, int], int]]:
    """(A, B, label) of each sequence in the order of the text."""
    table = zip(sequences.a.tolist(), sequences.b.tolist(), sequences.next_sentence_label.tolist(), strict=True)
    return sorted((tuple(a), tuple(b), label) for a, b, label in table)


def is_pair(b: tuple[int, int]) -> bool:
    return b[1] > b[0]


@given(corpora, lengths, shares, generators)
def test_every_token_is_in_exactly_one_a_or_original_b(
    shards: Shards, max_length: int, share: float, rng: np.random.Generator
) -> None:
    """The gaps between the A segments are the original Bs. Each is used once, and cut only where the sequence would be
    too long."""
    table = rows(plan_sequences(shards, max_length, share, "next", rng))
    gaps = {}
    for (a, _, _), following in zip(table, [*(a for a, _, _ in table[1:]), (len(shards), 0)], strict=True):
        assert a[0] < a[1] <= following[0]
        if a[1] < following[0]:
            gaps[a[1]] = following[0] - a[1]
    assert table[0][0][0] == 0
    used = Counter(b[0] for _, b, _ in table if is_pair(b))
    assert used == Counter(gaps.keys())
    for a, b, _ in table:
        if is_pair(b):
            assert b[1] - b[0] == min(gaps[b[0]], max_length - 3 - (a[1] - a[0]))


@given(corpora, lengths, shares, generators)
def test_lengths_count_the_special_tokens_and_stay_below_max_length(
    shards: Shards, max_length: int, share: float, rng: np.random.Generator
) -> None:
    sequences = plan_sequences(shards, max_length, share, "next", rng)
    for (a, b), length in zip(zip(sequences.a, sequences.b, strict=True), sequences.lengths, strict=True):
        assert length == 2 + a[1] - a[0] + (b[1] - b[0] + 1 if is_pair(b) else 0)
        assert length <= max_length


@given(corpora, lengths, shares, generators)
def test_segments_are_cut_at_sentence_boundaries_only(
    shards: Shards, max_length: int, share: float, rng: np.random.Generator
) -> None:
    boundaries = all_boundaries(shards)
    ordered = {start: (end, is_ordered) for start, end, is_ordered in documents(shards)}
    sentence_starts = np.flatnonzero(boundaries & SENTENCE)
    document_ends = {end for end, _ in ordered.values()}
    for a, b, _ in rows(plan_sequences(shards, max_length, share, "next", rng)):
        if not documents(shards)[document_of(shards, a[0])][2]:
            continue
        if is_pair(b):
            assert boundaries[a[0]] & SENTENCE and boundaries[a[1]] & SENTENCE and boundaries[b[0]] & SENTENCE
        elif not boundaries[a[0]] & SENTENCE or not (a[1] in document_ends or boundaries[a[1]] & SENTENCE):
            left = sentence_starts[sentence_starts <= a[0]].max()
            right = min([int(i) for i in sentence_starts if i > a[0]] + [end for end in document_ends if end > a[0]])
            assert right - left > max_length - 3, "only a sentence too long for a sequence may be cut inside"
            assert a[1] <= right


@given(corpora, lengths, shares, generators)
def test_a_random_b_is_of_another_document_and_a_next_b_follows_its_a(
    shards: Shards, max_length: int, share: float, rng: np.random.Generator
) -> None:
    for a, b, label in rows(plan_sequences(shards, max_length, share, "next", rng)):
        if not is_pair(b):
            assert label == IGNORE_INDEX
            continue
        same = document_of(shards, a[0]) == document_of(shards, b[0])
        assert label in ((NEXT, IGNORE_INDEX) if same else (RANDOM,))
        assert label != NEXT or b[0] == a[1]


@given(corpora, lengths, shares, generators)
def test_unordered_documents_give_a_sequence_per_paragraph_or_chunk_of_it_and_no_pair(
    shards: Shards, max_length: int, share: float, rng: np.random.Generator
) -> None:
    boundaries, room = all_boundaries(shards), max_length - 2
    expected = []
    for start, end, is_ordered in documents(shards):
        if not is_ordered:
            breaks = [i for i in range(start, end) if boundaries[i] & PARAGRAPH] + [end]
            for left, right in pairwise(breaks):
                expected += [(i, min(i + room, right)) for i in range(left, right, room)]
    found = [
        (a, b, label)
        for a, b, label in rows(plan_sequences(shards, max_length, share, "next", rng))
        if not documents(shards)[document_of(shards, a[0])][2]
    ]
    assert [a for a, _, _ in found] == expected
    assert all(label == IGNORE_INDEX and not is_pair(b) for _, b, label in found)


@given(corpora, lengths, shares, st.integers(0, 2**32))
def test_sequences_are_a_function_of_the_generator(shards: Shards, max_length: int, share: float, seed: int) -> None:
    first, second = (plan_sequences(shards, max_length, share, "next", np.random.default_rng(seed)) for _ in range(2))
    assert rows(first) == rows(second)


def test_about_half_of_the_pairs_are_random() -> None:
    label = plan_sequences(shards_of(articles(200)), 40, 0.1, "next", np.random.default_rng(5)).next_sentence_label
    paired = label[label != IGNORE_INDEX]
    assert len(paired) > 300
    assert 0.47 <= (paired == RANDOM).mean() <= 0.5


def test_which_pairs_are_random_does_not_depend_on_their_place() -> None:
    sequences = plan_sequences(shards_of(articles(400)), 40, 0.1, "next", np.random.default_rng(6))
    label = sequences.next_sentence_label[np.argsort(sequences.a[:, 0])]
    halves = np.array_split(label[label != IGNORE_INDEX], 2)
    for half in halves:
        assert abs((half == RANDOM).mean() - 0.5) < 5 * 0.5 / len(half) ** 0.5


def test_a_single_document_has_no_random_pair() -> None:
    sequences = plan_sequences(shards_of([(True, [[5] * 60])]), 32, 0.0, "next", np.random.default_rng(0))
    assert len(sequences) > 5
    assert RANDOM not in sequences.next_sentence_label


def test_sequences_are_filled_unless_they_are_to_be_short() -> None:
    shards = shards_of([(True, [[4] * 100])])
    full, short = (plan_sequences(shards, 35, share, "order", np.random.default_rng(1)).lengths for share in (0.0, 1.0))
    assert set(full[:-1].tolist()) == {35}  # eight sentences of four, and a ninth would not fit
    assert len(short) > 1.3 * len(full)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_document_without_tokens_gives_no_sequence(is_ordered: Any) -> None:
    shards = shards_of([(True, [[3, 3]]), (is_ordered, []), (False, [[4]])])
    sequences = plan_sequences(shards, 16, 0.0, "next", np.random.default_rng(0))
    assert len(sequences) == 2, is_ordered


def test_the_corpora_of_these_tests_hold_both_kinds() -> None:
    found = plan_sequences(
        shards_of(articles(5), [], reviews(5)), 32, 0.1, "next", np.random.default_rng(0)
    ).next_sentence_label
    assert set(found.tolist()) == {NEXT, RANDOM, IGNORE_INDEX}
