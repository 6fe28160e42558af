"""Fine-tunings that train another fine-tuning's model further."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy
from transformers import BertForSequenceClassification

from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.model import TaskModule, build
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pipeline.stages import plan as pipeline_plan


def test_the_model_is_that_of_the_same_seed_or_of_the_first(tiny: Any, tmp_path: Path) -> None:
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    recipe["finetune"] = {
        "nsmc": {"seeds": [4, 2], "baseline": "none"},
        "again": {"features": "nsmc", "init": "nsmc", "seeds": [2, 3], "plan": {"learning_rate": [1e-4, 2e-4]}},
        "korquad": {"init": "again", "seeds": [3]},
    }
    path = tmp_path / "chain.yaml"
    path.write_text(yaml.safe_dump(recipe | {"publish": {}}, allow_unicode=True, sort_keys=False), encoding="utf-8")
    run_dir = tmp_path / "run"
    _, jobs = pipeline_plan(str(path), [], run_dir, None)
    expected = {
        "nsmc/4": "pretrain", "nsmc/2": "pretrain", "again/grid/learning_rate=0.0001": "finetune/nsmc/2",
        "again/grid/learning_rate=0.0002": "finetune/nsmc/2", "again/2": "finetune/nsmc/2",
        "again/3": "finetune/nsmc/4", "korquad/3": "finetune/again/3",
    }  # fmt: skip
    tunings = {job.name: job for job in jobs if job.stage == "finetune"}
    assert set(tunings) == set(expected)
    for name, start in expected.items():
        assert (run_dir / start / "model").absolute() in tunings[name].run.args, name
        assert start in {str(folder.relative_to(run_dir)) for folder in tunings[name].inputs.values()}, name


def test_weights_are_kept_and_a_head_for_other_labels_is_made_anew(pretrained: Path, tmp_path: Path) -> None:
    plan = FinetunePlan()
    torch.manual_seed(1)
    build(Task.choose("nsmc"), pretrained, False, plan, 32).save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    same = build(Task.choose("nsmc"), tmp_path, False, plan, 32).state_dict()
    assert all(torch.equal(same[name], weight) for name, weight in saved.items())
    three = Task.choose({"name": "classification", "labels": ["a", "b", "c"]})
    other = build(three, tmp_path, False, plan, 32).state_dict()
    changed = {name for name, weight in saved.items() if not torch.equal(other[name], weight)}
    assert changed == {"classifier.weight", "classifier.bias"}
    two = Task.choose({"name": "classification", "labels": ["positive", "negative"]})
    other = build(two, tmp_path, False, plan, 32).state_dict()
    assert {name for name, weight in saved.items() if not torch.equal(other[name], weight)} == {"classifier.weight"}


def test_the_loss_is_that_of_the_new_task(pretrained: Path, tmp_path: Path) -> None:
    """Also where the model was fine-tuned for a regression, or for several labels at once."""
    task = Task.choose({"name": "classification", "labels": ["a", "b", "c", "d"]})
    ids = torch.arange(5, 13).reshape(4, 2)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.arange(4)}
    for number, changes in enumerate(({"problem_type": "regression", "num_labels": 1},
                                      {"problem_type": "multi_label_classification", "num_labels": 4})):  # fmt: skip
        before = BertForSequenceClassification.from_pretrained(pretrained, **changes)
        before.save_pretrained(tmp_path / str(number))
        model = build(task, tmp_path / str(number), False, FinetunePlan(), 32).eval()
        with torch.no_grad():
            expected = cross_entropy(model(batch["input_ids"]).logits, batch["labels"])
            torch.testing.assert_close(TaskModule(model)(batch)[0], expected)


def test_training_files_of_all_fine_tunings_count_for_the_licence(tiny: Any) -> None:
    """Those of the model that another starts from, and those of the model that its teacher started from."""
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    recipe["publish"] = {"nsmc": {"source": "nsmc", "permission": "a test", "onnx": False}}

    def used(first: dict[str, Any], nsmc: dict[str, Any]) -> list[str]:
        loaded = Recipe.model_validate(
            recipe | {"finetune": {"first": {"features": "korquad"}} | first | {"nsmc": nsmc}}
        )
        return [row["path"] for row in loaded.training_files(loaded.publish["nsmc"]) if row["use"] == "fine-tune"]

    alone = used({}, {})
    assert alone == [str(recipe["features"]["nsmc"]["train"])]
    both = [str(recipe["features"]["korquad"]["train"]), *alone]
    assert used({}, {"init": "first"}) == both
    teacher = {"teacher": {"features": "nsmc", "init": "first"}}
    assert sorted(used(teacher, {"distill": {"teachers": ["teacher"]}})) == sorted(both)


def test_a_start_that_cannot_be_is_refused(tiny: Any) -> None:
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8")) | {"publish": {}}
    for changes, said in (
        ({"nsmc": {"init": "nsmc"}}, "init is 'nsmc', which is neither pretrained nor scratch nor an earlier"),
        ({"nsmc": {"init": "pretraind"}}, "did you mean 'pretrained'"),
        ({"nsmc": {"ngrams": {}}, "qa": {"features": "korquad", "init": "nsmc"}}, "earlier fine-tuning of an encoder"),
    ):
        with pytest.raises(ValueError, match=said):
            Recipe.model_validate(recipe | {"finetune": changes})
