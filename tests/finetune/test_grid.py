"""Lists in a plan: every setting is tried with the first seed, the best on dev is selected, and only that one opens the
test set."""

import itertools
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, read_json_with_digest, write_json_with_digest
from kobert_pipeline.finetune import stage
from kobert_pipeline.finetune.plan import FinetunePlan, Plans
from kobert_pipeline.runs import manifest
from kobert_pipeline.training.evaluations import read_evaluations
from kobert_pipeline.training.loop import Stopped

GRID = {"learning_rate": [1e-3, 5e-3], "epochs": [1, 2], "batch_size": 16}
OPENED: list[str] = []
sys.addaudithook(lambda event, arguments: OPENED.append(str(arguments[0])) if event == "open" else None)


def test_settings_are_all_combinations_in_order() -> None:
    plan = Plans(learning_rate=[3e-4, 1e-4], epochs=[2, 3], dropout=0.3, keep_checkpoints=1)
    settings = plan.settings()
    assert list(settings) == [
        f"learning_rate={rate},epochs={epochs}" for rate, epochs in itertools.product([0.0003, 0.0001], [2, 3])
    ]
    assert settings["learning_rate=0.0001,epochs=3"] == FinetunePlan(
        learning_rate=1e-4, epochs=3, dropout=0.3, keep_checkpoints=1
    )
    assert all(type(setting) is FinetunePlan for setting in settings.values())


def test_a_plan_without_lists_and_a_list_of_one_are_what_they_were() -> None:
    assert (
        Plans(learning_rate=1e-4, epochs=3).dump()
        == Plans(learning_rate=[1e-4], epochs=[3]).dump()
        == FinetunePlan(epochs=3).dump()
    )
    assert Plans().settings() == {"": FinetunePlan()}


def test_lists_are_dumped_as_lists_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Plans(learning_rate=[1e-4, 2]).dump()["learning_rate"] == [1e-4, 2.0]


@pytest.mark.parametrize(
    "given",
    [
        {"learning_rate": [1e-4, 0]},
        {"epochs": []},
        {"epochs": [2, 2]},
        {"epochs": [2, 2.5]},
        {"batch_size": [8, 16]},
    ],
)
def test_lists_that_make_no_sense_are_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        Plans(**given)


def scored(folder: Path, *scores: float) -> Path:
    folder.mkdir()
    values = {str(step): {"accuracy": score} for step, score in enumerate(scores, 1)}
    write_json_with_digest(folder / "evaluations.json", {"values": values, "kept": {}})
    return folder


def test_the_setting_with_the_best_evaluation_is_chosen_and_the_first_of_equals(tmp_path: Path) -> None:
    options = stage.FinetuneOptions(plan={"learning_rate": [1e-3, 2e-3, 3e-3, 4e-3]})
    given = [(70.0, 80.0), (90.0, 60.0), (10.0, 90.0)]
    trials = {
        name: scored(tmp_path / name, *scores) for name, scores in zip(options.plan.settings(), given, strict=False)
    }  # fmt: skip
    assert (
        stage.chosen_plan(
            options, Task.choose("nsmc"), {**trials, "learning_rate=0.004": tmp_path / "diverged"}
        ).learning_rate
        == 2e-3
    )
    with pytest.raises(UserError, match="lower learning rates"):
        stage.chosen_plan(options, Task.choose("nsmc"), {"learning_rate=0.004": tmp_path / "diverged"})


def try_all(options: stage.FinetuneOptions, features: Path, pretrained: Path, out: Path) -> dict[str, Path]:
    trials = {name: out / "grid" / name for name in options.plan.settings()}
    for name, plan in options.plan.settings().items():
        stage.trial(options, plan, options.seeds[0], features, pretrained, trials[name])
    return trials


def test_trials_open_no_file_of_the_test_set(prepared: Path, pretrained: Path, tmp_path: Path) -> None:
    """Python reports every file that is opened, by whatever library; only the run with the chosen setting opens those
    of the test set."""
    features = Path(shutil.copytree(prepared / "nsmc", tmp_path / "features"))
    options = stage.FinetuneOptions(plan=GRID)
    OPENED.clear()
    trials = try_all(options, features, pretrained, tmp_path / "out")
    assert any(path.startswith(str(features / "dev")) for path in OPENED), "the hook does not see what is opened"
    assert not [path for path in OPENED if path.startswith(str(features / "test"))]
    OPENED.clear()
    counts = stage.run(options, 1, features, pretrained, tmp_path / "out" / "1", trials)
    assert [path for path in OPENED if path.startswith(str(features / "test"))]
    assert counts["test"]


def test_trials_need_no_test_set_and_leave_scores_and_no_model(
    prepared: Path, pretrained: Path, tmp_path: Path
) -> None:
    shutil.copytree(prepared / "nsmc", tmp_path / "features", ignore=shutil.ignore_patterns("test"))
    plan = FinetunePlan(epochs=1, batch_size=16)
    with_test = stage.trial(stage.FinetuneOptions(), plan, 1, prepared / "nsmc", pretrained, tmp_path / "a")
    without = stage.trial(stage.FinetuneOptions(), plan, 1, tmp_path / "features", pretrained, tmp_path / "b")
    assert with_test == without and "test" not in with_test
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["evaluations.json", "logs"]


def test_a_stopped_trial_resumes_to_the_same_scores(prepared: Path, pretrained: Path, tmp_path: Path) -> None:
    options = stage.FinetuneOptions(plan={**GRID, "checkpoint_every": 4})
    plan = options.plan.settings()["learning_rate=0.005,epochs=2"]
    whole = stage.trial(options, plan, 1, prepared / "nsmc", pretrained, tmp_path / "whole")
    with pytest.raises(Stopped):
        stage.trial(
            options, plan.model_copy(update={"max_minutes": 1e-9}), 1, prepared / "nsmc", pretrained, tmp_path / "cut"
        )
    assert stage.trial(options, plan, 1, prepared / "nsmc", pretrained, tmp_path / "cut") == whole
    assert (tmp_path / "cut" / "evaluations.json").read_bytes() == (
        tmp_path / "whole" / "evaluations.json"
    ).read_bytes()


def test_the_chosen_run_is_the_one_that_was_tried(prepared: Path, pretrained: Path, tmp_path: Path) -> None:
    options = stage.FinetuneOptions(plan=GRID)
    trials = try_all(options, prepared / "nsmc", pretrained, tmp_path)
    counts = stage.run(options, 1, prepared / "nsmc", pretrained, tmp_path / "1", trials)
    name = f"learning_rate={counts['learning_rate']},epochs={counts['epochs']}"
    assert read_evaluations(tmp_path / "1" / "evaluations.json") == read_evaluations(trials[name] / "evaluations.json")
    best = {
        name: max(one["accuracy"] for one in read_evaluations(at / "evaluations.json").values())
        for name, at in trials.items()
    }
    assert counts["dev"]["accuracy"] == best[name] == max(best.values())


def test_a_setting_that_diverges_is_not_selected_and_stops_no_other(
    prepared: Path, pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kobert_pipeline.finetune import train
    from kobert_pipeline.training.loop import NotFinite

    def diverging(*given: Any, **more: Any) -> Any:
        raise NotFinite("the loss is nan at step 3 (not taken); the batch is in a file")

    options = stage.FinetuneOptions(plan={"learning_rate": [1e-3, 2e-3], "epochs": 1, "batch_size": 16})
    settings = options.plan.settings()
    good, bad = settings
    stage.trial(options, settings[good], 1, prepared / "nsmc", pretrained, tmp_path / good)
    monkeypatch.setattr(train, "train", diverging)
    counts = stage.trial(options, settings[bad], 1, prepared / "nsmc", pretrained, tmp_path / bad)
    assert counts == {"not_finite": "the loss is nan at step 3 (not taken)"}
    assert (
        stage.chosen_plan(options, Task.choose("nsmc"), {bad: tmp_path / bad, good: tmp_path / good}) == settings[good]
    )
    (tmp_path / bad).mkdir(exist_ok=True)
    write_json_with_digest(
        tmp_path / bad / "evaluations.json", {"values": {"1": {"accuracy": 100.0}}, "kept": {}}
    )  # before it diverged it was the best
    stage.trial(options, settings[bad], 1, prepared / "nsmc", pretrained, tmp_path / bad)
    assert (
        stage.chosen_plan(options, Task.choose("nsmc"), {bad: tmp_path / bad, good: tmp_path / good}) == settings[good]
    )


@pytest.fixture(scope="module")
def gridded(tiny: Any, tmp_path_factory: pytest.TempPathFactory, kobert: Callable[..., Any]) -> tuple[Path, Path]:
    """The session's tiny run, fine-tuned anew with a grid and two seeds: (recipe, run folder)."""
    place = tmp_path_factory.mktemp("gridded")
    content = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    content["finetune"] = {
        "nsmc": {
            "seeds": [7, 8],
            "baseline": "none",
            "plan": {"learning_rate": [1e-4, 5e-3], "epochs": 1, "checkpoint_every": 3},
        }
    }
    content["publish"] = {"nsmc": {"source": "nsmc", "onnx": False}}
    path = place / "tiny.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    run_dir = tiny.copy_before(place / "runs" / "tiny", "finetune")
    assert kobert("status", path, "--run-dir", run_dir).code == 0
    result = kobert("run", path, "--run-dir", run_dir, "--until", "finetune")
    assert result.code == 0, result.err
    return path, run_dir


TRIALS = [f"finetune nsmc/grid/learning_rate={rate}" for rate in ("0.0001", "0.005")]


def jobs_of(result: Any) -> dict[str, str]:
    return {row["job"]: row["status"] for row in json.loads(result.out)["stages"] if row["job"].startswith("finetune")}


def test_a_run_with_a_grid_tests_the_chosen_setting_alone(gridded: tuple[Path, Path]) -> None:
    _, run_dir = gridded
    manifests = {
        path.parent.name: json.loads(path.read_text()) for path in sorted((run_dir / "finetune").rglob("manifest.json"))
    }
    assert set(manifests) == {"7", "8", "learning_rate=0.0001", "learning_rate=0.005"}
    for name, made in manifests.items():
        assert ("test" in made["counts"]) == name.isdigit()
        assert ("predictions.jsonl" in made["files"]) == name.isdigit()
    trials = {name: made for name, made in manifests.items() if not name.isdigit()}
    assert {made["options"]["seed"] for made in trials.values()} == {7}
    best = max(trials.values(), key=lambda made: made["counts"]["dev"]["accuracy"])
    assert (
        manifests["7"]["counts"]["learning_rate"]
        == manifests["8"]["counts"]["learning_rate"]
        == best["options"]["plan"]["learning_rate"]
    )


def test_a_finished_grid_is_done_shown_and_skipped(gridded: tuple[Path, Path], kobert: Callable[..., Any]) -> None:
    recipe, run_dir = gridded
    shown = jobs_of(kobert("status", recipe, "--run-dir", run_dir, "--json"))
    assert shown == dict.fromkeys([*TRIALS, "finetune nsmc/7", "finetune nsmc/8"], "done")
    again = json.loads(kobert("finetune", recipe, "--run-dir", run_dir, "--json").out)["stages"]
    assert [row["status"] for row in again] == ["skipped"] * 4
    compared = json.loads(kobert("compare", run_dir, "--json").out)["runs"]
    assert [(row["finetune"], row["seeds"], row["split"]) for row in compared] == [("nsmc", 2, "test")]
    folders = {
        path.parent.name: path for path in sorted((run_dir / "finetune" / "nsmc" / "grid").glob("*/manifest.json"))
    }
    assert compared[0]["tried_on_dev"] == {name: read_json(path)["counts"]["dev"] for name, path in folders.items()}


def test_a_longer_list_whose_choice_is_the_same_repeats_nothing(
    gridded: tuple[Path, Path], kobert: Callable[..., Any]
) -> None:
    recipe, run_dir = gridded
    more = ("--run-dir", run_dir, "--set", "finetune.nsmc.plan.learning_rate=[1e-4, 5e-3, 1e-7]")
    shown = jobs_of(kobert("status", recipe, *more, "--json"))
    assert [shown[name] for name in TRIALS] == ["done", "done"]
    assert shown["finetune nsmc/grid/learning_rate=1e-07"] == "missing"
    assert shown["finetune nsmc/7"] == "waiting: it reads finetune nsmc/grid/learning_rate=1e-07, which is missing"
    refused = kobert("publish", recipe, *more)
    assert refused.code == 2 and "learning_rate=1e-07 is not finished" in refused.complaint
    ran = {
        f"{row['stage']} {row['name']}": row["status"]
        for row in json.loads(kobert("finetune", recipe, *more, "--json").out)["stages"]
    }
    assert ran.pop("finetune nsmc/grid/learning_rate=1e-07") == "done"
    assert set(ran.values()) == {"skipped"} and len(ran) == 4


def test_where_another_setting_wins_only_the_seeds_run_again(
    gridded: tuple[Path, Path], kobert: Callable[..., Any]
) -> None:
    """The scores of the other setting are edited, so that it is the better one."""
    recipe, run_dir = gridded
    chosen = read_json(run_dir / "finetune" / "nsmc" / "7" / "manifest.json")["counts"]["learning_rate"]
    loser = (
        run_dir
        / "finetune"
        / "nsmc"
        / "grid"
        / f"learning_rate={next(rate for rate in (1e-4, 5e-3) if rate != chosen)}"
    )
    measured = read_evaluations(loser / "evaluations.json")
    better = {step: values | {"accuracy": 100.0} for step, values in measured.items()}
    write_json_with_digest(loser / "evaluations.json", {"values": better, "kept": {}})
    made = read_json_with_digest(loser / "manifest.json")
    write_json_with_digest(loser / "manifest.json", made | {"files": manifest.list_files(loser, made["writes"])})
    refused = kobert("run", recipe, "--run-dir", run_dir, "--until", "finetune")
    assert refused.code == 2
    assert (
        "its input setting that is best on dev has changed" in refused.complaint
        and "--redo finetune/nsmc/7 " in refused.complaint
    )
    redo = ("--redo", "finetune/nsmc/7", "--redo", "finetune/nsmc/8")
    ran = json.loads(kobert("run", recipe, "--run-dir", run_dir, "--until", "finetune", *redo, "--json").out)["stages"]
    assert {f"{row['stage']} {row['name']}": row["status"] for row in ran if row["status"] != "skipped"} == {
        "finetune nsmc/7": "done",
        "finetune nsmc/8": "done",
    }
    assert read_json(run_dir / "finetune" / "nsmc" / "7" / "manifest.json")["counts"]["learning_rate"] != chosen


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("finetune/nsmd", "the recipe has nothing called finetune/nsmd - did you mean 'finetune/nsmc'"),
        ("finetune/nsmc/9", "nothing called finetune/nsmc/9"),
        ("corpus/x", "nothing called corpus/x - did you mean 'corpus'? (allowed: corpus)"),
        ("fintune/nsmc", "there is no stage 'fintune' - did you mean 'finetune'"),
        ("", "there is no stage ''"),
    ],
)
def test_redo_of_what_the_recipe_has_not_is_refused(
    name: Any, said: Any, gridded: tuple[Path, Path], kobert: Callable[..., Any]
) -> None:
    recipe, run_dir = gridded
    refused = kobert("run", recipe, "--run-dir", run_dir, "--redo", name)
    assert refused.code == 2 and said in refused.complaint
