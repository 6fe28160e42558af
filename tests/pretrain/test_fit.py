"""A token budget that is fitted to a time is part of the options like any other, and found once per run."""

from pathlib import Path

import pytest

from kobert_pipeline.config import recipe_file
from kobert_pipeline.errors import UserError
from kobert_pipeline.pipeline import fit
from kobert_pipeline.pipeline.fit import Speed
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pipeline.stages import Run

OWN = "--set", "pretrain.total_tokens=70000"


@pytest.fixture
def run_dir(tiny, tmp_path) -> Path:
    return tiny.copy_before(tmp_path / "runs" / "tiny", "pretrain")


@pytest.fixture
def measured(monkeypatch) -> list[Path]:
    """The folders of the measurements, each of which finds a speed of about 27,000 tokens in 5 minutes."""
    folders: list[Path] = []

    def measure(recipe: Recipe, run: Run, seconds: float, out: Path) -> Speed:
        folders.append(out)
        return Speed(seconds_per_token=0.01, tokens_per_step=2048, start_seconds=11.0, evaluation_seconds=2.0)

    monkeypatch.setattr(fit, "measure", measure)
    return folders


def test_a_fitted_training_is_that_of_a_recipe_with_its_budget(tiny, run_dir, measured, kobert, tmp_path) -> None:
    arguments = ("pretrain", tiny.recipe, "--run-dir", run_dir)
    assert kobert(*arguments, "--minutes", 5, "--fit").code == 0
    fitted = tiny.manifests(run_dir)["pretrain"]
    total = fitted["options"]["total_tokens"]
    assert 26_000 < total == fitted["fit"]["total_tokens"] <= 27_000
    assert fitted["fit"]["recipe_total_tokens"] == 60_000
    other = tiny.copy_before(tmp_path / "others" / "tiny", "pretrain")
    assert kobert("pretrain", tiny.recipe, "--run-dir", other, "--set", f"pretrain.total_tokens={total}").code == 0
    expected = tiny.manifests(other)["pretrain"]
    assert (fitted["fingerprint"], fitted["files"]) == (expected["fingerprint"], expected["files"])
    # every later command knows the budget, and none measures again
    assert "skipped  pretrain" in kobert(*arguments).err
    assert "skipped  pretrain" in kobert(*arguments, "--minutes", 5, "--fit").err
    states = kobert("status", tiny.recipe, "--run-dir", run_dir, "--json").json["stages"]
    assert next(row["status"] for row in states if row["job"] == "pretrain") == "done"
    assert len(measured) == 1
    assert not measured[0].exists()
    assert "total_tokens was" in kobert(*arguments, *OWN).complaint


def test_a_fitted_training_is_resumed_with_its_budget(tiny, run_dir, measured, kobert) -> None:
    arguments = ("pretrain", tiny.recipe, "--run-dir", run_dir, "--minutes", 5, "--fit")
    assert kobert(*arguments, "--set", "pretrain.plan.max_minutes=1e-9").code == 75
    assert (run_dir / "pretrain" / "started.json").is_file()
    assert kobert(*arguments).code == 0
    assert len(measured) == 1
    resumed = tiny.manifests(run_dir)["pretrain"]
    assert resumed["fit"]["total_tokens"] == resumed["options"]["total_tokens"] <= 27_000


def test_redo_without_fit_has_the_budget_of_the_recipe(tiny, run_dir, measured, kobert) -> None:
    arguments = ("pretrain", tiny.recipe, "--run-dir", run_dir)
    assert kobert(*arguments, "--minutes", 5, "--fit").code == 0
    assert kobert(*arguments, "--redo").code == 0
    redone = tiny.manifests(run_dir)["pretrain"]
    assert redone["options"]["total_tokens"] == 60_000
    assert "fit" not in redone
    assert "was started without --fit" in kobert(*arguments, "--minutes", 5, "--fit").complaint


def test_fit_needs_a_time_and_one_process(tiny, run_dir, measured, kobert, monkeypatch) -> None:
    arguments = ("pretrain", tiny.recipe, "--run-dir", run_dir, "--fit")
    assert "add --minutes N" in kobert(*arguments).complaint
    assert "does not suffice" in kobert(*arguments, "--minutes", 0.5).complaint
    monkeypatch.setattr(fit, "is_distributed", lambda: True)
    assert "a single process" in kobert(*arguments, "--minutes", 5).complaint
    assert not (run_dir / "pretrain").exists()


@pytest.mark.parametrize(("seconds", "lines"), [(1000.0, 6), (0.0, 2)])
def test_measuring_takes_steps_in_every_phase_and_leaves_nothing(
    seconds: float, lines: int, tiny, run_dir, tmp_path
) -> None:
    content = recipe_file.load(str(tiny.recipe), [])
    content["pretrain"]["phases"] = [{"share": 0.5, "max_length": 64}, {"share": 0.5, "batch_tokens": 1024}]
    recipe = Recipe.model_validate(content)
    speed = fit.measure(recipe, Run("tiny", tmp_path, run_dir), seconds, tmp_path / "out")
    assert 1e-7 < speed.seconds_per_token < 0.1
    assert 1024 / 1.1 < speed.tokens_per_step < 2048 * 1.1
    assert speed.start_seconds > 0
    assert speed.evaluation_seconds > 0
    logs = [(tmp_path / "out" / "second" / phase / "logs" / "log.jsonl").read_text() for phase in ("0", "1")]
    assert [log.count("learning_rate") for log in logs] == [lines, lines]
    assert not (run_dir / "pretrain").exists()


@pytest.mark.parametrize(("evaluate_every", "evaluations"), [(None, 12), (40, 2 + 500 / 40), (100, 7)])
def test_the_budget_fills_the_time(evaluate_every: int | None, evaluations: float) -> None:
    speed = Speed(seconds_per_token=1e-4, tokens_per_step=2000, start_seconds=20.0, evaluation_seconds=1.5)
    seconds = (20 + evaluations * 1.5 + 500 * 2000 * 1e-4) / fit.USED_SHARE
    assert speed.tokens_in(seconds, evaluate_every) == pytest.approx(1_000_000, rel=1e-5)
    with pytest.raises(UserError, match="does not suffice"):
        speed.tokens_in(20 / fit.USED_SHARE, evaluate_every)
