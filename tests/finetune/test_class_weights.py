"""Class weights: the weights of scikit-learn, the weighted cross-entropy of torch, whole and in parts, and what the
manifest and the card say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sklearn.utils.class_weight import compute_class_weight

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.batching import Batches
from kobert_pipeline.finetune.class_weights import label_weights
from kobert_pipeline.finetune.model import TaskModule, build
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

WEIGHTS = np.array([0.5, 3.0, 1.25], np.float32)


@pytest.mark.parametrize("labels", [[0, 0, 0, 1], [2, 0, 0, 2, 1, 0], [1, 1, IGNORE_INDEX, 2, 2, 2, IGNORE_INDEX]])
def test_balanced_weights_are_those_of_scikit_learn(labels: list[int]) -> None:
    array = np.array(labels)
    present = np.unique(array[array >= 0])
    weights = label_weights("balanced", array, ["가", "나", "다"])
    expected = compute_class_weight("balanced", classes=present, y=array[array >= 0])
    np.testing.assert_allclose(weights[present], expected, rtol=1e-6)
    assert all(weights[label] == 1 for label in range(3) if label not in present)


def test_weights_by_name_are_1_for_other_labels_and_refused_for_none() -> None:
    assert label_weights({"나": 3.0}, np.array([0, 1]), ["가", "나"]).tolist() == [1, 3]
    with pytest.raises(UserError, match="class_weights names '너', which is not a label of the task"):
        label_weights({"너": 3.0}, np.array([0, 1]), ["가", "나"])


def features_of(task: str) -> Features:
    """20 windows of 5 to 9 random tokens with labels of three classes, for texts or, with some left out, for tokens."""
    rng = np.random.default_rng(3)
    windows = np.cumsum([0, *rng.integers(5, 10, 20)])
    labels = rng.integers(0, 3, windows[-1] if task == "tagging" else 20).astype(np.int64)
    if task == "tagging":
        labels[rng.random(windows[-1]) < 0.2] = IGNORE_INDEX
    ids = rng.integers(10, 1000, windows[-1]).astype(np.int32)
    arrays = {"windows": windows, "input_ids": ids, "token_type_ids": np.zeros_like(ids, np.uint8), "labels": labels}
    return Features(arrays, [{}] * 20)


@pytest.mark.parametrize(
    "options",
    [{"name": "classification", "labels": ["가", "나", "다"]}, {"name": "tagging", "labels": ["곳"]}],
    ids=lambda options: options["name"],
)
def test_the_loss_is_the_weighted_cross_entropy_of_torch_also_in_parts(
    options: dict[str, Any], pretrained: Path
) -> None:
    task, features = Task.choose(options), features_of(options["name"])
    torch.manual_seed(1)
    model = build(task, pretrained, False, FinetunePlan(dropout=0.0), 48).eval()
    model.classifier.weight.data.mul_(50)  # a new head says nearly the same of every class
    module = TaskModule(model, WEIGHTS)
    batches = Batches(features, task.targets(features), 8, seed=1, class_weights=WEIGHTS)
    whole = batches.batch(0, 0, 1)
    inputs = {name: whole[name] for name in ("input_ids", "token_type_ids", "attention_mask")}
    logits = model(**inputs).logits
    loss = torch.nn.CrossEntropyLoss(weight=torch.from_numpy(WEIGHTS), ignore_index=IGNORE_INDEX)
    expected = loss(logits.flatten(0, -2), whole["labels"].flatten())
    plain = TaskModule(model)(whole)[0]
    parts = sum(module(batches.batch(0, part, 3))[0] for part in range(3))
    assert module(whole)[0].item() == pytest.approx(expected.item(), rel=1e-5)
    assert parts.item() == pytest.approx(expected.item(), rel=1e-5)
    assert abs(plain.item() - expected.item()) > 1e-3, "the weights change something"
    equal = Batches(features, task.targets(features), 8, seed=1, class_weights=np.ones(3, np.float32))
    same = TaskModule(model, np.ones(3, np.float32))(equal.batch(0, 0, 1))[0]
    assert same.item() == pytest.approx(plain.item(), rel=1e-6)


def test_weights_do_not_touch_soft_labels(pretrained: Path) -> None:
    task = Task.choose({"name": "classification", "labels": ["가", "나", "다"]})
    model = build(task, pretrained, False, FinetunePlan(dropout=0.0), 48).eval()
    features = features_of("classification")
    soft = np.random.default_rng(0).dirichlet([1, 1, 1], 20).astype(np.float32)
    batch = Batches(features, {"soft_labels": soft}, 8, seed=1).batch(0, 0, 1)
    assert TaskModule(model, WEIGHTS)(batch)[0].item() == TaskModule(model)(batch)[0].item()


@pytest.fixture(scope="module")
def recipe(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("weights")
    texts = [(f"{i}번째 손님이 왔다", "보통") for i in range(36)] + [
        (f"{i}번째 손님이 화를 냈다", "급함") for i in range(9)
    ]
    rows = "".join(f"{text},{label}\n" for text, label in texts)
    (place / "train.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    data = {"train": "train.csv", "dev_share": 0.2, "max_length": 32, "license": "CC0-1.0"}
    content = {
        "checkpoint": str(tiny.run_dir / "publish/mlm"), "data_dir": str(place),
        "features": {"visits": {"task": "classification", **data}},
        "finetune": {"visits": {"class_weights": "balanced", "plan": {"epochs": 1, "batch_size": 8}}},
        "publish": {"visits": {"source": "visits", "onnx": False}},
    }  # fmt: skip
    (place / "visits.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return place / "visits.yaml"


def test_the_manifest_and_the_card_say_the_weights(recipe: Path, kobert: Any, tiny: Any) -> None:
    run_dir = recipe.parent / "runs" / "visits"
    assert kobert("run", recipe, "--run-dir", run_dir).code == 0
    found = tiny.manifests(run_dir)
    labels = found["features/visits"]["counts"]["train_labels"]
    total = sum(labels.values())
    expected = {name: pytest.approx(total / 2 / count, abs=1e-4) for name, count in labels.items()}
    assert found["finetune/visits/1"]["counts"]["class_weights"] == expected
    card = (run_dir / "publish/visits/README.md").read_text(encoding="utf-8")
    [line] = [line for line in card.splitlines() if "class weights in the loss" in line]
    assert "balanced: 급함 " in line and json.dumps(round(total / 2 / labels["보통"], 4)) in line


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["finetune.visits.class_weights=balancd"], "finetune.visits.class_weights"),
        (["finetune.visits.class_weights={보통: 0}"], "the weight of '보통' must be a number above 0"),
        (
            ["finetune.visits.ngrams={}", "finetune.visits.plan={}"],
            "class_weights is for encoders, but ngrams trains none",
        ),
        (
            ["features.visits.task=multilabel"],
            "class_weights needs a task that gives a text or token one of several labels",
        ),
        (["features.visits.task=sts"], "class_weights needs a task that gives a text or token one of several labels"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(settings: list[str], message: str, recipe: Path, kobert: Any) -> None:
    arguments = [part for setting in settings for part in ("--set", setting)]
    assert message in kobert("check", recipe, *arguments).complaint
