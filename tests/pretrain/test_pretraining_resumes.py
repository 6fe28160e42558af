"""A pretraining that was stopped and resumed equals one that never was, bit for bit."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from synthetic_shards import articles, reviews, shards_of
from transformers import BertForPreTraining

from kobert_pipeline.files import sha256
from kobert_pipeline.pretrain import stage
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.objectives.mlm_nsp import MlmNsp
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.training.loop import Stopped, train
from kobert_pipeline.training.plan import Plan

STEPS = 12


class Crash(Exception):
    """Anything that ends a process."""


def pretrain(
    model: BertForPreTraining, plan: Plan, folder: Path, crash_at: int | None = None
) -> dict[str, torch.Tensor]:
    """The weights after `STEPS` steps on real batches, over more than one epoch."""
    module = LossModule(model, MlmNsp(), Bert())
    options = SimpleNamespace(objective=MlmNsp(), max_length=48, batch_tokens=256)
    loader = Loader(shards_of(articles(6), reviews(3)), options, 200, seed=plan.seed)
    assert loader.steps_per_epoch() < STEPS

    def batch_at(step: int, part: int, parts: int) -> Any:
        if step == crash_at:
            raise Crash
        return to_device(loader.batch(step), "cpu")

    train(module, batch_at, plan, STEPS, folder)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


EVERY_WAY = list(product(["crash", "max_minutes", "crash muon"], [0.0, 0.1], ["no", "bf16"]))
PAIRWISE = [
    ("crash", 0.0, "no"),
    ("crash", 0.1, "bf16"),
    ("max_minutes", 0.0, "bf16"),
    ("max_minutes", 0.1, "no"),
    ("crash muon", 0.0, "bf16"),
    ("crash muon", 0.1, "no"),
]


@pytest.mark.parametrize("cases", [PAIRWISE, pytest.param(EVERY_WAY, marks=pytest.mark.slow)], ids=["pairs", "all"])
def test_resumed_equals_never_stopped(
    cases: list[tuple[str, float, str]], tiny_bert: Callable[..., BertForPreTraining], tmp_path: Path
) -> None:
    for number, (way, dropout, mixed_precision) in enumerate(cases):
        place = tmp_path / str(number)
        place.mkdir()
        dropouts = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        optimizer = "muon" if way.endswith("muon") else "adamw"
        plan = Plan(mixed_precision=mixed_precision, checkpoint_every=4, learning_rate=5e-3, optimizer=optimizer)
        expected = pretrain(tiny_bert(**dropouts), plan, place / "whole")
        if way.startswith("crash"):
            with pytest.raises(Crash):
                pretrain(tiny_bert(**dropouts), plan, place / "cut", crash_at=7)
        else:
            for _ in range(5):
                with pytest.raises(Stopped):
                    pretrain(tiny_bert(**dropouts), plan.model_copy(update={"max_minutes": 1e-9}), place / "cut")
        other_process = tiny_bert(seed=99, **dropouts)  # other weights and another random state, as in a new process
        found = pretrain(other_process, plan, place / "cut")
        assert found.keys() == expected.keys(), (mixed_precision, dropout, way)
        assert all(torch.equal(found[name], expected[name]) for name in expected), (mixed_precision, dropout, way)


def options(**plan: Any) -> PretrainOptions:
    return PretrainOptions(
        architecture={"name": "bert", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2,
        "max_position_embeddings": 48},
        max_length=48, batch_tokens=256, total_tokens=2500, plan={"checkpoint_every": 4, "learning_rate": 5e-3, **plan},
    )  # fmt: skip


def test_the_stage_resumes_to_the_same_model_file_and_held_out_losses(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    expected = stage.run(options(), *folders, tmp_path / "whole")
    for _ in range(3):
        with pytest.raises(Stopped):
            stage.run(options(max_minutes=1e-9), *folders, tmp_path / "cut")
    found = stage.run(options(), *folders, tmp_path / "cut")
    for key in expected.keys() - {"train_loss"}:
        assert found[key] == expected[key], key
    models = [tmp_path / name / stage.MODEL / "model.safetensors" for name in ("whole", "cut")]
    assert sha256(models[0]) == sha256(models[1])


def test_the_stage_learns_and_its_model_loads(folders: tuple[Path, Path], tmp_path: Path) -> None:
    counts = stage.run(options(), *folders, tmp_path / "out")
    assert counts["held_out_after"]["loss"] < counts["held_out_before"]["loss"]
    loaded = BertForPreTraining.from_pretrained(tmp_path / "out" / stage.MODEL)
    assert counts["parameters"] == loaded.num_parameters()
    assert abs(counts["tokens_seen"] - 2500) < 256


@pytest.mark.parametrize(("first", "then"), [(0, 3), (3, 0), (3, 1)])
def test_the_stage_resumes_with_another_number_of_threads_to_the_same_model_file(
    folders: tuple[Path, Path], tmp_path: Path, first: int, then: int
) -> None:
    stage.run(options(), *folders, tmp_path / "whole")
    for _ in range(2):
        with pytest.raises(Stopped):
            stage.run(options(max_minutes=1e-9, dataloader_num_workers=first), *folders, tmp_path / "cut")
    stage.run(options(dataloader_num_workers=then), *folders, tmp_path / "cut")
    models = [tmp_path / name / stage.MODEL / "model.safetensors" for name in ("whole", "cut")]
    assert sha256(models[0]) == sha256(models[1])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"max_length": 128, "batch_tokens": 100}, "batch_tokens"),
        ({"architecture": {"name": "bert", "hidden_size": 50, "num_attention_heads": 4}}, "num_attention_heads"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(changes: Any, named: Any) -> None:
    with pytest.raises(ValueError, match=named):
        PretrainOptions(**changes)


def test_parameter_counts_equal_a_built_encoder() -> None:
    counts = options().architecture.parameters(200)
    config = options().architecture.config(200)
    encoder = options().architecture.model(config, "pretraining").base_model
    assert counts["total"] == encoder.num_parameters()
    assert counts["total"] == sum(count for name, count in counts.items() if name != "total")
