"""Windows in padded batches, as a function of (seed, step)."""

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.features.format import Features, flatten, row_starts
from kobert_pipeline.features.rows import by_length
from kobert_pipeline.finetune.batching import Batches, padded
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.finetune.train import width_multiple
from kobert_pipeline.tokenizer.special_tokens import PAD_ID
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.prefetch import prefetch


def features_of(lengths: list[int], seed: int = 0) -> Features:
    """Windows of random tokens; the first token of each is its number, so that it can be found again."""
    rng = np.random.default_rng(seed)
    ids = [[1000 + i, *rng.integers(5, 99, length - 1).tolist()] for i, length in enumerate(lengths)]
    types = [rng.integers(0, 2, length).tolist() for length in lengths]
    return Features(
        {"windows": row_starts(ids), "input_ids": flatten(ids, np.int32), "token_type_ids": flatten(types, np.uint8)},
        [],
    )


def batches_of(lengths: list[int], batch_size: int, seed: int = 1) -> Batches:
    return Batches(features_of(lengths), {"labels": np.arange(len(lengths)) * 10}, batch_size, seed)


window_lengths = st.lists(st.integers(1, 30), min_size=1, max_size=60)
LENGTHS = np.random.default_rng(0).integers(1, 60, 500).tolist()


@given(window_lengths, st.integers(1, 8), st.integers(0, 2**31))
def test_every_window_comes_once_an_epoch_with_its_own_label(lengths: list[int], batch_size: int, seed: int) -> None:
    batches = batches_of(lengths, batch_size, seed)
    for epoch in range(2):
        found = [batches.batch(epoch * batches.per_epoch + i, 0, 1) for i in range(batches.per_epoch)]
        numbers = torch.cat([batch["input_ids"][:, 0] for batch in found]) - 1000
        assert Counter(numbers.tolist()) == Counter(range(len(lengths)))
        assert torch.cat([batch["labels"] for batch in found]).tolist() == (10 * numbers).tolist()
        assert all(1 <= len(batch["labels"]) <= batch_size for batch in found)


def test_batches_are_a_function_of_seed_and_step() -> None:
    one, two, other = batches_of(LENGTHS, 8), batches_of(LENGTHS, 8), batches_of(LENGTHS, 8, seed=2)
    steps = range(3 * one.per_epoch)
    sequential = [one.batch(step, 0, 1)["labels"].tolist() for step in steps]
    at_random = {
        step: two.batch(step, 0, 1)["labels"].tolist()
        for step in np.random.default_rng(0).permutation(steps).tolist()[:40]
    }
    assert all(sequential[step] == labels for step, labels in at_random.items())
    assert sequential[: one.per_epoch] != sequential[one.per_epoch : 2 * one.per_epoch]
    assert [other.batch(step, 0, 1)["labels"].tolist() for step in range(5)] != sequential[:5]


@given(window_lengths, st.integers(1, 8), st.integers(1, 16))
def test_padding_to_a_multiple_adds_padding_alone_and_no_place_that_no_window_has(
    lengths: list[int], batch_size: int, multiple: int
) -> None:
    features = features_of(lengths)
    plain, rounded = (
        Batches(features, {}, batch_size, 1),
        Batches(features, {}, batch_size, 1, pad_to_multiple_of=multiple),
    )
    for step in range(plain.per_epoch):
        one, other = plain.batch(step, 0, 1), rounded.batch(step, 0, 1)
        narrow, wide = one["input_ids"].shape[1], other["input_ids"].shape[1]
        assert narrow <= wide < narrow + multiple
        assert wide % multiple == 0 or wide == max(lengths)
        for name in ("input_ids", "token_type_ids", "attention_mask"):
            assert torch.equal(other[name][:, :narrow], one[name])
        assert not other["attention_mask"][:, narrow:].any()


def test_parts_are_the_whole_batch_cut_up_and_as_wide() -> None:
    """A head for spans takes a softmax over all places of a window, padding included."""
    batches = batches_of(LENGTHS, 8)
    for step in range(20):
        whole, parts = batches.batch(step, 0, 1), [batches.batch(step, part, 3) for part in range(3)]
        for name in ("input_ids", "token_type_ids", "attention_mask", "labels"):
            assert torch.equal(torch.cat([part[name] for part in parts]), whole[name])
        assert sum(float(part["share"]) for part in parts) == pytest.approx(1)


@given(window_lengths, st.integers(1, 12), st.integers(1, 5), st.integers(1, 200), st.integers(1, 3))
def test_no_device_computes_more_than_it_may_at_once(
    lengths: list[int], batch_size: int, ranks: int, max_tokens: int, choices: int
) -> None:
    features = choices_of([length for length in lengths for _ in range(choices)], choices)
    batches = Batches(features, {"labels": np.arange(len(lengths))}, batch_size, seed=1, pad_to_multiple_of=8)
    plan = Plan(max_tokens_per_device=max_tokens)
    by_rank = [
        list(prefetch(batches.batch, 0, batches.per_epoch, place, plan, batches.parts_at))
        for place in (SimpleNamespace(num_processes=ranks, process_index=index) for index in range(ranks))
    ]
    for step, of_ranks in enumerate(zip(*by_rank, strict=True)):
        whole, parts = batches.batch(step, 0, 1), [part for own in of_ranks for part in own]
        rows, row = len(whole["labels"]), whole["input_ids"][0].numel()
        most = max(max_tokens, row)  # a row is never split
        fewest = next(count for count in range(1, rows + 1) if -(-rows // (ranks * count)) * row <= most)
        assert {len(own) for own in of_ranks} == {fewest}
        assert all(part["input_ids"].numel() <= most for part in parts)
        computed = [part for part in parts if part["share"] > 0]
        assert torch.equal(torch.cat([part["input_ids"] for part in computed]), whole["input_ids"])
        assert len(parts) - len(computed) < ranks


def test_windows_of_about_equal_length_are_batched_together_and_batches_come_in_no_order_of_length() -> None:
    batches = batches_of(LENGTHS, 8)
    found = [batches.batch(step, 0, 1) for step in range(batches.per_epoch)]
    cells, real = (
        sum(int(f(batch)) for batch in found)
        for f in (lambda b: b["input_ids"].numel(), lambda b: b["attention_mask"].sum())
    )
    assert real == sum(LENGTHS)
    assert cells < 1.15 * real
    widths = [batch["input_ids"].shape[1] for batch in found]
    assert abs(np.corrcoef(widths, range(len(widths)))[0, 1]) < 0.5


@given(window_lengths, st.data())
def test_padded_equals_a_naive_padding(lengths: list[int], data: st.DataObject) -> None:
    features = features_of(lengths)
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=10))
    found = padded(features, np.array(rows), "cpu")
    width = max(lengths[row] for row in rows)
    for name, filler in {"input_ids": PAD_ID, "token_type_ids": 0}.items():
        windows = [features.arrays[name][features.arrays["windows"][row] :][: lengths[row]].tolist() for row in rows]
        assert found[name].tolist() == [window + [filler] * (width - len(window)) for window in windows]
    assert found["attention_mask"].tolist() == [[1] * lengths[row] + [0] * (width - lengths[row]) for row in rows]
    assert {tensor.dtype for tensor in found.values()} == {torch.int64}


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_prediction_takes_every_window_once_shortest_first(batch_size: Any) -> None:
    features = features_of(LENGTHS)
    order = np.concatenate(by_length(features, batch_size))
    assert sorted(order.tolist()) == list(range(len(LENGTHS))), batch_size
    assert (np.diff(features.lengths[order]) >= 0).all(), batch_size


def test_batches_of_a_prediction_end_where_padding_costs_more_than_a_forward_pass() -> None:
    features = features_of(LENGTHS)
    lengths, plain = features.lengths, by_length(features, 7)
    found = by_length(features, 7, max_padding=5)
    assert np.concatenate(found).tolist() == np.concatenate(plain).tolist()
    assert all(len(rows) * lengths[rows].max() - lengths[rows].sum() <= 5 for rows in found)
    assert len(plain) < len(found) < len(LENGTHS)
    for rows, after in pairwise(found):  # none is smaller than it must be, unless the batch was full
        full = any(rows[-1] == batch[-1] for batch in plain)
        assert full or len(rows) * lengths[after[0]] - lengths[rows].sum() > 5
    assert by_length(features_of([]), 7, 5) == []


# rows of several windows: the choices of one example


def choices_of(lengths: list[int], choices: int) -> Features:
    features = features_of(lengths)
    return Features(features.arrays | {"choices": np.array(choices)}, [])


@given(st.integers(2, 4), st.lists(st.integers(1, 30), min_size=1, max_size=20), st.integers(1, 5), st.data())
def test_choices_of_an_example_stay_together_in_their_order(
    choices: int, longest: list[int], batch_size: int, data: st.DataObject
) -> None:
    lengths = [data.draw(st.integers(1, length)) for length in longest for _ in range(choices)]
    features = choices_of(lengths, choices)
    batches = Batches(features, {"labels": np.arange(len(longest))}, batch_size, seed=1)
    assert len(features) == len(longest) and batches.per_epoch == -(-len(longest) // batch_size)
    seen = []
    for step in range(batches.per_epoch):
        batch = batches.batch(step, 0, 1)
        assert batch["input_ids"].shape == batch["attention_mask"].shape == batch["token_type_ids"].shape
        assert (
            batch["input_ids"].shape[1] == choices and batch["input_ids"].shape[0] == len(batch["labels"]) <= batch_size
        )
        expected = 1000 + batch["labels"][:, None] * choices + torch.arange(choices)
        assert torch.equal(batch["input_ids"][:, :, 0], expected)
        assert batch["attention_mask"].sum(-1).flatten().tolist() == [
            lengths[number - 1000] for number in expected.flatten()
        ]
        seen += batch["labels"].tolist()
    assert sorted(seen) == list(range(len(longest)))


@pytest.mark.parametrize("choices", [2, 5])
def test_padded_choices_are_the_padded_windows_in_another_shape(choices: Any) -> None:
    alone, together = features_of(LENGTHS), choices_of(LENGTHS, choices)
    rows = np.array([3, 0, 17])
    flat_rows = (rows[:, None] * choices + np.arange(choices)).flatten()
    for name, tensor in padded(together, rows, "cpu").items():
        assert torch.equal(tensor.flatten(0, 1), padded(alone, flat_rows, "cpu")[name]), choices
    whole = Batches(together, {}, 4, seed=1)
    parts = [whole.batch(0, part, 3) for part in range(3)]
    assert torch.equal(torch.cat([part["input_ids"] for part in parts]), whole.batch(0, 0, 1)["input_ids"]), choices
    assert np.concatenate(by_length(together, 7)).tolist() == np.argsort(together.lengths, kind="stable").tolist(), (
        choices
    )


def test_widths_of_batches_suit_the_device() -> None:
    places = [("no", "cpu"), ("no", "cuda"), ("bf16", "cpu"), ("bf16", "cuda")]
    found = [width_multiple(FinetunePlan(mixed_precision=precision), device) for precision, device in places]
    assert found == [1, 1, 2, 8]
