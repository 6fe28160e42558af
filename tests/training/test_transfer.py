"""A batch goes to the device in one copy, and is the same there, tensor by tensor."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from kobert_pipeline.features.format import Features, flatten, row_starts
from kobert_pipeline.finetune.batching import Batches
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.training.transfer import ALIGNMENT, copy_to_device, map_tensors, pack, tensors_of, unpack

DTYPES = [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32, torch.bfloat16]
shapes = st.lists(st.integers(0, 5), max_size=3)
tensors = st.builds(
    lambda shape, dtype, seed: torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed)).to(dtype),
    shapes, st.sampled_from(DTYPES), st.integers(0, 99),
)  # fmt: skip


def batch_of(lengths: list[int]) -> Batch:
    """Sequences of these lengths, with a label at every third position."""
    rng = np.random.default_rng(0)
    total = sum(lengths)
    masked = np.arange(0, total, 3)
    return Batch(
        input_ids=rng.integers(5, 99, total), token_type_ids=rng.integers(0, 2, total),
        position_ids=np.concatenate([np.arange(length) for length in lengths]), lengths=np.array(lengths),
        masked_positions=masked, labels=rng.integers(5, 99, len(masked)),
        next_sentence_label=rng.integers(0, 2, len(lengths)),
    )  # fmt: skip


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)


@given(st.lists(tensors, max_size=8))
def test_unpacked_tensors_equal_those_packed(given: list[torch.Tensor]) -> None:
    found = unpack(pack(given), given)
    assert all(map(same, found, given)) and len(found) == len(given)
    assert all(tensor.storage_offset() * tensor.element_size() % ALIGNMENT == 0 for tensor in found)


def test_tensors_out_of_order_are_packed_in_the_order_of_their_elements() -> None:
    given = [torch.arange(12).view(3, 4).T, torch.arange(12)[::2]]
    assert all(map(same, unpack(pack(given), given), given))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.booleans())
def test_every_field_of_a_pretraining_batch_survives_packing(lengths: list[int], varlen: bool) -> None:
    batch = to_device(batch_of(lengths), varlen=varlen)
    views = iter(unpack(pack(tensors_of(batch)), tensors_of(batch)))
    found = map_tensors(lambda _: next(views), batch)
    for name, expected in vars(batch).items():
        if name == "width":
            assert found.width == expected
        elif name != "layout":
            assert same(getattr(found, name), expected), name
    expected, layout = batch.layout, found.layout
    assert (layout.max_seqlen, layout.causal) == (expected.max_seqlen, expected.causal)
    for (*sizes, mask), (*other_sizes, other_mask) in zip(layout.rectangles, expected.rectangles, strict=True):
        assert sizes == other_sizes
        assert mask is other_mask is None or same(mask, other_mask)
    for name in ("index", "inverse", "cu_seqlens"):
        one, other = getattr(layout, name), getattr(expected, name)
        assert one is other is None or same(one, other)


class Copies(TorchDispatchMode):
    """Counts the operations whose result is on another device than a tensor that they are given."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        devices = {tensor.device for tensor in args if isinstance(tensor, torch.Tensor)}
        self.count += isinstance(result, torch.Tensor) and bool(devices - {result.device})
        return result


@pytest.mark.parametrize("varlen", [False, True])
def test_a_pretraining_batch_is_copied_at_once(varlen: bool) -> None:
    batch = batch_of([3, 30, 17, 2])
    with Copies() as copies:
        found = to_device(batch, "meta", varlen)
    assert copies.count == 1
    assert {tensor.device.type for tensor in tensors_of(found)} == {"meta"}
    assert [tensor.shape for tensor in tensors_of(found)] == [
        tensor.shape for tensor in tensors_of(to_device(batch, varlen=varlen))
    ]


def test_a_fine_tuning_batch_is_copied_at_once() -> None:
    ids = [[7] * length for length in (3, 9, 5, 4)]
    arrays = {name: flatten(ids, np.int32) for name in ("input_ids", "token_type_ids")}
    targets = {"labels": np.arange(4), "tags": np.zeros(21, np.int64)}
    batches = Batches(Features({"windows": row_starts(ids), **arrays}, []), targets, batch_size=4, seed=1)
    with Copies() as copies:
        found = batches.batch(0, 0, 2, "meta")
    assert copies.count == 1
    here = batches.batch(0, 0, 2)
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in found.items()} == {
        name: (tensor.shape, tensor.dtype) for name, tensor in here.items()
    }
    assert {tensor.device.type for tensor in found.values()} == {"meta"}


def test_on_the_cpu_nothing_is_copied() -> None:
    batch = {"ids": torch.arange(3), "more": [torch.ones(2), None, "text"]}
    assert copy_to_device(batch, "cpu") is batch
    assert copy_to_device(batch, "meta")["more"][1:] == [None, "text"]
