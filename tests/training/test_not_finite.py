"""A loss that is not finite stops the training before the weights change."""

from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kobert_pipeline.training.checkpoint import checkpoints, load_checkpoint
from kobert_pipeline.training.device import make_accelerator
from kobert_pipeline.training.finite import FiniteCheck
from kobert_pipeline.training.loop import PARTS_BETWEEN_CHECKS, NotFinite, take_step, train
from kobert_pipeline.training.muon import StackedMuon
from kobert_pipeline.training.optimizer import adamw, optimizer_of
from kobert_pipeline.training.plan import Plan

BAD = {"nan": float("nan"), "inf": float("inf")}
PLAN = Plan(learning_rate=0.01, checkpoint_every=4)


class Layout(NamedTuple):
    """A part of a batch that has a name and no tensor."""

    rows: int


class Nested(torch.nn.Module):
    """Squared error; the batch is a dict and something without tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

    def forward(self, batch: tuple[dict[str, torch.Tensor], Layout]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        tensors, layout = batch
        return ((self.weight * tensors["x"]).sum() - tensors["y"]).square() / layout.rows, {}


def batch_at(step: int, part: int, parts: int) -> tuple[dict[str, torch.Tensor], Layout]:
    chosen = torch.Generator().manual_seed(10 * step + part)
    return {"x": torch.randn(3, generator=chosen), "y": torch.tensor(float(step))}, Layout(parts)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("value", BAD)
def test_the_message_names_the_step_and_the_last_checkpoint(tmp_path: Path, value: str, parts: int) -> None:
    module = Nested()
    before: list[torch.Tensor] = []

    def poisoned(step: int, part: int, parts: int) -> Any:
        batch = batch_at(step, part, parts)
        if step == 6:
            if part == 0:
                before.append(module.weight.detach().clone())
            if part == parts - 1:
                batch[0]["x"][1] = BAD[value]
        return batch

    with pytest.raises(NotFinite) as error:
        plan = PLAN.model_copy(update={"max_tokens_per_device": 1})
        train(module, poisoned, plan, 10, tmp_path, parts_at=lambda step, max_tokens: parts)
    said = str(error.value)
    assert "at step 6 (not taken)" in said and "the last checkpoint is step 4" in said
    assert torch.equal(module.weight, before[0])
    assert load_checkpoint(tmp_path / "checkpoints", module, adamw(module.parameters(), PLAN)) == 4


def test_before_the_first_checkpoint_it_says_step_0_and_a_resumed_one_that_it_went_on_from(tmp_path: Path) -> None:
    def poisoned(step: int, part: int, parts: int) -> Any:
        tensors, layout = batch_at(step, part, parts)
        return ({**tensors, "y": torch.tensor(float("nan"))} if step in bad else tensors), layout

    bad = {2}
    with pytest.raises(NotFinite, match=r"at step 2 .* checkpoint is step 0"):
        train(Nested(), poisoned, PLAN, 10, tmp_path)
    bad = {5}
    with pytest.raises(NotFinite, match=r"at step 5 .* checkpoint is step 4"):
        train(Nested(), poisoned, PLAN, 10, tmp_path)
    with pytest.raises(NotFinite, match=r"at step 5 .* checkpoint is step 4"):
        train(Nested(), poisoned, PLAN, 10, tmp_path)
    bad = set()
    assert train(Nested(), poisoned, PLAN, 10, tmp_path).steps == 10


# the host looks every few steps


def outcome(place: Path, look_every: int, bad_steps: set[int], plan: Plan) -> tuple[str, torch.Tensor, list[str]]:
    """What a training of 20 steps that looks so often ends with: its error, weights and checkpoints."""
    module = Nested()

    def poisoned(step: int, part: int, parts: int) -> Any:
        tensors, layout = batch_at(step, part, parts)
        return ({**tensors, "y": torch.tensor(float("inf"))} if step in bad_steps else tensors), layout

    place.mkdir()
    said = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PARTS_BETWEEN_CHECKS, "cpu", look_every)
        try:
            train(module, poisoned, plan, 20, place, parts_at=lambda step, max_tokens: 2)
        except NotFinite as error:
            said = str(error).replace(str(place), "")
    return said, module.weight.detach().clone(), [path.name for path in checkpoints(place / "checkpoints")]


@pytest.mark.parametrize("optimizer", get_args(Plan.model_fields["optimizer"].annotation))
@pytest.mark.parametrize("bad_steps", [set(), {0}, {6}, {7, 8}, {5, 11}, {19}], ids=str)
def test_however_late_the_host_looks_the_training_ends_in_the_same(
    tmp_path: Path, bad_steps: set[int], optimizer: str
) -> None:
    """The error names the same step and checkpoint, nothing later is saved, and the weights are equal bit for bit."""
    for number, changes in enumerate([{}, {"checkpoint_every": 7}, {"log_every": 3}, {"max_tokens_per_device": 1}]):
        plan = Plan(learning_rate=0.01, optimizer=optimizer, keep_checkpoints=9, **{"checkpoint_every": 4, **changes})
        said, weights, saved = outcome(tmp_path / f"{number} at once", 1, bad_steps, plan)
        assert bool(said) == bool(bad_steps)
        if bad_steps:
            first = min(bad_steps)
            assert f"at step {first} (not taken)" in said and all(int(name[-8:]) <= first for name in saved)
        for look_every in (3, 16, 100):
            late = outcome(tmp_path / f"{number} {look_every}", look_every, bad_steps, plan)
            assert (late[0], late[2]) == (said, saved), (changes, look_every)
            assert torch.equal(late[1], weights), (changes, look_every)


def test_the_host_looks_at_the_next_check_and_not_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def poisoned(step: int, part: int, parts: int) -> Any:
        seen.append(step)
        tensors, layout = batch_at(step, part, parts)
        return ({**tensors, "y": torch.tensor(float("nan"))} if step == 2 else tensors), layout

    monkeypatch.setitem(PARTS_BETWEEN_CHECKS, "cpu", 8)
    with pytest.raises(NotFinite, match="at step 2 "):
        train(Nested(), poisoned, PLAN.model_copy(update={"checkpoint_every": 100}), 20, tmp_path)
    assert seen == [0, 1, 2, 3, 4, 5, 6, 7]


class Reads(TorchDispatchMode):
    """Counts how often the host reads a number of a tensor, for which it would wait on a GPU."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)
        return function(*args, **(kwargs or {}))


def test_steps_between_two_looks_read_nothing_from_the_device() -> None:
    plan = Plan(learning_rate=0.01)
    accelerator, module = make_accelerator(plan), Nested()
    optimizer = adamw(module.parameters(), plan)
    finite = FiniteCheck(optimizer, accelerator.device)
    with Reads() as reads:
        for step in range(5):
            take_step(accelerator, module, optimizer, [batch_at(step, part, 2) for part in range(2)], plan, finite)
        assert reads.count == 0
        assert finite.first_bad_step(5) is None
        assert reads.count == 1
        assert finite.first_bad_step(5) is None
        assert reads.count == 1


@pytest.mark.parametrize("name", get_args(Plan.model_fields["optimizer"].annotation))
def test_every_optimizer_changes_nothing_where_found_inf_is_one(name: str) -> None:
    module = torch.nn.Linear(16, 16)
    optimizer = optimizer_of(module, Plan(learning_rate=0.01, optimizer=name))
    finite = FiniteCheck(optimizer, torch.device("cpu"))
    states = []
    for bad in (False, True, False):
        module.weight.grad, module.bias.grad = torch.ones(16, 16), torch.ones(16)
        finite.add(torch.tensor(float("nan") if bad else 1.0), torch.tensor(1.0))
        optimizer.step()
        moments = [value for state in optimizer.state.values() for value in state.values()]
        states.append([tensor.detach().clone() for tensor in (*module.parameters(), *moments)])
    assert finite.first_bad_step(3)[0] == 1
    assert len(states[0]) > 4
    for later in states[1:]:
        assert all(torch.equal(one, other) for one, other in zip(states[0], later, strict=True))


def test_muon_on_a_gpu_skips_a_step_without_asking_the_host() -> None:
    """The way of a GPU on the CPU: with the flag at 0 it is the plain one bit for bit, and with 1 nothing changes."""

    def weights_after(flag: float | None) -> tuple[torch.Tensor, torch.Tensor, int]:
        torch.manual_seed(0)
        weights = torch.nn.Parameter(torch.randn(24, 16))
        optimizer = StackedMuon([weights], lr=0.1)
        with Reads() as reads:
            for step in range(3):
                # the first step is always taken
                optimizer.found_inf = None if flag is None else torch.tensor(flag if step else 0.0)
                weights.grad = torch.full_like(weights, torch.nan) if flag and step else torch.randn(24, 16)
                optimizer.step()
        return weights.detach(), optimizer.state[weights]["momentum_buffer"], reads.count

    plain, skipping, skipped = (weights_after(flag) for flag in (None, 0.0, 1.0))
    assert torch.equal(plain[0], skipping[0]) and torch.equal(plain[1], skipping[1])
    assert skipped[0].isfinite().all() and not torch.equal(skipped[0], plain[0])
    assert skipped[1].isfinite().all()
    assert plain[2] == skipping[2] == skipped[2] == 0
