"""Trackers get what the log gets, and a resumed training continues its curve: TensorBoard's own reader tells, the other
trackers are asked through accelerate's interface."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import tracking as accelerate_tracking
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import matches_any
from kobert_pipeline.training import log
from kobert_pipeline.training.loop import train
from kobert_pipeline.training.plan import TRAINING_WRITES, Plan
from kobert_pipeline.training.trackers import Tracking

PLAN = Plan(log_every=1, checkpoint_every=4, evaluate_every=3)


class Mean(torch.nn.Module):
    """Squared distance to the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4))

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return (self.weight - batch).square().sum(), {"tokens": torch.tensor(100.0)}


def trained(folder: Path, tracking: Tracking, fails_at: int | None = None) -> None:
    def batch_at(step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        if step == fails_at:
            raise ConnectionError("the machine was lost")
        return torch.full((4,), float(step))

    train(Mean(), batch_at, PLAN, 9, folder, lambda step: {"accuracy": 10.0 * step}, tracking=tracking)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "logs" / "log.jsonl").read_text().splitlines()]


def test_tensorboard_reads_the_fields_of_the_log_as_one_curve_after_a_crash(tmp_path: Path) -> None:
    tracking = Tracking(("tensorboard",), folder=tmp_path)
    with pytest.raises(ConnectionError):
        trained(tmp_path, tracking, fails_at=7)  # the last checkpoint is of step 4: 5 to 7 are logged twice
    trained(tmp_path, tracking)
    reader = EventAccumulator(str(tmp_path / "logs")).Reload()
    by_step: dict[tuple[int, str], float] = {}
    for line in lines(tmp_path):
        by_step |= {(line["step"], name): value for name, value in line.items() if name not in ("step", "seconds")}
    found = {
        (event.step, name): event.value
        for name in reader.Tags()["scalars"]
        for event in reader.Scalars(name)
        if name != "seconds"
    }
    assert {"loss", "learning_rate", "tokens_per_second", "evaluation_accuracy"} <= {name for _, name in found}
    assert [event.step for event in reader.Scalars("loss")] == list(range(1, 10))
    assert [event.step for event in reader.Scalars("evaluation_accuracy")] == [3, 6, 9]
    assert {key: found[key] for key in found if key[1] != "minutes_left"} == pytest.approx(
        {key: by_step[key] for key in found if key[1] != "minutes_left"}, rel=1e-5
    )
    written = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert [name for name in written if not matches_any(name, TRAINING_WRITES)] == []


class Recorder(accelerate_tracking.GeneralTracker):
    """What accelerate's trackers would be told."""

    name, requires_logging_directory, main_process_only = "recorder", False, False
    started: list["Recorder"] = []

    def __init__(self, run_name: str, **arguments: Any) -> None:
        super().__init__()
        self.run_name, self.arguments, self.logged, self.finished = run_name, arguments, [], False

    @property
    def tracker(self) -> None:
        return None

    def start(self) -> None:
        print("hello")
        Recorder.started.append(self)

    def log(self, values: dict[str, Any], step: int | None = None, **more: Any) -> None:
        self.logged.append({"step": step, **values})

    def finish(self) -> None:
        self.finished = True


def test_wandb_and_trackio_get_one_identity_per_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("wandb", "trackio"):
        monkeypatch.setitem(accelerate_tracking.LOGGER_TYPE_TO_CLASS, name, Recorder)
    for name in ("WANDB_DIR", "TRACKIO_DIR"):
        monkeypatch.delenv(name, raising=False)
    Recorder.started = []
    tracking = Tracking(("wandb", "trackio"), "mini", "finetune/nsmc/1", tmp_path)
    folder = tmp_path / "finetune"
    with pytest.raises(ConnectionError):
        trained(folder, tracking, fails_at=5)
    trained(folder, tracking)
    trained(tmp_path / "redone", tracking)
    wandb, trackio = Recorder.started[::2], Recorder.started[1::2]
    ids = [one.arguments["id"] for one in wandb]
    assert ids[0] == ids[1] != ids[2]
    assert [one.arguments["name"] for one in trackio] == ids
    assert all(
        one.run_name == "mini" and one.arguments["resume"] == "allow" and one.finished for one in (*wandb, *trackio)
    )
    assert wandb[0].arguments["dir"] == str(tmp_path)
    assert wandb[0].logged + wandb[1].logged == lines(folder)
    assert capsys.readouterr().out == "", "standard output may be one JSON object"


def test_only_rank_0_tracks_and_a_tracker_that_does_not_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Recorder):
        def start(self) -> None:
            raise RuntimeError("no API key")

    monkeypatch.setitem(accelerate_tracking.LOGGER_TYPE_TO_CLASS, "wandb", Broken)
    tracking = Tracking(("wandb",), folder=tmp_path)
    with pytest.raises(UserError, match="wandb does not start: no API key; set it up, or leave it out"):
        trained(tmp_path / "one", tracking)
    monkeypatch.setattr(log, "is_main_process", lambda: False)
    log.Log(tmp_path / "other", 9, tracking=tracking).close()
    assert not list((tmp_path / "other").iterdir())


def test_a_missing_library_is_named_before_anything_begins(tiny: Any, tmp_path: Path, kobert: Any) -> None:
    """And another tracker changes no fingerprint: the finished stages stay finished."""
    run_dir = tmp_path / "run"
    refused = kobert("run", tiny.recipe, "--run-dir", run_dir, "--set", "report_to=[tensorboard,trackio]").complaint
    assert "trackio is not installed here; pip install 'kobert-pipeline[trackio]', or leave it out" in refused
    assert not run_dir.exists() or not [path for path in run_dir.rglob("*") if path.name == "started.json"]
    rows = kobert("status", tiny.recipe, "--run-dir", tiny.run_dir, "--set", "report_to=trackio", "--json").json
    assert {row["status"] for row in rows["stages"]} == {"done"}
