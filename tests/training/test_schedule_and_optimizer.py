"""The learning rate is a function of the step; weight decay excludes vectors."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup, get_wsd_schedule

from kobert_pipeline.training.muon import StackedMuon
from kobert_pipeline.training.optimizer import MuonAndAdamW, adamw, hidden_matrices, learning_rate, optimizer_of
from kobert_pipeline.training.plan import Plan

PEAK = 3e-4


def rates(plan: Plan, steps: int) -> list[float]:
    return [learning_rate(plan, step, steps) for step in range(steps)]


def test_rates_equal_transformers_but_that_the_warm_up_begins_one_step_above_zero() -> None:
    for (schedule, reference), warmup, steps in product(
        [("linear", get_linear_schedule_with_warmup), ("cosine", get_cosine_schedule_with_warmup)],
        [0.0, 0.1, 0.5],
        [1, 7, 100],
    ):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
        rising = round(warmup * steps)
        scheduler = reference(optimizer, rising, steps)
        expected = []
        for _ in range(steps + 1):
            expected.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        found = rates(Plan(learning_rate=PEAK, warmup=warmup, schedule=schedule), steps)
        for step, rate in enumerate(found):
            assert rate == pytest.approx(
                expected[step + 1] if step < rising else expected[step], rel=1e-9, abs=1e-15
            ), (steps, warmup, schedule, reference)


@pytest.mark.parametrize("decay", [0.1, 0.5, 0.9])
def test_warm_up_stable_decay_equals_transformers(decay: Any) -> None:
    steps = 100
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = get_wsd_schedule(
        optimizer,
        num_warmup_steps=10,
        num_decay_steps=round(decay * steps),
        num_training_steps=steps,
        decay_type="linear",
    )
    expected = []
    for _ in range(steps + 1):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    found = rates(Plan(learning_rate=PEAK, warmup=0.1, schedule="wsd", decay=decay), steps)
    assert found[:10] == pytest.approx(expected[1:11]), decay
    assert found[10:] == pytest.approx(expected[10:-1]), decay


def test_rates_follow_the_closed_form_after_the_warm_up() -> None:
    for schedule, closed_form in [
        ("linear", lambda done: 1 - done),
        ("cosine", lambda done: (1 + math.cos(math.pi * done)) / 2),
        ("constant", lambda done: 1.0),
    ]:
        found = rates(Plan(learning_rate=PEAK, warmup=0.2, schedule=schedule), 50)
        assert found[:10] == pytest.approx([PEAK * (step + 1) / 10 for step in range(10)]), (schedule, closed_form)
        assert found[10:] == pytest.approx([PEAK * closed_form((step - 10) / 40) for step in range(10, 50)]), (
            schedule,
            closed_form,
        )
        assert max(found) == pytest.approx(PEAK), (schedule, closed_form)
        assert all(rate > 0 for rate in found), (schedule, closed_form)


def test_a_plan_that_only_rises_reaches_its_peak() -> None:
    assert rates(Plan(learning_rate=PEAK, warmup=1.0), 4) == pytest.approx([PEAK / 4, PEAK / 2, 3 * PEAK / 4, PEAK])


def test_adamw_decays_matrices_only_and_holds_every_trained_parameter_once() -> None:
    module = torch.nn.ModuleDict(
        {"first": torch.nn.Linear(3, 3), "norm": torch.nn.LayerNorm(3), "tied": torch.nn.Linear(3, 3)}
    )
    module["tied"].weight = module["first"].weight
    frozen = module["norm"].bias.requires_grad_(False)
    plan = Plan(learning_rate=PEAK, weight_decay=0.3, adam_betas=(0.8, 0.95))
    decays = {
        id(p): group["weight_decay"] for group in adamw(module.parameters(), plan).param_groups for p in group["params"]
    }
    trained = [parameter for parameter in module.parameters() if parameter is not frozen]
    assert decays == {id(parameter): 0.3 if parameter.ndim == 2 else 0.0 for parameter in trained}


def test_adamw_steps_equal_the_paper() -> None:
    """One step by hand: decoupled decay, then the bias-corrected moments, which at the first step are gradient and its
    square."""
    layer = torch.nn.Linear(2, 2)
    before = {name: parameter.detach().clone() for name, parameter in layer.named_parameters()}
    plan = Plan(learning_rate=0.1, weight_decay=0.5)
    layer(torch.tensor([[1.0, -2.0]])).square().sum().backward()
    adamw(layer.parameters(), plan).step()
    for name, decay in {"weight": 0.5, "bias": 0.0}.items():
        parameter = getattr(layer, name)
        expected = before[name] * (1 - 0.1 * decay) - 0.1 * parameter.grad / (parameter.grad.abs() + 1e-6)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-5, atol=1e-6)


def a_network() -> torch.nn.Module:
    torch.manual_seed(0)
    parts = {
        "embed": torch.nn.Embedding(40, 32),
        "hidden": torch.nn.Linear(32, 48),
        "out": torch.nn.Linear(48, 32),
        "head": torch.nn.Linear(32, 2),
    }
    return torch.nn.ModuleDict({**parts, "decoder": torch.nn.Linear(32, 40)})


def test_muon_takes_the_hidden_matrices_and_adamw_everything_else_once() -> None:
    module = a_network()
    module["decoder"].weight = module["embed"].weight
    assert {id(p) for p in hidden_matrices(module)} == {id(module["hidden"].weight), id(module["out"].weight)}
    optimizer = optimizer_of(module, Plan(optimizer="muon"))
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(held) == sorted({id(p) for p in module.parameters()})


@pytest.mark.usefixtures("bf16_on_any_cpu")
def test_a_step_of_both_equals_a_step_of_each() -> None:
    plan = Plan(optimizer="muon", learning_rate=0.01, weight_decay=0.1)
    ours, theirs = a_network(), a_network()
    both = MuonAndAdamW(ours, plan)
    matrices = hidden_matrices(theirs)
    others = [p for p in theirs.parameters() if all(p is not matrix for matrix in matrices)]
    each = [torch.optim.Muon(matrices, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"), adamw(others, plan)]
    for step in range(3):
        for module in (ours, theirs):
            module.zero_grad()
            hidden = module["out"](module["hidden"](module["embed"](torch.arange(step, step + 9))).relu())
            (module["head"](hidden).square().mean() + module["decoder"](hidden).logsumexp(-1).mean()).backward()
        for optimizer in (both, *each):
            optimizer.step()
    # Muon's matrices of one shape are multiplied together, which may round otherwise
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-4)


@pytest.mark.usefixtures("bf16_on_any_cpu")
def test_muon_changes_tall_wide_and_square_matrices_as_torch_does() -> None:
    """Bit for bit but for the products of a stack; one without gradient stays."""
    torch.manual_seed(0)
    shapes = [(32, 48), (48, 32), (32, 48), (20, 20)]
    ours, theirs = ([torch.nn.Parameter(torch.ones(shape)) for shape in (*shapes, (9, 9))] for _ in range(2))
    plan = {"lr": 0.02, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}
    optimizers = [StackedMuon(ours, **plan), torch.optim.Muon(theirs, **plan)]
    for _ in range(3):
        for one, two in zip(ours[:-1], theirs[:-1], strict=True):
            one.grad = torch.randn_like(one)
            two.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-4)
    assert (ours[0] != 1).all() and (ours[-1] == 1).all()


def test_a_resumed_optimizer_goes_on_as_if_never_stopped(tmp_path) -> None:
    for number, name in enumerate(["adamw", "muon"]):
        place = tmp_path / str(number)
        place.mkdir()
        from kobert_pipeline.training.checkpoint import CheckpointWriter, load_checkpoint

        def steps(module: torch.nn.Module, optimizer: torch.optim.Optimizer, count: range) -> None:
            for step in count:
                optimizer.zero_grad()
                module["out"](
                    module["hidden"](module["embed"](torch.arange(step, step + 9))).relu()
                ).square().mean().backward()
                optimizer.step()

        plan = Plan(optimizer=name, learning_rate=0.01)
        whole = a_network()
        steps(whole, optimizer_of(whole, plan), range(6))
        first, second = a_network(), a_network()
        optimizer = optimizer_of(first, plan)
        steps(first, optimizer, range(3))
        with CheckpointWriter(place, keep=1) as writer:
            writer.save(3, first, optimizer)
        resumed = optimizer_of(second, plan)
        assert load_checkpoint(place, second, resumed) == 3, name
        steps(second, resumed, range(3, 6))
        for one, two in zip(whole.parameters(), second.parameters(), strict=True):
            assert torch.equal(one, two), name
