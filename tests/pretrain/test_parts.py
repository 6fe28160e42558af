"""A step in parts equals the step as a whole: losses, gradients and logged values add up. So does a batch padded to one
shape."""

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import SMALL, assert_same, gradients, prepared, rows, sample_the_likeliest
from synthetic_shards import Described, articles, corpora, generators, reviews, shards_of

from kobert_pipeline.config import plugins
from kobert_pipeline.pretrain.batch import INFINITE_DENOMINATORS, Batch
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.model import LossModule, batches
from kobert_pipeline.pretrain.objectives.mlm_nsp import MlmNsp
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.packing import pack
from kobert_pipeline.pretrain.phases import PhaseSchedule
from kobert_pipeline.pretrain.segments import plan_sequences
from kobert_pipeline.pretrain.tensor_batch import TensorBatch, to_device
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX, PAD_ID
from kobert_pipeline.training.plan import Plan

Found = tuple[torch.Tensor, dict[str, torch.Tensor], dict[str, torch.Tensor]]


@pytest.fixture(autouse=True)
def _no_random_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_the_likeliest(monkeypatch)


def parts_of(batch: Batch, number: int) -> list[Batch]:
    return [batch.part(one, number) for one in range(number)]


def summed(module: LossModule, parts: list[Batch]) -> Found:
    """The sums over `parts` of the loss, of its gradients, and of the logged values."""
    outcomes = [module(to_device(part)) for part in parts]
    for loss, _ in outcomes:
        loss.backward()
    assert len({tuple(values) for _, values in outcomes}) == 1, "every part logs the same names"
    logged = {name: torch.stack([values[name].float() for _, values in outcomes]).sum() for name in outcomes[0][1]}
    return torch.stack([loss.detach() for loss, _ in outcomes]).sum(), gradients(module), logged


def assert_equal(ours: Found, theirs: Found) -> None:
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    assert_same(ours[1], theirs[1], atol=1e-5)
    assert_same(ours[2], theirs[2], rtol=1e-5)


def test_losses_gradients_and_logged_values_of_parts_add_up_to_those_of_the_whole() -> None:
    for objective, architecture in rows():
        module, loader = prepared(objective, architecture)
        batch = loader.batch(0)
        whole = summed(module.train(), [batch])
        assert whole[0] > 1, (objective, architecture)
        for number in (1, 2, 3, len(batch.lengths) + 4):
            assert_equal(summed(module, parts_of(batch, number)), whole)


def test_accuracies_of_parts_add_up_too() -> None:
    for objective, architecture in rows():
        module, loader = prepared(objective, architecture)
        batch = loader.batch(0)
        (_, _, whole), (_, _, parts) = summed(module.eval(), [batch]), summed(module, parts_of(batch, 3))
        ranks = {"rtd_auc"}  # of the whole it is; nothing is evaluated in parts
        assert_same(
            *({name: value for name, value in values.items() if name not in ranks} for values in (parts, whole)),
            rtol=1e-5,
        )
        assert [name for name in whole if name.endswith("accuracy")], (objective, architecture)


def test_a_step_without_pairs_logs_no_number_for_them_in_any_part() -> None:
    """A rank that logged one where others have none would wait for them for ever."""
    module, _ = prepared("mlm_nsp", {"name": "bert", **SMALL})
    options = PretrainOptions(
        objective=MlmNsp(), architecture={"name": "bert", **SMALL}, max_length=48, batch_tokens=400
    )
    batch = Loader(shards_of(reviews(4)), options, 200, seed=1).batch(0)
    for part in parts_of(batch, len(batch.lengths) + 1):
        loss, values = module(to_device(part))
        assert torch.isfinite(loss)
        assert values["nsp_loss"].isnan() and values["nsp_accuracy"].isnan()


def batch_of(shards: Any, rng: np.random.Generator) -> Batch:
    """A batch of random sequences, a few of them masked."""
    sequences = plan_sequences(shards, 32, 0.1, "next", rng)
    chosen = rng.permutation(len(sequences))[: rng.integers(1, len(sequences) + 1)]
    packed = pack(shards, sequences, chosen)
    positions = np.flatnonzero(packed.maskable & (rng.random(len(packed.input_ids)) < 0.2))
    return Batch(
        packed.input_ids, packed.token_type_ids, packed.position_ids, packed.lengths, positions,
        packed.input_ids[positions],
        sequences.next_sentence_label[chosen],
    )  # fmt: skip


drawn = st.builds(batch_of, corpora, generators)


@settings(deadline=None)
@given(drawn, st.integers(1, 12))
def test_parts_hold_every_sequence_once_and_are_about_equally_large(batch: Batch, number: int) -> None:
    parts = parts_of(batch, number)
    assert len(parts) == number
    full, idle = (
        [part for part in parts if (part.denominators.tokens == INFINITE_DENOMINATORS.tokens) == nothing]
        for nothing in (False, True)
    )
    for name in ("input_ids", "token_type_ids", "position_ids", "lengths", "labels", "next_sentence_label"):
        assert np.concatenate([getattr(part, name) for part in full]).tolist() == getattr(batch, name).tolist(), name
    shifts = np.cumsum([0] + [len(part.input_ids) for part in full])
    positions = [part.masked_positions + shift for part, shift in zip(full, shifts, strict=False)]
    assert np.concatenate(positions).tolist() == batch.masked_positions.tolist()
    assert all(part.denominators == batch.denominators for part in full)
    assert max(len(part.input_ids) for part in full) < len(batch.input_ids) / number + batch.lengths.max()
    assert all(len(part.lengths) == 1 for part in idle), "one sequence keeps a process in step"


@settings(deadline=None)
@given(drawn, st.integers(1, 6), st.integers(1, 6))
def test_parts_of_parts_know_the_whole_step(batch: Batch, first: int, second: int) -> None:
    for part in parts_of(batch, first):
        for again in parts_of(part, second):
            # a placeholder divides by zero what the step does not have; a step of a few tokens may have no labels
            infinite = INFINITE_DENOMINATORS.tokens
            pairs = part.denominators.pairs and infinite
            assert again.denominators in (part.denominators, (infinite, infinite, pairs))


def test_a_filled_batch_has_the_same_loss_gradients_and_values() -> None:
    for tokens, (objective, architecture) in product([448, 100], rows()):
        module, loader = prepared(objective, architecture)
        batch = loader.batch(0)
        for mode in (True, False):
            module.train(mode)
            assert_equal(summed(module, [batch.pad_to(tokens, 48, 32, 32)]), summed(module, [batch]))


def test_a_filled_part_counts_as_the_part_does() -> None:
    module, loader = prepared("mlm_nsp", {"name": "bert", **SMALL})
    batch = loader.batch(0)
    parts = parts_of(batch, len(batch.lengths) + 2)
    assert_equal(summed(module, [part.pad_to(448, 48) for part in parts]), summed(module, [batch]))


@settings(deadline=None)
@given(drawn, st.integers(64, 300), st.integers(32, 64), st.sampled_from([1, 8, 256]))
def test_sizes_of_a_filled_batch_are_multiples(batch: Batch, tokens: int, max_length: int, multiple: int) -> None:
    padded, count = batch.pad_to(tokens, max_length, multiple, multiple), len(batch.input_ids)
    assert len(padded.input_ids) % tokens == 0
    assert 0 < len(padded.input_ids) - count <= tokens
    assert len(padded.input_ids) == len(padded.token_type_ids) == len(padded.position_ids) == padded.lengths.sum()
    assert len(padded.lengths) % multiple == len(padded.labels) % multiple == 0
    assert len(padded.lengths) == len(padded.next_sentence_label) == len(padded.starts)
    assert len(padded.labels) == len(padded.masked_positions) < len(batch.labels) + multiple
    assert (padded.input_ids[count:] == PAD_ID).all()
    assert (padded.labels[len(batch.labels) :] == IGNORE_INDEX).all()
    assert (padded.next_sentence_label[len(batch.lengths) :] == IGNORE_INDEX).all()
    assert (padded.masked_positions[len(batch.labels) :] == len(padded.input_ids) - 1).all()
    assert padded.denominators == batch.denominators
    assert padded.lengths.max() <= max(max_length, batch.lengths.max())
    assert padded.position_ids.tolist() == [place for length in padded.lengths for place in range(length)]
    for name, array in vars(batch).items():
        if name != "step_denominators":
            assert getattr(padded, name)[: len(array)].tolist() == array.tolist(), name


def compiled_batches(parts: int, documents: list[Described], **options: Any) -> Iterator[TensorBatch]:
    sizes = {"architecture": {"name": "bert", **SMALL}, "batch_tokens": 4000, "total_tokens": 90_000}
    course = PhaseSchedule(shards_of(documents), PretrainOptions(**sizes, **options).parts(), 200, 1)
    batch_at = batches(course, Plan(torch_compile=True))
    for step in range(course.steps):
        for part in range(parts):
            yield batch_at(step, part, parts)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_all_batches_to_compile_for_have_one_shape(parts: Any) -> None:
    found = list(compiled_batches(parts, articles(300), max_length=48))
    assert len(found) > 20, parts
    assert {len(tensors.input_ids) for tensors in found} == {4000 // parts + 48}, parts
    assert len({len(tensors.labels) for tensors in found}) == len({len(tensors.lengths) for tensors in found}) == 1


def test_batches_of_short_texts_have_one_shape_too() -> None:
    """Far shorter than `max_length`, as film reviews are."""
    documents = [(False, [[length]]) for length in np.random.default_rng(0).integers(10, 29, 5000).tolist()]
    objective = {"name": "mlm", "sequence_format": "doc_sentences"}
    found = list(compiled_batches(1, documents, objective=objective, max_length=128))
    assert len(found) > 20
    assert len({(len(tensors.input_ids), len(tensors.labels), len(tensors.lengths)) for tensors in found}) == 1


def test_parts_are_near_each_other_in_size() -> None:
    _, loader = prepared("mlm_nsp", {"name": "bert", **SMALL})
    sizes = [len(part.input_ids) for part in parts_of(loader.batch(0), 3)]
    assert all(abs(one - other) < 2 * 48 for one, other in pairwise(sizes))


def test_an_architecture_names_the_head_that_it_lacks() -> None:
    with pytest.raises(NotImplementedError, match="gpt2 has no head for sequence pairs"):
        plugins.contract("architectures").choose("gpt2").pair_logits(None, None)
