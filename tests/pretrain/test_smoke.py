"""`scripts/smoke`: what it measures of a pretraining, what it finds, and that it leaves nothing behind."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest
import torch

from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.training import checkpoint

PHASES = "pretrain.phases=[{share: 0.5}, {share: 0.5, batch_tokens: 1024, max_length: 64}]"


@pytest.fixture(scope="module")
def script(repo: Path) -> Any:
    """The script as a module."""
    spec = spec_from_loader("smoke", SourceFileLoader("smoke", str(repo / "scripts" / "smoke")))
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def smoke(script: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Exit code, standard output and standard error of the script, in this process."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["smoke", *map(str, arguments)])
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                script.run_app(script.app)
            except SystemExit as stop:
                code = int(stop.code or 0)
        return code, out.getvalue(), err.getvalue()

    return call


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_it_says_what_pretraining_takes_and_leaves_nothing_behind(tiny: Any, tmp_path: Path, smoke: Any) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    before = times(tmp_path)
    code, out, err = smoke(tiny.recipe, "--run-dir", run_dir, "--set", PHASES, "--minutes", 1e-6)
    assert code == 0, err
    header, *lines = out.splitlines()
    assert header.split()[:2] == ["phase", "tokens"]
    assert [row.split()[:3] for row in lines[:2]] == [["1", "2,048", "128"], ["2", "1,024", "64"]]
    memory, pretraining, checkpoint, tests = lines[2:]
    assert memory.endswith("(CPU).")
    assert pretraining.startswith("Pretraining: 60,000 tokens at ")
    assert "--minutes 1e-06 does not suffice" in pretraining
    assert "resumed with equal state" in checkpoint
    assert tests == "GPU tests: none, since there is no GPU."
    assert {path for path, time in times(tmp_path).items() if before.get(path) != time} == {run_dir.parent}
    assert before.keys() == times(tmp_path).keys()


def test_a_profile_says_what_the_time_of_a_step_is_for(tiny: Any, tmp_path: Path, smoke: Any) -> None:
    run_dir, out_file = tiny.copy_before(tmp_path / "runs" / "x", "pretrain"), tmp_path / "profile.json"
    arguments = (tiny.recipe, "--run-dir", run_dir, "--profile", out_file, "--no-tests", "--json")
    code, out, err = smoke(*arguments)
    assert code == 0, err
    assert "gpu_tests" not in json.loads(out)
    profile = json.loads(out_file.read_text(encoding="utf-8"))
    assert json.loads(out)["profile"] == {name: value for name, value in profile.items() if name != "device"}
    milliseconds = {row["name"]: row["milliseconds"] for row in profile["categories"]}
    assert {"matrix products", "layer norms", "loss over the vocabulary", "clipping and optimizer"} <= set(milliseconds)
    assert sum(milliseconds.values()) == pytest.approx(profile["milliseconds"], rel=0.01)
    assert "exists already" in smoke(*arguments)[2]


def test_a_state_that_does_not_come_back_is_a_bug(
    tiny: Any, tmp_path: Path, smoke: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")

    def restored(tensors: dict[str, torch.Tensor], *_: Any) -> None:
        """Nothing: the optimizer starts anew."""

    monkeypatch.setattr(checkpoint, "_restore_optimizer", restored)
    with pytest.raises(RuntimeError, match=r"differs in \['optimizer.safetensors'\]"):
        smoke(tiny.recipe, "--run-dir", run_dir)


def test_stages_that_are_missing_are_named(tiny: Any, tmp_path: Path, smoke: Any) -> None:
    code, _, err = smoke(tiny.recipe, "--run-dir", tiny.copy_before(tmp_path / "runs" / "x", "shards"))
    assert code == 2
    assert "shards" in err and len(err.splitlines()) == 1
    code, _, err = smoke("nsmc", "--set", f"checkpoint={tmp_path}", "--run-dir", tmp_path / "y")
    assert code == 2
    assert "recipe nsmc does not pretrain" in err
    code, _, err = smoke(tiny.recipe, "--set", "pretrain.plan.fsdp=true")
    assert code == 2
    assert "add --set pretrain.plan.fsdp=false" in err


def test_a_gpu_that_torch_does_not_see_is_refused(
    tiny: Any, tmp_path: Path, smoke: Any, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, out, err = smoke(tiny.recipe, "--run-dir", tiny.copy_before(tmp_path / "runs" / "x", "pretrain"))
    assert (code, out) == (2, "")
    assert "sees no GPU" in err and len(err.splitlines()) == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    script.refuse_hidden_gpu()


def test_a_failing_gpu_test_ends_it_with_1(
    tiny: Any, tmp_path: Path, smoke: Any, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "1 failed", "")

    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "pretrain")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(script.subprocess, "run", run)
    monkeypatch.setattr(script, "trial", lambda **_: {})
    assert smoke(tiny.recipe, "--run-dir", run_dir)[::2] == (1, "1 failed\n\n")
    given = sorted(Path(word).name for word in commands[0] if word.endswith(".py"))
    assert given == ["test_gpu_gradients.py", "test_residual_stream.py", "test_triton_attention.py", "test_varlen.py"]


def test_a_forecast_counts_phases_compilation_and_evaluations(script: Any) -> None:
    options = PretrainOptions(total_tokens=3_000, plan={"evaluate_every": 40})
    phases = [
        {"tokens": 1_000, "tokens_per_second": 10.0, "start_seconds": 20.0},
        {"tokens": 2_000, "tokens_per_second": 40.0, "start_seconds": 0.0},
    ]
    found = script.forecast(options, 100, phases, evaluation=5.0)
    # before the first step, after steps 40 and 80, and after the last one
    assert (found["evaluations"], found["tokens_per_second"]) == (4, 3_000 / 170)
    assert found["minutes_needed"] == (100 + 20 + 50 + 4 * 5) / 60


def test_a_verdict_counts_the_commands(script: Any) -> None:
    assert script.verdict(54.9, 55) == "; --minutes 55 suffices"
    assert script.verdict(111, 55).endswith("does not suffice, the command has to be run about 3 times")
    assert script.verdict(54.9, None) == ""
