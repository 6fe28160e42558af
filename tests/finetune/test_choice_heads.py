"""Choices with every architecture: the loss against a plain one, the order of the candidates, and which have no such
head."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from kobert_pipeline.config import plugins
from kobert_pipeline.features.format import Features, flatten, row_starts
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.batching import Batches
from kobert_pipeline.finetune.model import TaskModule, build, logits, predict
from kobert_pipeline.finetune.plan import FinetunePlan

ARCHITECTURES = plugins.contract("architectures")
TAKING = [
    name
    for name in ARCHITECTURES.names()
    if "AutoModelForMultipleChoice" not in ARCHITECTURES.variant(name).unsupported_heads
]
VOCAB_SIZE, CHOICES = 120, 3
SMALL = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}


def examples_of(count: int) -> Features:
    """Windows of random tokens; the right candidate holds token 7, the others don't."""
    rng = np.random.default_rng(0)
    ids, labels = [], rng.integers(0, CHOICES, count)
    for label in labels:
        for choice in range(CHOICES):
            inner = rng.integers(20, VOCAB_SIZE, rng.integers(3, 12)).tolist()
            ids.append([2, *inner, 3, *([7] if choice == label else [8]), *inner[:2], 3])
    types = [[0] * (len(row) - 3) + [1] * 3 for row in ids]
    arrays = {
        "windows": row_starts(ids),
        "input_ids": flatten(ids, np.int32),
        "token_type_ids": flatten(types, np.uint8),
    }
    return Features(
        arrays | {"labels": labels, "choices": np.array(CHOICES)}, [{"label": int(label)} for label in labels]
    )


def pretrained(name: str, folder: Path) -> Path:
    torch.manual_seed(0)
    sizes = ARCHITECTURES.choose({"name": name, **SMALL})
    sizes.save(sizes.model(sizes.config(VOCAB_SIZE), next(iter(sizes.heads))), folder)
    return folder


@pytest.fixture(params=TAKING)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    folder = pretrained(request.param, tmp_path / "pretrained")
    torch.manual_seed(5)
    return build(Task.choose("choice"), folder, False, FinetunePlan(dropout=0.0), max_length=64)


def test_the_heads_that_an_architecture_says_to_lack_are_those_that_transformers_lacks() -> None:
    """For the class of every task there is."""
    for name in ARCHITECTURES.names():
        architecture, tasks = ARCHITECTURES.variant(name)(), plugins.contract("tasks")
        classes = {tasks.variant(task).auto_class for task in tasks.names()}
        assert len(classes) >= 3
        for auto in classes:
            try:
                with torch.device("meta"):
                    getattr(transformers, auto).from_config(architecture.config(VOCAB_SIZE))
            except ValueError as error:
                assert "Unrecognized configuration class" in str(error) and auto in architecture.unsupported_heads
            else:
                assert auto not in architecture.unsupported_heads


def test_loss_and_scores_of_a_batch_equal_the_candidates_one_by_one(model: Any) -> None:
    features, task = examples_of(10), Task.choose("choice")
    model.eval()
    segments = getattr(model.config, "type_vocab_size", 1) > 1
    alone = []
    for begin, end in zip(features.arrays["windows"], features.arrays["windows"][1:], strict=False):
        given = {
            name: torch.from_numpy(features.arrays[name][begin:end].astype(np.int64))[None, None]
            for name in ("input_ids", "token_type_ids")
        }
        given["attention_mask"] = torch.ones_like(given["input_ids"])
        with torch.no_grad():
            alone.append(
                model(**{name: given[name] for name in given if segments or name != "token_type_ids"}).logits.item()
            )
    expected = np.array(alone).reshape(-1, CHOICES)
    found = logits(model, features, 4, "cpu")["logits"]
    np.testing.assert_allclose(np.stack(found), expected, atol=1e-5)
    assert predict(model, task, features, "cpu", batch_size=3).predictions == expected.argmax(1).tolist()
    whole = Batches(features, task.targets(features), len(features), seed=1).batch(0, 0, 1)
    with torch.no_grad():
        loss, _ = TaskModule(model)(whole)
    right = torch.tensor(expected).log_softmax(-1)[torch.arange(10), torch.tensor(features.arrays["labels"])]
    assert loss.item() == pytest.approx(-right.mean().item(), abs=1e-5)


def test_parts_of_a_step_add_up_to_its_loss(model: Any) -> None:
    features, task = examples_of(11), Task.choose("choice")
    batches = Batches(features, task.targets(features), 11, seed=1)
    module = TaskModule(model.eval())
    with torch.no_grad():
        whole, *parts = (
            module(batch)[0].item() for batch in [batches.batch(0, 0, 1), *(batches.batch(0, i, 4) for i in range(4))]
        )
    assert sum(parts) == pytest.approx(whole, abs=1e-5)


def test_the_right_candidate_is_learned(model: Any) -> None:
    features, task = examples_of(60), Task.choose("choice")
    batches = Batches(features, task.targets(features), 15, seed=1)
    module = TaskModule(model.train())
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3)
    before = predict(model, task, features, "cpu", batch_size=30).scores["accuracy"]
    for step in range(60):
        optimizer.zero_grad()
        module.train()(batches.batch(step, 0, 1))[0].backward()
        optimizer.step()
    assert before < 70
    assert predict(model, task, features, "cpu", batch_size=30).scores["accuracy"] > 90


def test_an_architecture_without_the_head_is_refused_before_anything_is_made(
    tiny: Any, kobert: Any, data_copy: Path
) -> None:
    settings = [
        "features.choice={task: choice, train: qa_train.json}", "finetune.choice={}", "publish={}",
        "pretrain.architecture={name: gpt2}", "pretrain.objective=clm",
    ]  # fmt: skip
    arguments = [part for setting in settings for part in ("--set", setting)]
    said = kobert("check", tiny.recipe, *arguments).complaint
    assert (
        "finetune.choice uses the task choice, for which gpt2 has no head (transformers' "
        "AutoModelForMultipleChoice)" in said
    )
