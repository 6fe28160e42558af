"""The learning rate is a function of the step; AdamW spares vectors."""

import math

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup, get_wsd_schedule

from kobert_pipeline.training.optimizer import adamw
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.schedule import learning_rate

PEAK = 3e-4


def rates(plan: Plan, steps: int) -> list[float]:
    return [learning_rate(plan, step, steps) for step in range(steps)]


@pytest.mark.parametrize("steps", [1, 7, 100])
@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(
    ("schedule", "reference"), [("linear", get_linear_schedule_with_warmup), ("cosine", get_cosine_schedule_with_warmup)]
)
def test_rates_equal_transformers_but_that_the_warm_up_begins_one_step_above_zero(schedule, reference, warmup, steps) -> None:
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
        assert rate == pytest.approx(expected[step + 1] if step < rising else expected[step], rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("decay", [0.1, 0.5, 0.9])
def test_warm_up_stable_decay_equals_transformers(decay) -> None:
    steps = 100
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = get_wsd_schedule(
        optimizer, num_warmup_steps=10, num_decay_steps=round(decay * steps), num_training_steps=steps, decay_type="linear"
    )
    expected = []
    for _ in range(steps + 1):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    found = rates(Plan(learning_rate=PEAK, warmup=0.1, schedule="wsd", decay=decay), steps)
    assert found[:10] == pytest.approx(expected[1:11])
    assert found[10:] == pytest.approx(expected[10:-1])


@pytest.mark.parametrize(
    ("schedule", "closed_form"),
    [
        ("linear", lambda done: 1 - done),
        ("cosine", lambda done: (1 + math.cos(math.pi * done)) / 2),
        ("constant", lambda done: 1.0),
    ],
)
def test_rates_follow_the_closed_form_after_the_warm_up(schedule, closed_form) -> None:
    found = rates(Plan(learning_rate=PEAK, warmup=0.2, schedule=schedule), 50)
    assert found[:10] == pytest.approx([PEAK * (step + 1) / 10 for step in range(10)])
    assert found[10:] == pytest.approx([PEAK * closed_form((step - 10) / 40) for step in range(10, 50)])
    assert max(found) == pytest.approx(PEAK)
    assert all(rate > 0 for rate in found)


def test_a_plan_that_only_rises_reaches_its_peak() -> None:
    assert rates(Plan(learning_rate=PEAK, warmup=1.0), 4) == pytest.approx([PEAK / 4, PEAK / 2, 3 * PEAK / 4, PEAK])


def test_adamw_decays_matrices_only_and_holds_every_trained_parameter_once() -> None:
    module = torch.nn.ModuleDict({"first": torch.nn.Linear(3, 3), "norm": torch.nn.LayerNorm(3), "tied": torch.nn.Linear(3, 3)})
    module["tied"].weight = module["first"].weight
    frozen = module["norm"].bias.requires_grad_(False)
    plan = Plan(learning_rate=PEAK, weight_decay=0.3, adam_betas=(0.8, 0.95))
    decays = {id(p): group["weight_decay"] for group in adamw(module, plan).param_groups for p in group["params"]}
    trained = [parameter for parameter in module.parameters() if parameter is not frozen]
    assert decays == {id(parameter): 0.3 if parameter.ndim == 2 else 0.0 for parameter in trained}


def test_adamw_steps_equal_the_paper() -> None:
    """One step by hand: decoupled decay, then the bias-corrected moments, which at the first step are gradient and its square."""
    layer = torch.nn.Linear(2, 2)
    before = {name: parameter.detach().clone() for name, parameter in layer.named_parameters()}
    plan = Plan(learning_rate=0.1, weight_decay=0.5)
    layer(torch.tensor([[1.0, -2.0]])).square().sum().backward()
    adamw(layer, plan).step()
    for name, decay in {"weight": 0.5, "bias": 0.0}.items():
        parameter = getattr(layer, name)
        expected = before[name] * (1 - 0.1 * decay) - 0.1 * parameter.grad / (parameter.grad.abs() + 1e-6)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-5, atol=1e-6)
