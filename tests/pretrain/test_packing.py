"""The layout of packed sequences, and their grouping into batches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from synthetic_shards import all_borders, all_ids, corpora, generators

from kobert_pipeline.pretrain.packing import SPECIAL, group, pack
from kobert_pipeline.pretrain.segments import plan_sequences
from kobert_pipeline.shards.format import Shards
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, SEP_ID


def naive(shards: Shards, a: list[int], b: list[int]) -> list[tuple[int, int, int, int, bool]]:
    """(id, token type, position, borders, maskable) of each piece of one sequence."""
    ids, borders = all_ids(shards).tolist(), all_borders(shards).tolist()
    cells = [(CLS_ID, 0, SPECIAL, False), *((ids[i], 0, borders[i], True) for i in range(*a)), (SEP_ID, 0, SPECIAL, False)]
    if b[1] > b[0]:
        cells += [*((ids[i], 1, borders[i], True) for i in range(*b)), (SEP_ID, 1, SPECIAL, False)]
    return [(piece, kind, position, bits, maskable) for position, (piece, kind, bits, maskable) in enumerate(cells)]


@given(corpora, st.integers(16, 64), generators)
def test_pack_equals_the_plain_layout(shards: Shards, max_length: int, rng: np.random.Generator) -> None:
    sequences = plan_sequences(shards, max_length, 0.1, "next", rng)
    chosen = rng.permutation(len(sequences))[: max(1, len(sequences) // 2)]
    packed = pack(shards, sequences, chosen)
    expected = [naive(shards, sequences.a[row].tolist(), sequences.b[row].tolist()) for row in chosen]
    assert packed.lengths.tolist() == [len(cells) for cells in expected]
    columns = zip(packed.input_ids, packed.token_type_ids, packed.position_ids, packed.borders, packed.maskable, strict=True)
    assert [tuple(int(value) for value in column) for column in columns] == [
        tuple(int(value) for value in cell) for cells in expected for cell in cells
    ]
    assert packed.input_ids.dtype == packed.token_type_ids.dtype == packed.position_ids.dtype == np.int64


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(20, 120), generators)
def test_group_has_every_row_once_in_order_and_fills_batches_up_to_the_bound(
    lengths: list[int], pieces: int, rng: np.random.Generator
) -> None:
    array, order = np.array(lengths), rng.permutation(len(lengths))
    batches = group(array, order, pieces)
    assert np.concatenate(batches).tolist() == order.tolist()
    totals = [int(array[batch].sum()) for batch in batches]
    assert all(total <= pieces or len(batch) == 1 for total, batch in zip(totals, batches, strict=True))
    assert all(total + array[after[0]] > pieces for total, after in zip(totals, batches[1:], strict=False))
