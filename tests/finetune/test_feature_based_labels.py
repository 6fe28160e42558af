"""Labels of texts over a frozen encoder (`encoder: frozen`): what is computed, trained, saved and predicted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch.nn.functional import cross_entropy

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.batching import padded
from kobert_pipeline.finetune.feature_based import FeatureBasedClassifier
from kobert_pipeline.finetune.model import build, drop_unsupported_inputs, load, logits
from kobert_pipeline.finetune.plan import FinetunePlan


@pytest.fixture(scope="module")
def model(tiny: Any) -> Any:
    torch.manual_seed(3)
    pretrained = tiny.run_dir / "pretrain" / "model"
    return build(Task.choose("nsmc"), pretrained, False, FinetunePlan(dropout=0.0), 64, frozen=True).eval()


@pytest.fixture(scope="module")
def reviews(tiny: Any) -> Features:
    return Features.load(tiny.run_dir / "features" / "nsmc" / "dev")


def test_the_largest_states_are_classified_and_padding_changes_nothing(model: Any, reviews: Features) -> None:
    rows = np.arange(8)
    assert len(set(reviews.lengths[rows])) > 1, "some are padded"
    batch = drop_unsupported_inputs(model, padded(reviews, rows, "cpu"))
    with torch.no_grad():
        found = model(**batch, labels=torch.arange(8) % 2)
    for row in rows:
        alone = drop_unsupported_inputs(model, padded(reviews, rows[row : row + 1], "cpu"))
        with torch.no_grad():
            layers = model.encoder(**alone, output_hidden_states=True).hidden_states[1:][-4:]
            states = model.lstm(torch.cat(layers, -1))[0][0]  # (1, L, D) per layer -> (L, 2D)
            expected = model.classifier(states.amax(0))
        torch.testing.assert_close(found.logits[row], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.loss, cross_entropy(found.logits, torch.arange(8) % 2))


def test_a_saved_model_gives_the_same_logits(model: Any, reviews: Features, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, FeatureBasedClassifier)
    expected, found = (logits(one, reviews, 16, "cpu")["logits"] for one in (model, again))
    np.testing.assert_array_equal(np.stack(found), np.stack(expected))


def test_a_run_trains_the_head_alone_and_its_model_predicts(tiny: Any, tmp_path: Path, kobert: Callable) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "x", "finetune")
    plan = "{epochs: 30, batch_size: 16, learning_rate: 3e-3, dropout: 0}"
    setting = f"finetune={{nsmc: {{encoder: frozen, plan: {plan}}}}}"
    ran = kobert("finetune", tiny.recipe, "--run-dir", run_dir, "--set", setting, "--set", "publish={}")
    assert ran.code == 0, ran.err
    folder = run_dir / "finetune" / "nsmc" / "1" / "model"
    trained = load(folder)
    pretrained = transformers.AutoModel.from_pretrained(run_dir / "pretrain" / "model").state_dict()
    for name, value in trained.encoder.state_dict().items():
        assert torch.equal(value, pretrained[name]), name

    tokenizer = run_dir / "tokenizer"
    predicted = kobert("predict", folder, "정말 재미있다", "--tokenizer", tokenizer, "--json")
    assert json.loads(predicted.out)["label"] in ("negative", "positive"), predicted.err
    counts = tiny.manifests(run_dir)["finetune/nsmc/1"]["counts"]
    assert counts["train_loss"] < 0.6, "the head has learned the small training set; by chance the loss is 0.69"
