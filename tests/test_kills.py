"""A run that was killed and resumed by the same command equals one that never was: every file of every manifest, byte
for byte."""

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

STAGES = ("corpus", "analysis", "tokenizer", "shards", "features", "pretrain", "finetune", "publish")
POINTS = {
    "corpus": "corpus/started.json",
    "analysis": "analysis/started.json",
    "analysis, a part done": "analysis/*.done.json",
    "tokenizer": "tokenizer/started.json",
    "shards": "shards/started.json",
    "shards, a part done": "shards/*.done.json",
    "features": "features/*/started.json",
    "pretrain": "pretrain/started.json",
    "pretrain, a checkpoint written": "pretrain/checkpoints/step-*",
    "finetune": "finetune/nsmc/*/started.json",
    "finetune, a checkpoint written": "finetune/nsmc/*/checkpoints/step-*",
    "publish": "publish/nsmc/started.json",
}
"""Where a kill strikes: what must lie in the run folder before the clock of the random delay starts."""
FAST_POINTS = ("corpus", "shards, a part done", "pretrain, a checkpoint written")
"""A stage in phases, one of parts, and a training; the others are slow."""
SLOW_SEEDS = range(6)


def kill_inside(start_kobert, arguments: tuple[Any, ...], run_dir: Path, point: str, seconds: float) -> None:
    """SIGKILL the command after the first sign of `point` and a delay; tries again with a shorter delay where the stage
    was faster."""
    stage = point.split(",")[0]
    for attempt in range(4):
        process = start_kobert(*arguments)
        while not list(run_dir.glob(POINTS[point])):
            assert process.poll() is None, "the command ended before the point was reached"
            time.sleep(0.001)
        time.sleep(seconds / 4**attempt if attempt < 3 else 0)
        process.kill()
        process.wait()
        folders = {folder_of(path, run_dir, stage) for path in run_dir.glob(POINTS[point])}
        if any(not (folder / "manifest.json").exists() for folder in folders):
            return
        for folder in folders:
            shutil.rmtree(folder)
    pytest.fail(f"{stage} finished before every kill")


def folder_of(path: Path, run_dir: Path, stage: str) -> Path:
    """The stage folder (with its own manifest) of a sign."""
    depth = {"features": 2, "publish": 2, "finetune": 3}.get(stage, 1)
    return run_dir.joinpath(*path.relative_to(run_dir).parts[:depth])


def compare(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for folder, one in found.items():
        assert one["files"] == expected[folder]["files"], folder
        assert one["counts"] == expected[folder]["counts"], folder
        assert one["fingerprint"] == expected[folder]["fingerprint"], folder


def killed_and_run_again(point: str, seed: int, longest: float, tiny, tmp_path, start_kobert, kobert) -> None:
    stage = point.split(",")[0]
    run_dir = tiny.copy_before(tmp_path / "runs" / "killed", stage)
    for name in {"publish": ("korquad", "mlm"), "finetune": ("korquad",)}.get(stage, ()):
        # one model is enough to make: each takes seconds
        shutil.copytree(tiny.run_dir / stage / name, run_dir / stage / name)
    arguments = ("run", tiny.recipe, "--run-dir", run_dir, "--until", stage)
    usual = max(one["seconds"] for folder, one in tiny.manifests().items() if folder.split("/")[0] == stage)
    seconds = random.Random(f"{point} {seed}").uniform(0, min(usual, longest))
    kill_inside(start_kobert, arguments, run_dir, point, seconds)
    result = kobert(*arguments, "--num-workers", 1)  # it changes no result, and each loads the analyzer
    assert result.code == 0, result.err
    done = STAGES[: STAGES.index(stage) + 1]
    compare(
        tiny.manifests(run_dir),
        {folder: one for folder, one in tiny.manifests().items() if folder.split("/")[0] in done},
    )


@pytest.mark.parametrize("point", FAST_POINTS)
def test_stage_killed_and_run_again_equals_one_never_killed(point: str, tiny, tmp_path, start_kobert, kobert) -> None:
    killed_and_run_again(point, 0, 0.5, tiny, tmp_path, start_kobert, kobert)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
@pytest.mark.parametrize("point", POINTS)
def test_stage_killed_at_other_moments_equals_one_never_killed(
    point: str, seed: int, tiny, tmp_path, start_kobert, kobert
) -> None:
    killed_and_run_again(point, seed, math.inf, tiny, tmp_path, start_kobert, kobert)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_whole_run_killed_again_and_again_equals_one_never_killed(seed: int, tiny, tmp_path, start_kobert) -> None:
    """Kills at any time, wherever the run is; only the seconds that training took may differ, in the model card and its
    manifest."""
    rng, run_dir, kills = random.Random(seed), tmp_path / "runs" / "killed", 0
    while True:
        process = start_kobert("run", tiny.recipe, "--run-dir", run_dir)
        try:
            process.communicate(timeout=rng.uniform(1, 12) + 2 * kills)  # longer each time: some stages begin anew
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
    assert process.returncode == 0
    assert kills
    found, expected = tiny.manifests(run_dir), tiny.manifests()
    for one in (found, expected):
        for folder in [name for name in one if name.startswith("publish/")]:
            for name in ("README.md", "training_manifest.json"):
                del one[folder]["files"][name]
    compare(found, expected)
    for folder in [name for name in found if name.startswith("publish/")]:
        for name in ("README.md", "training_manifest.json"):
            assert timeless(run_dir / folder / name) == timeless(tiny.run_dir / folder / name), f"{folder}/{name}"


def timeless(path: Path) -> str:
    """A file's text without times: seconds in the manifest, device hours on the card."""
    text = re.sub(r'seconds": [\d.]+', 'seconds": 0', path.read_text(encoding="utf-8"))
    return re.sub(r"^(\| [a-z]+[^|]*\| )[\d.<]+ \|", r"\1 |", text, flags=re.MULTILINE)


def test_minutes_stop_a_training_with_a_checkpoint(tiny, tmp_path, kobert, monkeypatch) -> None:
    """The timer goes off as soon as a batch is built, however long the command took until then."""
    from kobert_pipeline.pretrain.phases import PhaseSchedule

    timers: list[threading.Timer] = []
    batch = PhaseSchedule.batch
    monkeypatch.setattr(threading.Timer, "start", lambda timer: timers.append(timer))
    monkeypatch.setattr(PhaseSchedule, "batch", lambda schedule, step: (timers[0].run(), batch(schedule, step))[1])
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    result = kobert("pretrain", tiny.recipe, "--run-dir", run_dir, "--minutes", 1e-9)
    assert result.code == 75, result.err
    assert "checkpoint saved; the same command resumes" in result.err.splitlines()[-1]
    assert [path.name for path in (run_dir / "pretrain" / "checkpoints").iterdir()] == ["step-00000001"]
    assert [timer.interval for timer in timers] == [pytest.approx(6e-8)]


def test_terminated_pretraining_stops_with_75_and_resumes_to_the_same_result(
    tiny, tmp_path, kobert, monkeypatch
) -> None:
    """The signal comes as soon as the batch of step 9 is built; a real process turns it into its exit code in
    test_exit_codes.py."""
    from kobert_pipeline.pretrain.phases import PhaseSchedule

    def batch_and_signal(schedule: Any, step: int, *more: Any) -> Any:
        if step == 8:
            os.kill(os.getpid(), signal.SIGTERM)
        return batch(schedule, step, *more)

    run_dir, batch = tiny.copy_before(tmp_path / "runs" / "x", "pretrain"), PhaseSchedule.batch
    arguments = ("pretrain", tiny.recipe, "--run-dir", run_dir, "--set", "pretrain.plan.checkpoint_every=100000")
    with monkeypatch.context() as patch:
        patch.setattr(PhaseSchedule, "batch", batch_and_signal)
        stopped = kobert(*arguments)
    assert stopped.code == 75, stopped.err
    assert "the same command resumes" in stopped.err.splitlines()[-1]
    assert not (run_dir / "pretrain" / "manifest.json").exists()
    checkpoint = json.loads(next((run_dir / "pretrain" / "checkpoints").glob("step-*/checkpoint.json")).read_text())
    assert 0 < checkpoint["step"] < tiny.manifests()["pretrain"]["counts"]["steps"]
    result = kobert(*arguments)
    assert result.code == 0, result.err
    made, expected = tiny.manifests(run_dir)["pretrain"], tiny.manifests()["pretrain"]
    assert made["files"] == expected["files"]
    assert made["counts"] == expected["counts"]


@pytest.mark.slow
def test_training_stopped_every_few_steps_equals_one_in_one_go(tiny, tmp_path, kobert) -> None:
    """By `max_minutes`. The manifest has the seconds of all calls: the model card and `kobert compare` print them."""
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    seconds, code = [], 75
    while code == 75:
        began = time.monotonic()
        result = kobert(*pretraining_stopped_soon(tiny, run_dir))
        seconds.append(time.monotonic() - began)
        code = result.code
    assert code == 0, result.err
    assert len(seconds) > 3
    made, expected = tiny.manifests(run_dir)["pretrain"], tiny.manifests()["pretrain"]
    assert made["files"] == expected["files"]
    assert made["counts"] == expected["counts"]
    assert made["seconds"] > 0.5 * sum(seconds)
    assert made["cpu_seconds"] > 0.5 * expected["cpu_seconds"]


def pretraining_stopped_soon(tiny, run_dir: Path) -> tuple[Any, ...]:
    """The arguments of a pretraining that ends after a few steps."""
    return ("pretrain", tiny.recipe, "--run-dir", run_dir, "--set", "pretrain.plan.max_minutes=0.0005")


def test_damaged_checkpoint_is_named_and_not_resumed_from(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    assert kobert(*pretraining_stopped_soon(tiny, run_dir)).code == 75
    weights = sorted((run_dir / "pretrain" / "checkpoints").glob("step-*"))[-1] / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    complaint = kobert("pretrain", tiny.recipe, "--run-dir", run_dir).complaint
    assert str(weights) in complaint
    assert "has changed" in complaint
