"""Checkpoints are written in a thread: of the state at their step, complete or absent, and their errors are raised."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kobert_pipeline.training import checkpoint
from kobert_pipeline.training.checkpoint import CheckpointWriter, checkpoints, load_checkpoint
from kobert_pipeline.training.loop import NotFinite, Stopped, train
from kobert_pipeline.training.optimizer import adamw
from kobert_pipeline.training.plan import Plan

PLAN = Plan(learning_rate=0.01, checkpoint_every=4, keep_checkpoints=9)
SECONDS = 20
"""How long a test waits for the other thread before it fails."""


class Squared(torch.nn.Module):
    """One matrix, trained towards zero."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 4))

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return (self.weight * batch).square().sum(), {}


def batch_at(step: int, part: int, parts: int) -> torch.Tensor:
    return torch.randn(4, 4, generator=torch.Generator().manual_seed(step))


def at(number: int, happening: Callable[[], Any], batches: Any = batch_at) -> Any:
    """`batches`, where something happens at one step."""
    return lambda step, *part: (happening() if step == number else None, batches(step, *part))[1]


def before_writing(monkeypatch: pytest.MonkeyPatch, happening: Callable[[int], None]) -> None:
    """Let something happen in the thread before it writes the checkpoint of a step."""
    write = checkpoint._write

    def patched(folder: Path, step: int, *others: Any) -> None:
        happening(step)
        write(folder, step, *others)

    monkeypatch.setattr(checkpoint, "_write", patched)


def saved(folder: Path) -> list[int]:
    return [int(path.name[-8:]) for path in checkpoints(folder)]


def a_step_done() -> tuple[Squared, torch.optim.Optimizer]:
    module = Squared()
    optimizer = adamw(module.parameters(), PLAN)
    module(batch_at(0, 0, 1))[0].backward()
    optimizer.step()
    return module, optimizer


def test_what_is_written_is_the_state_at_the_step_whatever_happens_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (module, optimizer), changed = a_step_done(), threading.Event()
    before_writing(monkeypatch, lambda step: changed.wait(SECONDS))
    tensors = {"weight": module.weight, **optimizer.state[module.weight]}
    expected, random = {name: tensor.detach().clone() for name, tensor in tensors.items()}, torch.get_rng_state()
    with CheckpointWriter(tmp_path, keep=1) as writer:
        writer.save(1, module, optimizer)
        with torch.no_grad():
            for tensor in tensors.values():
                tensor.add_(1)
        torch.rand(3)
        changed.set()
    other = Squared()
    other_optimizer = adamw(other.parameters(), PLAN)
    assert load_checkpoint(tmp_path, other, other_optimizer) == 1
    found = {"weight": other.weight, **other_optimizer.state[other.weight]}
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)
    assert torch.equal(torch.get_rng_state(), random)


def test_training_continues_while_a_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, waited = threading.Event(), list[bool]()
    before_writing(monkeypatch, lambda step: waited.append(reached.wait(SECONDS)))
    train(Squared(), at(6, reached.set), PLAN, 8, tmp_path)
    assert waited == [True]
    assert saved(tmp_path / "checkpoints") == [4]


def test_checkpoints_are_written_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[int, list[int]]] = []

    def slowly(step: int) -> None:
        time.sleep(0.05)
        begun.append((step, saved(tmp_path / "checkpoints")))

    before_writing(monkeypatch, slowly)
    train(Squared(), batch_at, PLAN.model_copy(update={"checkpoint_every": 1}), 5, tmp_path)
    assert begun == [(1, []), (2, [1]), (3, [1, 2]), (4, [1, 2, 3])]
    assert saved(tmp_path / "checkpoints") == [1, 2, 3, 4]


def fails() -> None:
    raise RuntimeError("a bug")


ENDINGS: dict[str, tuple[Any, type[Exception] | None, int]] = {
    "the last step": (batch_at, None, 4),
    "a stop": (at(4, lambda: os.kill(os.getpid(), signal.SIGTERM)), Stopped, 5),
    "another error": (at(4, fails), RuntimeError, 4),
    "NaN": (lambda step, *part: batch_at(step, *part) * (float("nan") if step == 4 else 1), NotFinite, 4),
}
"""How a training of 5 steps ends: the batches, the error, and the newest checkpoint."""


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_waits_until_the_checkpoint_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    batches, error, newest = ENDINGS[ending]
    before_writing(monkeypatch, lambda step: time.sleep(0.2))
    found: list[int] = []

    def run() -> None:
        try:
            train(Squared(), batches, PLAN, 6 if ending == "a stop" else 5, tmp_path)
        finally:
            found.extend(saved(tmp_path / "checkpoints"))

    if error:
        with pytest.raises(error):
            run()
    else:
        run()
    assert found[-1] == newest
    assert load_checkpoint(tmp_path / "checkpoints", Squared(), adamw(Squared().parameters(), PLAN)) == newest


def disk_full(step: int) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("steps", [5, 20])
def test_an_error_of_the_thread_ends_the_training_before_the_next_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    before_writing(monkeypatch, disk_full)
    seen: list[int] = []

    def slow(step: int, *part: int) -> torch.Tensor:
        seen.append(step)
        time.sleep(0.1 if step > 3 else 0)
        return batch_at(step, *part)

    with pytest.raises(OSError, match="No space left"):
        train(Squared(), slow, PLAN, steps, tmp_path)
    assert 4 <= max(seen) < 7, "the next checkpoint would be that after step 7"
    assert saved(tmp_path / "checkpoints") == []


def test_a_stop_whose_checkpoint_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before_writing(monkeypatch, disk_full)
    with pytest.raises(OSError, match="No space left"):
        train(Squared(), at(2, lambda: os.kill(os.getpid(), signal.SIGTERM)), PLAN, 20, tmp_path)


def test_an_error_of_the_training_is_not_replaced_by_one_of_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, failed = threading.Event(), list[int]()
    before_writing(monkeypatch, lambda step: (slow.wait(SECONDS), failed.append(step), disk_full(step)))
    with pytest.raises(RuntimeError, match="a bug"):
        train(Squared(), at(4, lambda: (slow.set(), fails())), PLAN, 8, tmp_path)
    assert failed == [4]


class Killed(BaseException):
    """Stands for the end of the process: nothing is cleaned up after it."""


def killed_at_call(number: int, calls: list[str], name: str) -> Callable[..., Any]:
    """The function `name` of the module, which is killed where it makes the `number`-th of all `calls`."""
    original = getattr(checkpoint, name)

    def counted(*given: Any) -> Any:
        calls.append(name)
        if len(calls) == number:
            raise Killed
        return original(*given)

    return counted


def test_a_kill_at_any_moment_leaves_a_complete_checkpoint_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, optimizer = a_step_done()
    newest = []
    for number in range(1, 11):
        place, calls = tmp_path / str(number), list[str]()
        with CheckpointWriter(place, keep=1) as writer:
            writer.save(1, module, optimizer)
        with monkeypatch.context() as patch, pytest.raises(Killed), CheckpointWriter(place, keep=1) as writer:
            for name in ("save_file", "sha256", "write_json_with_digest", "_remove"):
                patch.setattr(checkpoint, name, killed_at_call(number, calls, name))
            writer.save(2, module, optimizer)
        newest.append(load_checkpoint(place, Squared(), adamw(Squared().parameters(), PLAN)))
        assert newest[-1] == saved(place)[-1]
        with CheckpointWriter(place, keep=1) as writer:  # what the kill left is in the way of nothing
            writer.save(2, module, optimizer)
        assert [path.name for path in place.iterdir()] == ["step-00000002"]
    assert newest == [1] * 9 + [2]
