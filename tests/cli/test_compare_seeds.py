"""`kobert compare` averages the seeds of a fine-tuning that were trained alike, and names the others."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.files import read_json_with_digest, write_json_with_digest

Change = Callable[[dict[str, Any]], object]


def edit(folder: Path, change: Change) -> None:
    """Change the manifest of a job, as another run of it would have written it."""
    content = read_json_with_digest(folder / "manifest.json")
    change(content)
    write_json_with_digest(folder / "manifest.json", content)


@pytest.fixture
def run_dir(tiny: Any, tmp_path: Path) -> Path:
    """A run whose fine-tuning `nsmc` has seeds 1 and 2; 2 was finished a day before 1."""
    copied = tiny.copy(tmp_path / "run")
    shutil.copytree(copied / "finetune" / "nsmc" / "1", copied / "finetune" / "nsmc" / "2")

    def as_seed_2(content: dict[str, Any]) -> None:
        content["options"]["seed"] = 2
        content["finished"] = "2000-01-01T00:00:00Z"
        content["counts"]["test"]["accuracy"] = 100.0

    edit(copied / "finetune" / "nsmc" / "2", as_seed_2)
    return copied


def nsmc(kobert: Callable[..., Any], run_dir: Path) -> dict[str, Any]:
    return next(row for row in kobert("compare", run_dir, "--json").json["runs"] if row["finetune"] == "nsmc")


def test_seeds_that_were_trained_alike_are_averaged(run_dir: Path, tiny: Any, kobert: Callable[..., Any]) -> None:
    row = nsmc(kobert, run_dir)
    assert row["seeds"] == 2 and row["scores"]["accuracy"]["max"] == 100.0 and "left_out" not in row
    # seeds are one row of the differences, not a row for each option of each seed
    assert kobert("compare", tiny.run_dir, run_dir, "--json").json["differences"] == {
        "finetune.nsmc.seeds": [[1], [1, 2]]
    }


def without_test(content: dict[str, Any]) -> None:
    """As before the recipe had a test set, and from another pretraining."""
    content["inputs"]["pretrain"] = "0"
    del content["counts"]["test"]


def test_a_seed_from_before_a_change_is_left_out_and_named(run_dir: Path, kobert: Callable[..., Any]) -> None:
    changes: list[tuple[Change, str]] = [
        (lambda content: content["options"]["plan"].update(epochs=77), "option finetune.nsmc.plan.epochs was 77"),
        (lambda content: content["inputs"].update(features="0"), "its input features has changed"),
        (without_test, "its input pretrain has changed"),
    ]
    seed = run_dir / "finetune" / "nsmc" / "2"
    before = (seed / "manifest.json").read_bytes()
    for change, reason in changes:
        edit(seed, change)
        row = nsmc(kobert, run_dir)
        assert row["seeds"] == 1 and row["scores"]["accuracy"]["max"] < 100, reason
        assert row["left_out"]["2"].startswith(reason)
        assert f"run: seed 2 of nsmc left out as stale: {reason}" in kobert("compare", run_dir).err
        (seed / "manifest.json").write_bytes(before)


def test_scores_of_an_earlier_pretraining_are_not_shown_beside_its_successor(
    run_dir: Path, kobert: Callable[..., Any]
) -> None:
    edit(run_dir / "pretrain", lambda content: next(iter(content["files"].values())).update(sha256="0"))
    row = nsmc(kobert, run_dir)
    assert row["seeds"] == 0 and row["scores"] == {}
    assert set(row["left_out"].values()) == {"its input pretrain has changed"}
    assert " nsmc | dev | 0 |  |" in kobert("compare", run_dir).out
