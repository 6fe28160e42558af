"""A device computes at most `plan.max_tokens_per_device` tokens at once, and the result is that of whole batches."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import SMALL
from safetensors.torch import load_file
from sgd import train_by_sgd
from synthetic_shards import articles, reviews, shards_of

from kobert_pipeline.pretrain import stage
from kobert_pipeline.pretrain.batch import INFINITE_DENOMINATORS, Batch
from kobert_pipeline.pretrain.model import batches
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.phases import PhaseSchedule
from kobert_pipeline.training.evaluations import read_evaluations
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.prefetch import prefetch

RAMP = [
    {"share": 0.2, "batch_tokens": 100},
    {"share": 0.4, "batch_tokens": 200},
    {"share": 0.4, "batch_tokens": 400, "max_length": 64},
]


def ramp(**plan: Any) -> PretrainOptions:
    """Batches of 100, 200 and 400 tokens, the last with longer sequences."""
    return PretrainOptions(
        architecture={"name": "bert", **SMALL}, max_length=32, batch_tokens=100, total_tokens=4000, phases=RAMP,
        plan={"learning_rate": 2e-3, **plan},
    )  # fmt: skip


@pytest.fixture(scope="module")
def schedule() -> PhaseSchedule:
    return PhaseSchedule(shards_of(articles(20), reviews(9)), ramp().parts(), 200, 1)


def parts_of_ranks(schedule: PhaseSchedule, batch_at: Any, plan: Plan, ranks: int) -> list[list[list[Any]]]:
    """For each step the parts of each rank."""
    places = [SimpleNamespace(num_processes=ranks, process_index=index) for index in range(ranks)]
    by_rank = (prefetch(batch_at, 0, schedule.steps, place, plan, schedule.parts_at) for place in places)
    return [list(of_ranks) for of_ranks in zip(*by_rank, strict=True)]


@pytest.mark.parametrize(
    ("max_tokens", "ranks", "counts"),
    [(None, 1, (1, 1, 1)), (100, 1, (1, 2, 4)), (150, 1, (1, 2, 3)), (100, 2, (1, 1, 2)), (64, 3, (1, 2, 3))],
)
def test_small_batches_of_early_phases_stay_whole(
    schedule: PhaseSchedule, max_tokens: int | None, ranks: int, counts: tuple[int, ...]
) -> None:
    plan = Plan(max_tokens_per_device=max_tokens)
    found = parts_of_ranks(schedule, batches(schedule, plan), plan, ranks)
    sizes = [[len(part.input_ids) for own in of_ranks for part in own] for of_ranks in found]
    for phase, (count, length) in enumerate(zip(counts, (32, 32, 64), strict=True)):
        steps = range(schedule.ends[phase - 1] if phase else 0, schedule.ends[phase])
        assert steps
        for step in steps:
            assert [len(own) for own in found[step]] == [count] * ranks
            assert max(sizes[step]) < (max_tokens or 400) + length


def test_parts_to_compile_for_have_one_shape_in_each_phase(schedule: PhaseSchedule) -> None:
    plan = Plan(max_tokens_per_device=150, torch_compile=True)
    found = parts_of_ranks(schedule, batches(schedule, plan), plan, ranks=1)
    shapes = [{len(part.input_ids) for part in own} for [own] in found]
    first, second, _ = schedule.ends
    expected = [(shapes[:first], 100 + 32), (shapes[first:second], 100 + 32), (shapes[second:], 134 + 64)]
    for of_phase, tokens in expected:
        assert set.union(*of_phase) == {tokens}


def drawn_batch(lengths: list[int]) -> Batch:
    """Sequences of these lengths, whose tokens are numbered."""
    tokens = np.arange(sum(lengths))
    none = np.empty(0, np.int64)
    return Batch(tokens, tokens, tokens, np.array(lengths), none, none, np.full(len(lengths), -100))


@settings(deadline=None)
@given(
    st.lists(st.integers(5, 32), min_size=1, max_size=40), st.integers(0, 60), st.integers(1, 6), st.integers(32, 900)
)
def test_parts_of_all_ranks_are_the_batch_and_none_is_beyond_the_limit(
    lengths: list[int], unused: int, ranks: int, max_tokens: int
) -> None:
    batch, batch_tokens = drawn_batch(lengths), sum(lengths) + unused
    schedule = SimpleNamespace(
        steps=1, parts_at=lambda step, most: PhaseSchedule.parts_at(schedule, step, most),
        loader_at=lambda step: SimpleNamespace(batch_tokens=batch_tokens),
    )  # fmt: skip
    plan = Plan(max_tokens_per_device=max_tokens)
    [of_ranks] = parts_of_ranks(schedule, lambda step, part, parts: batch.part(part, parts), plan, ranks)
    count = len(of_ranks[0])
    assert {len(own) for own in of_ranks} == {count}
    assert (count - 1) * ranks * max_tokens < batch_tokens <= count * ranks * max_tokens, "as few as possible"
    parts = [part for own in of_ranks for part in own]
    real = [part for part in parts if part.denominators.tokens != INFINITE_DENOMINATORS.tokens]
    assert np.concatenate([part.input_ids for part in real]).tolist() == batch.input_ids.tolist()
    assert np.concatenate([part.lengths for part in real]).tolist() == lengths
    assert all(len(part.input_ids) < max_tokens + 32 for part in parts)


def test_a_ramp_in_parts_trains_what_whole_batches_do(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_by_sgd(monkeypatch)
    for name, plan in [("whole", {}), ("parts", {"max_tokens_per_device": 100, "dataloader_num_workers": 2})]:
        stage.run(ramp(**plan), *folders, tmp_path / name)
    weights, expected = (load_file(tmp_path / name / stage.MODEL / "model.safetensors") for name in ("parts", "whole"))
    torch.testing.assert_close(weights, expected, rtol=1e-5, atol=2e-6)
    assert any(not torch.equal(weights[name], expected[name]) for name in weights), "it was computed in parts"
    found, whole = (read_evaluations(tmp_path / name / "evaluations.json") for name in ("parts", "whole"))
    assert found.keys() == whole.keys()
    for step, values in whole.items():
        assert found[step] == pytest.approx(values, abs=2e-5)


def test_a_limit_below_the_longest_sequence_is_refused(kobert: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"plan\.max_tokens_per_device 63 is less than max_length 64; raise it"):
        ramp(max_tokens_per_device=63)
    assert ramp(max_tokens_per_device=64).plan.dump() == ramp().plan.dump(), "it is not in the fingerprint"
    complaint = kobert("check", "tiny", "--set", "pretrain.plan.max_tokens_per_device=8").complaint
    assert "pretrain: plan.max_tokens_per_device 8 is less than max_length" in complaint
