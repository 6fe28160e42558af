"""Early stopping: when patience is exhausted, and that a kill changes nothing about it."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.features.task import Task
from kobert_pipeline.files import sha256
from kobert_pipeline.finetune import stage
from kobert_pipeline.finetune.plan import FinetunePlan, length_of
from kobert_pipeline.finetune.train import DevEvaluator
from kobert_pipeline.training.evaluations import read_evaluations
from kobert_pipeline.training.loop import Stopped

PLAN = {
    "epochs": 20,
    "batch_size": 16,
    "learning_rate": 5e-3,
    "evaluate_every": 4,
    "early_stopping_patience": 2,
    "checkpoint_every": 3,
}


def naive_end(scores: list[float], patience: int) -> int:
    """Where Prechelt's counter, reset at every new best, reaches the patience; the last where it never does."""
    best, waited = -1.0, 0
    for step, score in enumerate(scores, 1):
        waited = 0 if score > best else waited + 1
        best = max(best, score)
        if waited == patience:
            return step
    return len(scores)


@given(st.lists(st.integers(0, 5).map(float), min_size=1, max_size=20), st.integers(1, 4))
def test_it_ends_where_a_counter_would_whatever_was_measured_later(scores: list[float], patience: int) -> None:
    on_dev = DevEvaluator(
        None, Task.choose("nsmc"), None, FinetunePlan(early_stopping_patience=patience), Path("nowhere"), None
    )  # type: ignore
    on_dev.evaluations.values = {step: {"accuracy": score} for step, score in enumerate(scores, 1)}
    found = next((step for step in range(1, len(scores) + 1) if on_dev.should_stop(step)), len(scores))
    assert found == naive_end(scores, patience)
    assert on_dev.best(found) == 1 + scores.index(max(scores[:found]))


def test_a_score_like_the_best_before_it_does_not_take_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A third has more decimals than are kept."""
    saved: list[int] = []

    class Model:
        def save_pretrained(self, folder: Path) -> None:
            saved.append(step)

    monkeypatch.setattr(
        "kobert_pipeline.finetune.train.predict", lambda *given, **more: SimpleNamespace(scores={"accuracy": 100 / 3})
    )
    on_dev = DevEvaluator(Model(), Task.choose("nsmc"), None, FinetunePlan(), tmp_path, tmp_path / "model")  # type: ignore[arg-type]
    for step in (3, 6, 9):
        on_dev(step)
    assert saved == [3]
    assert on_dev.best(9) == 3


def test_progress_gets_the_score_that_selects_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scores = {"exact_match": 1.0, "f1": 2.0}
    monkeypatch.setattr("kobert_pipeline.finetune.train.predict", lambda *given, **more: SimpleNamespace(scores=scores))
    on_dev = DevEvaluator(None, Task.choose("korquad"), None, FinetunePlan(), tmp_path, None)  # type: ignore[arg-type]
    shown = on_dev(3)
    assert list(shown) == ["f1", "exact_match"] and shown == scores
    assert list(on_dev.evaluations[3]) == ["exact_match", "f1"], "what is stored is as before"


def test_without_patience_it_never_ends() -> None:
    on_dev = DevEvaluator(None, Task.choose("nsmc"), None, FinetunePlan(), Path("nowhere"), None)  # type: ignore[arg-type]
    on_dev.evaluations.values = {step: {"accuracy": 1.0} for step in range(100)}
    assert not on_dev.should_stop(99)


def run(prepared: Path, pretrained: Path, out: Path, **plan: Any) -> dict[str, Any]:
    return stage.run(stage.FinetuneOptions(plan={**PLAN, **plan}), 1, prepared / "nsmc", pretrained, out)


@pytest.fixture(scope="module")
def ended(prepared: Path, pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("ended")
    return run(prepared, pretrained, out), out


def test_a_run_ends_early_and_its_model_is_that_of_a_run_with_as_many_evaluations(ended: Any) -> None:
    counts, out = ended
    scores = [values["accuracy"] for _, values in sorted(read_evaluations(out / "evaluations.json").items())]
    assert counts["steps"] < 200, "the data must be such that it ends early"
    assert counts["steps"] == 4 * naive_end(scores, 2) == 4 * len(scores)
    assert counts["best_step"] == 4 * (1 + scores.index(max(scores)))
    assert counts["dev"]["accuracy"] == max(scores)


def test_a_run_that_was_stopped_at_every_step_ends_at_the_same_one(
    ended: Any, prepared: Path, pretrained: Path, tmp_path: Path
) -> None:
    counts, out = ended
    for _ in range(counts["steps"] - 1):
        with pytest.raises(Stopped):
            run(prepared, pretrained, tmp_path, max_minutes=1e-9)
    same(run(prepared, pretrained, tmp_path), tmp_path, counts, out)


KILLED = """
import json, os, signal, sys
from pathlib import Path
import torch
from kobert_pipeline.finetune import stage, train
plan, prepared, pretrained, out, last = json.loads(sys.argv[1]), *map(Path, sys.argv[2:5]), int(sys.argv[5])
should_stop = train.DevEvaluator.should_stop
def killed(on_dev, step):
    if step >= last: os.kill(os.getpid(), signal.SIGKILL)
    return should_stop(on_dev, step)
train.DevEvaluator.should_stop = killed
stage.run(stage.FinetuneOptions(plan=plan), 1, prepared / "nsmc", pretrained, out)
"""


@pytest.mark.parametrize("from_end", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_killed_behind_its_last_evaluations_ends_at_the_same_step(
    ended: Any, prepared: Path, pretrained: Path, tmp_path: Path, from_end: int
) -> None:
    """SIGKILL where the evaluation is on disk, but early stopping has not been decided yet."""
    counts, out = ended
    at = str(counts["steps"] - 4 * from_end)
    command = [sys.executable, "-c", KILLED, json.dumps(PLAN), *map(str, (prepared, pretrained, tmp_path)), at]
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == -signal.SIGKILL
    assert int(at) in read_evaluations(tmp_path / "evaluations.json")
    same(run(prepared, pretrained, tmp_path), tmp_path, counts, out)


def same(found: dict[str, Any], folder: Path, counts: dict[str, Any], out: Path) -> None:
    assert found == counts
    for file in (f"{stage.MODEL}/model.safetensors", "predictions.jsonl", "evaluations.json"):
        assert sha256(folder / file) == sha256(out / file), file


@pytest.mark.parametrize(
    ("options", "per_epoch", "expected"),
    [
        ({}, 1000, (2, 1000)),
        ({}, 150, (2, 150)),
        ({}, 149, (3, 149)),  # 2 epochs would be 298 steps
        ({}, 34, (9, 34)),
        ({}, 30, (10, 300)),
        ({"early_stopping_patience": 2}, 30, (10, 30)),
        ({}, 1, (300, 300)),
        ({"evaluate_every": 50}, 2, (150, 50)),
        ({"epochs": 2}, 1, (2, 1)),
        ({"epochs": 0}, 7, (0, 7)),
    ],
)
def test_few_examples_get_more_epochs_unless_the_plan_says_how_many(
    options: dict[str, int], per_epoch: int, expected: tuple[int, int]
) -> None:
    assert length_of(FinetunePlan(**options), per_epoch) == expected  # type: ignore[arg-type]
