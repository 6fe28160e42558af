"""The layout of packed sequences, and their grouping into batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_shards import all_boundaries, all_ids, corpora, generators

from kobert_pipeline.pretrain.packing import SPECIAL_TOKEN_BOUNDARY, group, pack
from kobert_pipeline.pretrain.segments import full_sentences, plan_sequences
from kobert_pipeline.shards.format import Shards, ranges
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, SEP_ID


def naive(shards: Shards, a: list[int], b: list[int], separators: list[int]) -> list[tuple[int, int, int, int, bool]]:
    """(id, token type, position, boundaries, maskable) of each token of one sequence."""
    ids, boundaries = all_ids(shards).tolist(), all_boundaries(shards).tolist()
    cells = [(CLS_ID, 0, SPECIAL_TOKEN_BOUNDARY, False)]
    for i in range(*a):
        cells += [(SEP_ID, 0, SPECIAL_TOKEN_BOUNDARY, False)] * (i in separators) + [(ids[i], 0, boundaries[i], True)]
    cells.append((SEP_ID, 0, SPECIAL_TOKEN_BOUNDARY, False))
    if b[1] > b[0]:
        cells += [*((ids[i], 1, boundaries[i], True) for i in range(*b)), (SEP_ID, 1, SPECIAL_TOKEN_BOUNDARY, False)]
    return [(token, kind, position, bits, maskable) for position, (token, kind, bits, maskable) in enumerate(cells)]


@pytest.mark.parametrize("kind", ["pairs", "exchanged", "full sentences", "sentences of one document"])
@given(corpora, st.integers(16, 64), generators)
def test_pack_equals_the_plain_layout(kind: str, shards: Shards, max_length: int, rng: np.random.Generator) -> None:
    if kind.endswith(("sentences", "document")):
        sequences = full_sentences(shards, max_length, kind == "full sentences")
    else:
        sequences = plan_sequences(shards, max_length, 0.1, "next" if kind == "pairs" else "order", rng)
    chosen = rng.permutation(len(sequences))[: rng.integers(1, len(sequences) + 1)]
    packed = pack(shards, sequences, chosen)
    separators = {row: sequences.separators[sequences.separators[:, 0] == row, 1].tolist() for row in chosen}
    expected = [naive(shards, sequences.a[row].tolist(), sequences.b[row].tolist(), separators[row]) for row in chosen]
    assert packed.lengths.tolist() == [len(cells) for cells in expected] == sequences.lengths[chosen].tolist()
    columns = zip(
        packed.input_ids, packed.token_type_ids, packed.position_ids, packed.boundaries, packed.maskable, strict=True
    )
    assert [tuple(int(value) for value in column) for column in columns] == [
        tuple(int(value) for value in cell) for cells in expected for cell in cells
    ]
    assert packed.input_ids.dtype == packed.token_type_ids.dtype == packed.position_ids.dtype == np.int64


@given(corpora, generators)
def test_gathered_stretches_of_several_shards_are_those_of_all_concatenated(
    shards: Shards, rng: np.random.Generator
) -> None:
    ids, boundaries, stretches = all_ids(shards), all_boundaries(shards), []
    for offset, shard in shards:
        for _ in range(min(len(shard.ids), 3)):
            start = int(rng.integers(len(shard.ids)))
            stretches.append((offset + start, int(rng.integers(len(shard.ids) - start + 1))))
    starts, lengths = np.array(stretches)[rng.permutation(len(stretches))].T
    found = shards.gather(starts, lengths)
    for one, all_ in zip(found, (ids, boundaries), strict=True):
        assert (
            one.tolist()
            == np.concatenate(
                [all_[start : start + length] for start, length in zip(starts, lengths, strict=True)]
            ).tolist()
        )
    assert (found[0].dtype, found[1].dtype) == (np.int64, np.uint8)


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9)), max_size=20))
def test_ranges_are_concatenated_ranges(given: list[tuple[int, int]]) -> None:
    starts, lengths = np.array(given, np.int64).reshape(-1, 2).T
    assert ranges(starts, lengths).tolist() == [
        number for start, length in given for number in range(start, start + length)
    ]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(20, 120), generators)
def test_group_has_every_row_once_in_order_and_fills_batches_up_to_the_bound(
    lengths: list[int], tokens: int, rng: np.random.Generator
) -> None:
    array, order = np.array(lengths), rng.permutation(len(lengths))
    batches = group(array, order, tokens)
    assert np.concatenate(batches).tolist() == order.tolist()
    totals = [int(array[batch].sum()) for batch in batches]
    assert all(total <= tokens or len(batch) == 1 for total, batch in zip(totals, batches, strict=True))
    assert all(total + array[after[0]] > tokens for total, after in zip(totals, batches[1:], strict=False))
