"""How long the unfinished jobs of a run take: an entry for each, by speeds that are given or measured."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from kobert_pipeline.cli.formatting import rounded_time
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.stage import FinetuneOptions
from kobert_pipeline.pipeline import duration
from kobert_pipeline.pipeline.duration import Durations, expect, sizes_of
from kobert_pipeline.pipeline.run import data_folder
from kobert_pipeline.pipeline.speed import TrainingSpeed, finetuning_speed, pretraining_speed
from kobert_pipeline.pipeline.stages import plan
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.objective import Objective
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.progress import Display, shown_on
from kobert_pipeline.runs.displays import ProgressLines

SMALL = Bert(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, max_position_embeddings=64)
FINISHED = {"corpus", "analysis", "tokenizer", "shards", "features nsmc", "features korquad"}


@pytest.fixture
def fixed_speeds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Speeds that do not depend on the machine; the names of those that were asked for."""
    asked: list[str] = []

    def fixed(name: str, value: Any) -> None:
        def measured(*arguments: Any) -> Any:
            asked.append(name)
            return value

        monkeypatch.setattr(duration, name, measured)

    fixed("slowness", 1.0)
    fixed("characters_per_second", 50_000.0)
    fixed("pretraining_speed", TrainingSpeed(1e-3, 0.5, 2e-4))
    fixed("finetuning_speed", TrainingSpeed(2e-3, 0.1, 3e-4))
    return asked


def check(kobert: Any, tiny: Any, run_dir: Path, *options: Any) -> dict[str, Any]:
    result = kobert("check", tiny.recipe, "--run-dir", run_dir, *options, "--json")
    return json.loads(result.out)["duration"]


def test_each_unfinished_job_has_an_estimate_and_a_finished_one_has_none(tiny, tmp_path, kobert, fixed_speeds) -> None:
    new = check(kobert, tiny, tmp_path / "new", "--time")["seconds"]
    assert list(new) == [job.title for job in plan(str(tiny.recipe), None, tmp_path, None)[1]]
    assert all(seconds > 0 for seconds in new.values())
    begun = check(kobert, tiny, tiny.copy_before(tmp_path / "begun", "pretrain"), "--time")["seconds"]
    assert {title for title, seconds in begun.items() if seconds == 0} == FINISHED
    assert begun["finetune nsmc/1"] == pytest.approx(new["finetune nsmc/1"], rel=0.3), "estimated, then counted tokens"


def test_an_estimate_without_the_option_is_not_made(tiny, tmp_path, kobert, fixed_speeds) -> None:
    shown = kobert("check", tiny.recipe, "--run-dir", tmp_path / "new").out
    assert "unfinished jobs take" not in shown
    assert not fixed_speeds


def test_a_given_speed_takes_the_place_of_what_is_measured(tiny, tmp_path, kobert, fixed_speeds) -> None:
    options = plan(str(tiny.recipe), None, tmp_path, None)[0].pretrain
    slow, fast = (check(kobert, tiny, tmp_path / "new", "--tokens-per-second", rate) for rate in (100, 200))
    assert not {"pretraining_speed", "finetuning_speed"} & set(fixed_speeds)
    assert (slow["tokens_per_second"], fast["tokens_per_second"]) == (100, 200)
    trained = slow["seconds"]["pretrain"] - fast["seconds"]["pretrain"]
    assert options.total_tokens / 200 <= trained <= 1.5 * options.total_tokens / 200
    assert slow["seconds"]["corpus"] == fast["seconds"]["corpus"]
    shown = kobert("check", tiny.recipe, "--run-dir", tmp_path / "new", "--tokens-per-second", 100).out
    assert "The unfinished jobs take about " in shown
    assert ", by 100 tokens/s in trainings and speeds measured on this machine in " in shown


def test_sizes_are_about_those_of_the_features(tiny, tmp_path) -> None:
    recipe, planned = plan(str(tiny.recipe), None, tiny.run_dir, None)
    data_dir = data_folder(str(tiny.recipe), recipe.data_dir)
    for name in recipe.features:
        estimated, counted = sizes_of(recipe.features[name], data_dir), Durations(recipe, data_dir, planned).sizes(name)
        for split, size in counted.items():
            assert estimated[split].windows == pytest.approx(size.windows, rel=0.5), (name, split)
            assert estimated[split].tokens == pytest.approx(size.tokens, rel=0.5), (name, split)


class Recorder(Display):
    def __init__(self) -> None:
        self.expected: dict[str, float] = {}

    def expect(self, seconds: dict[str, float]) -> None:
        self.expected = seconds


@pytest.mark.parametrize(("redo", "finished"), [([], FINISHED), (["corpus"], FINISHED - {"corpus"})])
def test_a_run_with_trainings_of_minutes_tells_the_display(
    redo: list[str], finished: set[str], tiny, tmp_path, fixed_speeds, monkeypatch
) -> None:
    monkeypatch.setattr(duration, "LONG", 0)
    recipe, planned = plan(str(tiny.recipe), None, tiny.copy_before(tmp_path / "run", "pretrain"), None)
    with shown_on(display := Recorder()):
        expect(str(tiny.recipe), recipe, planned, planned[:-1], None, redo)
    assert list(display.expected) == [job.title for job in planned[:-1]]
    assert {title for title, seconds in display.expected.items() if not seconds} == finished


def test_what_is_measured_before_a_run_leaves_its_results_as_they_are(tiny, tmp_path, kobert, monkeypatch) -> None:
    expected_jobs: list[str] = []
    monkeypatch.setattr(duration, "LONG", 0)
    monkeypatch.setattr(ProgressLines, "expect", lambda self, seconds: expected_jobs.extend(seconds))
    run_dir = tiny.copy_before(tmp_path / "run", "pretrain")
    assert kobert("run", tiny.recipe, "--run-dir", run_dir, "--until", "finetune").code == 0
    assert "pretrain" in expected_jobs
    expected, made = tiny.manifests(), tiny.manifests(run_dir)
    for name in ("pretrain", "finetune/nsmc/1", "finetune/korquad/1"):
        weights = "model/model.safetensors"
        assert made[name]["files"][weights] == expected[name]["files"][weights]


def test_a_short_run_measures_nothing(tiny, tmp_path, fixed_speeds) -> None:
    recipe, planned = plan(str(tiny.recipe), None, tmp_path / "run", None)
    with shown_on(display := Recorder()):
        expect(str(tiny.recipe), recipe, planned, planned, None, [])
    assert not display.expected
    assert not fixed_speeds


@pytest.mark.parametrize("objective", Objective.names())
def test_the_speed_of_every_objective_is_measured(objective: str) -> None:
    chosen = Objective.choose(objective)
    sizes = SMALL.model_dump(exclude={"name"}, exclude_none=True)
    kind = next(name for name in Architecture.names() if chosen.head in Architecture.variant(name).heads)
    architecture = Architecture.choose({"name": kind} | sizes)
    # fewer tokens than a batch, as where word vectors are all of the training
    options = PretrainOptions(
        objective=chosen, architecture=architecture, max_length=64, batch_tokens=256, total_tokens=100
    )
    before = torch.get_rng_state()
    assert min(pretraining_speed(options, architecture.config(500))) > 0
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("task", ["nsmc", "korquad", "ner", "choice", "contrastive"])
def test_the_speed_of_every_kind_of_task_is_measured(task: str) -> None:
    options = FinetuneOptions()
    before = torch.get_rng_state()
    assert min(finetuning_speed(options, Task.choose(task), 32, 24, SMALL.config(500))) > 0
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 seconds"), (75, "75 seconds"), (1300, "22 minutes"), (9000, "2.5 hours")]
)
def test_times_are_rounded_to_what_is_known(seconds: float, text: str) -> None:
    assert rounded_time(seconds) == text
