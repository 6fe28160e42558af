"""The loop: when it evaluates, saves, stops and refuses, on a module of four weights."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kobert_pipeline.progress import Display, shown_on
from kobert_pipeline.training.checkpoint import checkpoints
from kobert_pipeline.training.device import adapt_to_device, make_accelerator, set_matmul_precision
from kobert_pipeline.training.evaluations import Evaluations
from kobert_pipeline.training.loop import NotFinite, Stopped, train
from kobert_pipeline.training.optimizer import learning_rate
from kobert_pipeline.training.plan import Plan


class Regression(torch.nn.Module):
    """Squared error of a weighted sum; the batch is the input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0, 3.0, 0.5]]))

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        error = (self.weight * batch).sum()
        return error.square(), {"error": error.detach()}


def batch_at(step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
    return torch.randn(1, 4, generator=torch.Generator().manual_seed(step))


def fails_at(step: int, happening: Callable[[], Any]) -> Callable[..., torch.Tensor]:
    """`batch_at`, where something happens at one step."""
    return lambda number, *part: (happening() if number == step else None, batch_at(number))[1]


def plan(**changes: Any) -> Plan:
    return Plan(**{"learning_rate": 0.01, "log_every": 3, "checkpoint_every": 4, **changes})


def log_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "logs" / "log.jsonl").read_text().splitlines()]


def test_weights_equal_a_plain_loop(tmp_path: Path) -> None:
    module, plain = Regression(), Regression()
    settings = plan(max_grad_norm=0.5, weight_decay=0.1)
    train(module, batch_at, settings, 9, tmp_path)
    optimizer = torch.optim.AdamW(plain.parameters(), betas=settings.adam_betas, eps=1e-6, weight_decay=0.1)
    for step in range(9):
        optimizer.param_groups[0]["lr"] = learning_rate(settings, step, 9)
        optimizer.zero_grad()
        plain(batch_at(step))[0].backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        optimizer.step()
    torch.testing.assert_close(module.weight, plain.weight, rtol=1e-6, atol=1e-7)
    assert not torch.equal(module.weight, Regression().weight)


@pytest.mark.parametrize(("every", "expected"), [(None, [10]), (4, [4, 8, 10]), (5, [5, 10]), (100, [10])])
def test_evaluate_is_called_every_so_many_steps_and_after_the_last(
    tmp_path: Path, every: int | None, expected: list[int]
) -> None:
    module, calls = Regression(), []

    def evaluate(step: int) -> dict[str, float]:
        calls.append((step, module.training))
        return {"score": float(step)}

    trained = train(module, batch_at, plan(evaluate_every=every), 10, tmp_path, evaluate)
    assert calls == [(step, False) for step in expected]
    assert trained.evaluations == {step: {"score": float(step)} for step in expected}


@pytest.mark.parametrize("checkpoint_every", [1, 4, 100])
def test_training_ends_early_after_an_evaluation_that_was_enough(tmp_path: Path, checkpoint_every: int) -> None:
    """It equals a training up to there under the schedule of all steps, and leaves no checkpoint of its last step to
    resume from."""
    settings = plan(evaluate_every=2, checkpoint_every=checkpoint_every, log_every=50)
    module, whole, at = Regression(), Regression(), {}
    trained = train(
        module, batch_at, settings, 10, tmp_path / "early", lambda step: {}, should_stop=lambda step: step >= 5
    )
    train(
        whole,
        batch_at,
        settings,
        10,
        tmp_path / "whole",
        lambda step: at.update({step: whole.weight.detach().clone()}) or {},
    )
    assert trained.steps == 6 and list(trained.evaluations) == [2, 4, 6]
    assert torch.equal(module.weight, at[6])
    assert log_lines(tmp_path / "early")[-1]["step"] == 6
    assert all(int(path.name[-8:]) < 6 for path in checkpoints(tmp_path / "early" / "checkpoints"))


def test_a_training_killed_before_its_early_end_ends_there_when_resumed(tmp_path: Path) -> None:
    for number, killed_at in enumerate(range(6)):
        place = tmp_path / str(number)
        place.mkdir()

        def ends_at_6(module: Regression, batches: Callable[..., torch.Tensor], folder: Path) -> Any:
            return train(
                module,
                batches,
                plan(evaluate_every=2, checkpoint_every=2),
                10,
                folder,
                lambda step: {},
                should_stop=lambda step: step >= 5,
            )

        whole, resumed = Regression(), Regression()
        expected = ends_at_6(whole, batch_at, place / "whole")
        with pytest.raises(RuntimeError):
            ends_at_6(Regression(), fails_at(killed_at, raises), place / "cut")
        found = ends_at_6(resumed, batch_at, place / "cut")
        assert (found.steps, found.loss) == (expected.steps, expected.loss) == (6, expected.loss), killed_at
        assert torch.equal(resumed.weight, whole.weight), killed_at


def test_a_stop_that_is_asked_for_in_the_last_step_of_an_early_end_is_the_end(tmp_path: Path) -> None:
    stopped = fails_at(5, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert (
        train(
            Regression(),
            stopped,
            plan(evaluate_every=2),
            10,
            tmp_path,
            lambda step: {},
            should_stop=lambda step: step >= 5,
        ).steps
        == 6
    )


def test_training_continues_in_training_mode_after_an_evaluation(tmp_path: Path) -> None:
    module, modes = Regression(), []
    module.register_forward_pre_hook(lambda module, inputs: modes.append(module.training))
    train(module, batch_at, plan(evaluate_every=2), 5, tmp_path, lambda step: {})
    assert modes == [True] * 5


def test_the_log_has_means_and_learning_rates_of_its_steps(tmp_path: Path) -> None:
    losses: list[float] = []
    module = Regression()
    module.register_forward_hook(lambda module, inputs, output: losses.append(output[0].item()))
    train(module, batch_at, plan(), 8, tmp_path)
    lines = log_lines(tmp_path)
    assert [line["step"] for line in lines] == [3, 6, 8]
    means = [sum(part) / len(part) for part in (losses[:3], losses[3:6], losses[6:])]
    assert [line["loss"] for line in lines] == pytest.approx(means, abs=1e-5)
    assert [line["learning_rate"] for line in lines] == pytest.approx(
        [learning_rate(plan(), step, 8) for step in (2, 5, 7)], abs=1e-6
    )


def test_checkpoints_are_written_every_so_many_steps_but_not_after_the_last(tmp_path: Path) -> None:
    train(Regression(), batch_at, plan(checkpoint_every=2, keep_checkpoints=3), 10, tmp_path)
    assert [path.name[-2:] for path in checkpoints(tmp_path / "checkpoints")] == ["04", "06", "08"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_raised_before_the_step(tmp_path: Path, value: float) -> None:
    module, before = Regression(), []

    def poisoned(step: int, part: int, parts: int) -> torch.Tensor:
        if step == 6:
            before.append(module.weight.detach().clone())
            return torch.full((1, 4), value)
        return batch_at(step)

    with pytest.raises(NotFinite, match=r"step 6 .*checkpoint is step 4"):
        train(module, poisoned, plan(), 10, tmp_path)
    assert torch.equal(module.weight, before[0])


class Root(Regression):
    """A finite loss whose gradient is not: the square root at zero."""

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return (self.weight * batch).sum().abs().sqrt(), {}


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(tmp_path: Path) -> None:
    module = Root()
    with pytest.raises(NotFinite):
        train(module, lambda step, *part: torch.zeros(1, 4) if step == 5 else batch_at(step), plan(), 6, tmp_path)
    assert torch.isfinite(module.weight).all()


def test_max_minutes_stops_with_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(Stopped, match="step 1 of 10"):
        train(Regression(), batch_at, plan(max_minutes=1e-9), 10, tmp_path)
    assert [path.name for path in checkpoints(tmp_path / "checkpoints")] == ["step-00000001"]


def test_sigterm_stops_after_the_step_with_a_checkpoint_and_the_handler_is_put_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped, match="step 6 of 10"):
        train(Regression(), fails_at(5, lambda: os.kill(os.getpid(), signal.SIGTERM)), plan(), 10, tmp_path)
    assert [path.name[-2:] for path in checkpoints(tmp_path / "checkpoints")] == ["04", "06"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_ctrl_c_does_not_wait_for_the_end_of_the_step(tmp_path: Path) -> None:
    def interrupted_twice(step: int, *part: int) -> torch.Tensor:
        for _ in range(2 if step == 5 else 0):
            os.kill(os.getpid(), signal.SIGINT)
        return batch_at(step)

    with pytest.raises(KeyboardInterrupt):
        train(Regression(), interrupted_twice, plan(), 10, tmp_path)
    assert [path.name[-2:] for path in checkpoints(tmp_path / "checkpoints")] == ["04"]


def test_a_ctrl_c_that_also_ended_the_reader_of_the_output_still_saves_a_checkpoint(tmp_path: Path) -> None:
    class Unread(Display):
        def say(self, line: str) -> None:
            raise BrokenPipeError

    with shown_on(Unread()), pytest.raises(Stopped, match="step 6 of 10"):
        train(Regression(), fails_at(5, lambda: os.kill(os.getpid(), signal.SIGINT)), plan(), 10, tmp_path)


def raises() -> None:
    raise RuntimeError("power cut")


@pytest.mark.parametrize("happening", [raises, lambda: os.kill(os.getpid(), signal.SIGTERM)], ids=["crash", "sigterm"])
def test_a_resumed_training_equals_one_never_stopped(tmp_path: Path, happening: Callable[[], None]) -> None:
    whole, cut, resumed = Regression(), Regression(), Regression()
    train(whole, batch_at, plan(), 12, tmp_path / "whole")
    with pytest.raises((RuntimeError, Stopped)):
        train(cut, fails_at(7, happening), plan(), 12, tmp_path / "cut")
    seen: list[int] = []
    train(resumed, lambda step, *part: (seen.append(step), batch_at(step))[1], plan(), 12, tmp_path / "cut")
    assert torch.equal(resumed.weight, whole.weight)
    assert seen[0] in (4, 8) and seen[-1] == 11


def test_a_resumed_training_reports_the_loss_of_one_never_stopped(tmp_path: Path) -> None:
    """The loss is in the manifest, so it must not depend on where the run was stopped between two lines of the
    log."""
    whole = train(Regression(), batch_at, plan(log_every=50), 12, tmp_path / "whole")
    with pytest.raises(RuntimeError):
        train(Regression(), fails_at(7, raises), plan(log_every=50), 12, tmp_path / "cut")
    resumed = train(Regression(), batch_at, plan(log_every=50), 12, tmp_path / "cut")
    assert resumed.loss == whole.loss


def test_options_that_bend_no_result_are_not_in_the_fingerprint() -> None:
    free = {"log_every": 7, "checkpoint_every": 7, "keep_checkpoints": 7, "max_minutes": 7.0}
    assert Plan(**free).dump() == Plan().dump()
    assert Plan(seed=2).dump() != Plan().dump()


def test_evaluations_survive_the_process_and_are_put_in_order(tmp_path: Path) -> None:
    first = Evaluations(tmp_path / "evaluations.json")
    first.add(20, {"loss": 1.23456789})
    first.add(3, {"loss": 2.0})
    again = Evaluations(tmp_path / "evaluations.json")
    assert list(again.values.items()) == [(3, {"loss": 2.0}), (20, {"loss": 1.234568})]
    assert 20 in again and 4 not in again


def test_the_best_step_keeps_its_values_as_long_as_its_model_is_kept(tmp_path: Path) -> None:
    """A resumed training may compute a little otherwise, as on another machine."""
    first = Evaluations(tmp_path / "evaluations.json")
    first.add(100, {"f1": 80.0}, is_best=True)
    first.add(200, {"f1": 80.2}, is_best=True)
    again = Evaluations(tmp_path / "evaluations.json")
    assert again.add(100, {"f1": 79.8}) == {"f1": 79.8}
    assert again.add(200, {"f1": 79.9}) == {"f1": 80.2}, "the kept model is that of the first process"
    assert again.add(200, {"f1": 80.3}, is_best=True) == {"f1": 80.3}
    assert Evaluations(tmp_path / "evaluations.json").values == {100: {"f1": 79.8}, 200: {"f1": 80.3}}


def test_the_log_tells_speed_and_time_left(tmp_path: Path) -> None:
    from kobert_pipeline.training.log import Log

    log = Log(tmp_path, 40, lambda: {"mfu": 800.0, "mfu_measured": 500.0})
    log.write(10, {"loss": 2.0, "tokens": 100.0, "learning_rate": 0.1})
    log.write(10, {"evaluation_loss": 1.0})
    log.last_line = (10, log.last_line[1] - 20)  # as if ten steps took twenty seconds
    log.write(20, {"loss": 1.0, "tokens": 100.0, "flops": 800.0, "learning_rate": 0.1})
    log.close()
    first, evaluation, second = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert "tokens_per_second" not in first and "minutes_left" not in evaluation
    assert second["tokens_per_second"] == pytest.approx(50, rel=0.05)
    assert second["minutes_left"] == pytest.approx(40 / 60, rel=0.05)
    assert second["mfu"] == pytest.approx(0.5, rel=0.05)  # 400 operations a second
    assert second["mfu_measured"] == pytest.approx(0.8, rel=0.05)
    assert log.speed == f"{second['tokens_per_second']:,.0f} tokens/s"
    assert list(log.shown.values()) == ["loss 1", "evaluation loss 1"]


def test_a_gpu_multiplies_in_tf32_only_where_the_plan_has_no_other_faster_type(monkeypatch: pytest.MonkeyPatch) -> None:
    half = Plan(mixed_precision="bf16")
    for has_gpu, plan, precision in ((True, Plan(), "high"), (True, half, "highest"), (False, Plan(), "highest")):
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
            set_matmul_precision(plan)
            assert torch.get_float32_matmul_precision() == precision, (has_gpu, plan.mixed_precision)
    torch.set_float32_matmul_precision("high")
    make_accelerator(Plan())  # on this machine's CPU, or a GPU
    assert torch.get_float32_matmul_precision() == ("high" if torch.cuda.is_available() else "highest")


def test_a_cpu_without_instructions_for_bf16_computes_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """On such a CPU bf16 is emulated, which takes dozens of times as long."""
    half = Plan(mixed_precision="bf16", fp32_residual_connection=False)
    for has_gpu, capability, fast in (
        (False, "avx2", False), (False, "avx512_f", False), (False, "avx512_bf16", True), (False, "amx_bf16", True),
        (False, "bf16", True), (True, "avx2", True),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
            patch.setattr(torch.cpu, "get_capabilities", lambda capability=capability: {capability: True})
            fitted = adapt_to_device(half)
            assert (fitted.mixed_precision, fitted.fp32_residual_connection) == (
                ("bf16", False) if fast else ("no", True)
            ), (has_gpu, capability)
            assert adapt_to_device(Plan()) == Plan()
