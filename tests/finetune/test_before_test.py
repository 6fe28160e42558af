"""`kobert finetune --before-test`: models first, test sets by the same command without it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.training import loop


def test_what_waits_for_its_test_set_is_tested_later_without_a_step(
    tiny: Any, tmp_path: Path, kobert: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "finetune")
    # this one starts from the other's model, so it has to wait for it
    settings = ("--set", "finetune.further={init: nsmc, features: nsmc, plan: {epochs: 1}}")
    command = ("finetune", tiny.recipe, "--run-dir", run_dir, *settings)
    stopped = kobert(*command, "--before-test")
    assert stopped.code == 75
    assert "the test sets of finetune nsmc/1, finetune korquad/1, finetune further/1 wait" in stopped.err
    folders = [run_dir / "finetune" / name / "1" for name in ("nsmc", "korquad")]
    weights = [(folder / "model" / "model.safetensors").read_bytes() for folder in folders]
    assert not [*run_dir.glob("finetune/*/*/predictions.jsonl"), *run_dir.glob("finetune/*/*/manifest.json")]
    assert not (run_dir / "finetune" / "further").exists()
    assert kobert(*command, "--before-test").code == 75

    def no_step(*_: Any) -> None:
        raise AssertionError("a step was taken")

    monkeypatch.setattr(loop, "take_step", no_step)
    resumed = kobert(*command[:-2])
    assert resumed.code == 0, resumed.err
    assert [(folder / "model" / "model.safetensors").read_bytes() for folder in folders] == weights
    uninterrupted, counts = (
        {name: record["counts"] for name, record in manifests.items() if name.startswith("finetune/")}
        for manifests in (tiny.manifests(), tiny.manifests(run_dir))
    )
    assert counts == uninterrupted
    assert all(values["test"] for values in counts.values())


def test_a_classifier_over_ngrams_waits_too(tiny: Any, tmp_path: Path, kobert: Callable[..., Any]) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "finetune")
    settings = ("--set", "finetune={nsmc: {ngrams: {}}}", "--set", "publish={}")
    command = ("finetune", tiny.recipe, "--run-dir", run_dir, *settings)
    assert kobert(*command, "--before-test").code == 75
    assert not list(run_dir.glob("finetune/nsmc/1/predictions.jsonl"))
    assert kobert(*command).code == 0
    assert list(run_dir.glob("finetune/nsmc/1/predictions.jsonl"))
