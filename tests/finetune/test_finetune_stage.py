"""Fine-tuning end to end on the bundled data with a tiny random model."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from sgd import train_by_sgd
from sklearn.metrics import accuracy_score

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json_lines, read_json_with_digest, sha256, write_json, write_json_with_digest
from kobert_pipeline.finetune import stage
from kobert_pipeline.finetune.batching import Batches
from kobert_pipeline.finetune.model import predict
from kobert_pipeline.training.evaluations import read_evaluations
from kobert_pipeline.training.loop import Stopped

PLANS = {
    "nsmc": {"epochs": 3, "batch_size": 16, "learning_rate": 5e-3},
    "korquad": {"epochs": 2, "batch_size": 8, "learning_rate": 5e-3},
}


def options(name: str = "nsmc", weights: str = "pretrained", **plan: Any) -> stage.FinetuneOptions:
    return stage.FinetuneOptions(init=weights, plan={**PLANS[name], "checkpoint_every": 4, **plan})


def unlike_loss(counts: dict[str, Any]) -> dict[str, Any]:
    """The counts without the train loss, which tests/training tests."""
    return {key: value for key, value in counts.items() if key != "train_loss"}


@pytest.fixture(scope="module", params=["nsmc", "korquad"])
def finished(
    request: pytest.FixtureRequest, prepared: Path, pretrained: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """(task name, counts, folder) of a run that was never stopped."""
    out = tmp_path_factory.mktemp(request.param)
    return request.param, stage.run(options(request.param), 1, prepared / request.param, pretrained, out), out


@pytest.mark.parametrize("name", ["sts", "regression", "choice", "contrastive"])
def test_without_a_test_set_dev_is_not_predicted_for_tasks_without_classes(name: str, tmp_path: Path) -> None:
    assert stage.final_evaluation(Task.choose(name), tmp_path, tmp_path) == {}


@pytest.mark.parametrize(("name", "max_tokens"), [("nsmc", 100), ("korquad", 200)])
def test_steps_in_parts_train_what_whole_batches_do(
    name: str, max_tokens: int, prepared: Path, pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_by_sgd(monkeypatch)
    counts, plain = [], Batches.parts_at
    monkeypatch.setattr(Batches, "parts_at", lambda *given: (counts.append(plain(*given)), counts[-1])[1])
    for place, limit in [("whole", None), ("parts", max_tokens)]:
        chosen = options(name, epochs=1, dropout=0.0, max_tokens_per_device=limit)
        stage.run(chosen, 1, prepared / name, pretrained, tmp_path / place)
    assert max(counts) > 2
    weights, expected = (load_file(tmp_path / place / "model" / "model.safetensors") for place in ("parts", "whole"))
    torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-5)


def test_scores_are_of_dev_and_test_and_belong_to_the_best_epoch(finished: Any, prepared: Path) -> None:
    name, counts, out = finished
    evaluations = read_evaluations(out / "evaluations.json")
    per_epoch = -(-len(Features.load(prepared / name / "train")) // PLANS[name]["batch_size"])
    metric = Task.choose(name).metric
    assert list(evaluations) == [per_epoch * epoch for epoch in range(1, PLANS[name]["epochs"] + 1)]
    assert counts["steps"] == max(evaluations)
    best = max(values[metric] for values in evaluations.values())
    assert counts["best_step"] == min(step for step, values in evaluations.items() if values[metric] == best)
    assert counts["dev"] == evaluations[counts["best_step"]]
    assert counts["test"].keys() == counts["dev"].keys()


def test_the_saved_model_loads_and_is_the_one_that_was_scored(finished: Any, prepared: Path) -> None:
    name, counts, out = finished
    task, dev, test = Task.choose(name), *(Features.load(prepared / name / split) for split in ("dev", "test"))
    model = getattr(transformers, task.auto_class).from_pretrained(out / stage.MODEL)
    assert predict(model, task, dev, "cpu", batch_size=8).scores == pytest.approx(counts["dev"], abs=1e-5)
    found = predict(model, task, test, "cpu", batch_size=8)
    predictions, scores = found.predictions, found.scores
    assert scores == pytest.approx(counts["test"], abs=1e-3)
    assert [row["prediction"] for row in read_json_lines(out / "predictions.jsonl")] == predictions


def test_predictions_have_one_row_per_test_example(finished: Any, prepared: Path) -> None:
    name, _, out = finished
    rows = read_json_lines(out / "predictions.jsonl")
    assert [row["id"] for row in rows] == [
        example["id"] for example in Features.load(prepared / name / "test").examples
    ]


@pytest.mark.parametrize("finished", ["nsmc"], indirect=True)
def test_the_accuracy_equals_scikit_learn_on_the_predictions_file(finished: Any, prepared: Path) -> None:
    name, counts, out = finished
    labels = [example["label"] for example in Features.load(prepared / name / "test").examples]
    given = [row["prediction"] for row in read_json_lines(out / "predictions.jsonl")]
    assert counts["test"]["accuracy"] == pytest.approx(100 * accuracy_score(labels, given), abs=1e-3)


def test_a_stopped_run_resumes_to_the_same_model_and_scores(
    finished: Any, prepared: Path, pretrained: Path, tmp_path: Path
) -> None:
    name, counts, out = finished
    for _ in range(counts["steps"] // 2):
        with pytest.raises(Stopped):
            stage.run(options(name, max_minutes=1e-9), 1, prepared / name, pretrained, tmp_path)
    resumed = stage.run(options(name), 1, prepared / name, pretrained, tmp_path)
    assert unlike_loss(resumed) == unlike_loss(counts)
    for file in (f"{stage.MODEL}/model.safetensors", "predictions.jsonl", "evaluations.json"):
        assert sha256(tmp_path / file) == sha256(out / file), file


@pytest.mark.parametrize("finished", ["nsmc"], indirect=True)
def test_a_best_epoch_measured_again_after_a_crash_is_saved_again(
    finished: Any, prepared: Path, pretrained: Path, tmp_path: Path
) -> None:
    """Killed after an evaluation and before any checkpoint: the scores are known, the weights are not."""
    name, counts, out = finished
    shutil.copy(out / "evaluations.json", tmp_path)
    assert unlike_loss(stage.run(options(name), 1, prepared / name, pretrained, tmp_path)) == unlike_loss(counts)
    assert sha256(tmp_path / stage.MODEL / "model.safetensors") == sha256(out / stage.MODEL / "model.safetensors")


def test_the_first_of_equally_good_epochs_is_kept(
    prepared: Path, pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = []

    def always_equal(model: Any, *others: Any, **more: Any) -> SimpleNamespace:
        heads.append(model.classifier.weight.detach().clone())
        return SimpleNamespace(scores={"accuracy": 50.0})

    monkeypatch.setattr("kobert_pipeline.finetune.train.predict", always_equal)
    counts = stage.run(options(), 1, prepared / "nsmc", pretrained, tmp_path)
    assert counts["best_step"] == counts["steps"] / PLANS["nsmc"]["epochs"]
    saved = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / stage.MODEL).classifier.weight
    assert torch.equal(saved, heads[0]) and not torch.equal(saved, heads[1])


@pytest.fixture
def stopped_without_model(prepared: Path, pretrained: Path, tmp_path: Path) -> Path:
    """A run with evaluations at its first two steps and a checkpoint after them, whose model folder is gone."""
    for _ in range(2):
        with pytest.raises(Stopped):
            stage.run(options(evaluate_every=1, max_minutes=1e-9), 1, prepared / "nsmc", pretrained, tmp_path)
    shutil.rmtree(tmp_path / stage.MODEL)
    return tmp_path


def measured(out: Path, *accuracies: float) -> None:
    """Put other accuracies into the evaluations of steps 1, 2, ..."""
    path = out / "evaluations.json"
    values = {str(step): {"accuracy": accuracy} for step, accuracy in enumerate(accuracies, 1)}
    write_json_with_digest(path, read_json_with_digest(path) | {"values": values})


def test_a_run_whose_model_was_deleted_resumes_and_saves_a_later_best(
    stopped_without_model: Path, prepared: Path, pretrained: Path
) -> None:
    measured(stopped_without_model, 0.0, 0.0)
    counts = stage.run(options(evaluate_every=1), 1, prepared / "nsmc", pretrained, stopped_without_model)
    assert counts["best_step"] > 2
    assert (stopped_without_model / stage.MODEL / "model.safetensors").is_file()


def test_a_deleted_model_that_no_later_step_beats_is_named_in_one_sentence(
    stopped_without_model: Path, prepared: Path, pretrained: Path
) -> None:
    measured(stopped_without_model, 100.0, 0.0)
    with pytest.raises(UserError, match=str(stopped_without_model / stage.MODEL)):
        stage.run(options(evaluate_every=1), 1, prepared / "nsmc", pretrained, stopped_without_model)


def test_pretrained_and_scratch_weights_and_seeds_give_different_models(
    prepared: Path, pretrained: Path, tmp_path: Path
) -> None:
    hashes = set()
    for folder, weights, seed in [("a", "pretrained", 1), ("b", "scratch", 1), ("c", "pretrained", 2)]:
        stage.run(options(weights=weights, epochs=1), seed, prepared / "nsmc", pretrained, tmp_path / folder)
        hashes.add(sha256(tmp_path / folder / stage.MODEL / "model.safetensors"))
    assert len(hashes) == 3


def test_the_same_seed_gives_the_same_model_bit_for_bit(prepared: Path, pretrained: Path, tmp_path: Path) -> None:
    counts = []
    for folder in ("a", "b"):
        torch.manual_seed(hash(folder) % 1000)  # whatever happened before in the process
        counts.append(stage.run(options(epochs=1), 7, prepared / "nsmc", pretrained, tmp_path / folder))
    assert counts[0] == counts[1]
    assert len({sha256(tmp_path / folder / stage.MODEL / "model.safetensors") for folder in ("a", "b")}) == 1


def test_without_a_test_set_there_are_no_predictions(prepared: Path, pretrained: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared / "nsmc", tmp_path / "features", ignore=shutil.ignore_patterns("test"))
    counts = stage.run(options(epochs=1), 1, tmp_path / "features", pretrained, tmp_path / "out")
    assert "test" not in counts
    assert not (tmp_path / "out" / "predictions.jsonl").exists()


def test_windows_longer_than_the_models_positions_are_refused(prepared: Path, pretrained: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared / "nsmc", tmp_path / "features")
    described = json.loads((tmp_path / "features" / "task.json").read_text())
    write_json(tmp_path / "features" / "task.json", {**described, "max_length": 97})
    with pytest.raises(UserError, match=r"97.*96 positions"):
        stage.run(options(), 1, tmp_path / "features", pretrained, tmp_path / "out")
