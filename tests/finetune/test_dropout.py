"""The plan's dropout is used in every architecture with the head of every kind of task."""

from itertools import product
from pathlib import Path

import torch
import transformers

from kobert_pipeline.config import plugins
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.feature_based import FeatureBasedModel
from kobert_pipeline.finetune.model import build, drop_unsupported_inputs
from kobert_pipeline.finetune.plan import FinetunePlan

ARCHITECTURES, TASKS = plugins.contract("architectures"), plugins.contract("tasks")
KINDS = {TASKS.variant(name).auto_class: name for name in TASKS.names()}
"""A task for each class of model."""
PAIRS = [
    (name, task)
    for name, (auto, task) in product(ARCHITECTURES.names(), KINDS.items())
    if auto not in ARCHITECTURES.variant(name).unsupported_heads
]
SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}


def tuned(
    name: str, task: str, dropout: float, folder: Path, from_scratch: bool = False, frozen: bool = False
) -> torch.nn.Module:
    """A small model of an architecture with the task's head, in training mode."""
    torch.manual_seed(0)
    sizes = ARCHITECTURES.choose({"name": name, **SMALL})
    sizes.save(sizes.model(sizes.config(120), next(iter(sizes.heads))), folder)
    labels = {"labels": ["가", "나"]} if "labels" in TASKS.variant(task).model_fields else {}
    return build(
        Task.choose({"name": task, **labels}), folder, from_scratch, FinetunePlan(dropout=dropout), 64, frozen
    ).train()


def passed(model: torch.nn.Module, seed: int) -> list[torch.Tensor]:
    """What a pass over fixed tokens gives with this seed of dropout: a text of twelve, or the windows of three
    choices."""
    torch.manual_seed(seed)
    shape = (1, 3, 12) if "MultipleChoice" in type(model).__name__ else (1, 12)
    ids = torch.arange(5, 5 + torch.Size(shape).numel()).reshape(shape)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    return [
        value.detach()
        for value in model(**drop_unsupported_inputs(model, batch)).values()
        if isinstance(value, torch.Tensor)
    ]


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return bool(one) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def dropouts(model: torch.nn.Module) -> dict[str, float]:
    """The rate of every dropout in the model."""
    return {name: module.p for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout)}


def of_weights(name: str) -> bool:
    """Whether a dropout is that of attention weights, which a plan leaves off."""
    return name.endswith(("attention.self.dropout", "attention_dropout", "attn_dropout"))


def test_every_kind_of_head_is_tried() -> None:
    assert len(KINDS) >= 4 and len(PAIRS) > 3 * len(ARCHITECTURES.names())


def test_without_dropout_two_passes_are_equal(tmp_path: Path) -> None:
    for number, ((name, task), from_scratch) in enumerate(product(PAIRS, [False, True])):
        place = tmp_path / str(number)
        place.mkdir()
        model = tuned(name, task, 0.0, place, from_scratch)
        assert set(dropouts(model).values()) <= {0.0}, (from_scratch, name, task)
        assert equal(passed(model, 1), passed(model, 2)), (from_scratch, name, task)


def test_the_plan_s_dropout_is_that_of_hidden_states_and_of_the_head(tmp_path: Path) -> None:
    for number, (name, task) in enumerate(PAIRS):
        place = tmp_path / str(number)
        place.mkdir()
        model = tuned(name, task, 0.3, place / "pretrained")
        rates = dropouts(model)
        assert {rate for place, rate in rates.items() if of_weights(place)} <= {0.0}, (name, task)
        assert {rate for place, rate in rates.items() if not of_weights(place)} == {0.3}, (name, task)
        assert not equal(passed(model, 1), passed(model, 2)), (name, task)
        model.save_pretrained(place / "saved")
        again = getattr(transformers, TASKS.variant(task).auto_class).from_pretrained(place / "saved")
        assert dropouts(again) == rates, (name, task)


def test_a_distilbert_has_the_plan_s_dropout_too(tmp_path: Path) -> None:
    """Of other packages' models it is the one whose config has names of its own."""
    config = transformers.DistilBertConfig(vocab_size=50, dim=16, n_layers=1, n_heads=2, hidden_dim=32)
    transformers.DistilBertModel(config).save_pretrained(tmp_path)
    for task in ("acceptability", "korquad", "ner"):
        model = build(Task.choose(task), tmp_path, False, FinetunePlan(dropout=0.3), 64)
        found = {name: module.p for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout)}
        assert {p for name, p in found.items() if "attention" not in name} == {0.3}, (task, found)


def test_a_model_over_a_frozen_encoder_drops_its_own_states_alone(tmp_path: Path) -> None:
    for number, (task, dropout) in enumerate(product(["ner", "nsmc"], [0.0, 0.3])):
        place = tmp_path / str(number)
        place.mkdir()
        model = tuned("bert", task, dropout, place, frozen=True)
        assert isinstance(model, FeatureBasedModel) and not model.encoder.training, dropout
        assert (model.dropout.p, model.lstm.dropout) == (dropout, dropout), dropout
        assert equal(passed(model, 1), passed(model, 2)) == (dropout == 0), dropout
