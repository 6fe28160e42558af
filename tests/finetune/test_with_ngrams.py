"""An encoder with n-grams as a part of its model, against the two parts by themselves and scikit-learn."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, read_json_lines
from kobert_pipeline.finetune import with_ngrams
from kobert_pipeline.finetune.distill import teacher_probabilities
from kobert_pipeline.finetune.ngrams import NgramClassifier, texts_of
from kobert_pipeline.finetune.stage import FinetuneOptions
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.pipeline import stages
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.serve.model import ServedModel
from kobert_pipeline.tokenizer.loading import vocabulary_in

Logits = dict[str, list[np.ndarray]]


def drawn(labels: np.ndarray, confidence: float, noise: float, seed: int) -> Logits:
    """Logits of two classes that are right more often than not."""
    scores = np.random.default_rng(seed).normal((2 * labels - 1) * confidence, noise, len(labels))
    return {"logits": list(np.stack([-scores, scores], 1) / 2)}


def test_with_many_texts_the_weights_are_those_of_logistic_regression() -> None:
    labels = np.random.default_rng(0).integers(0, 2, 20_000)
    encoder, ngrams = drawn(labels, 3, 4, 1), drawn(labels, 0.5, 1, 2)
    margins = np.stack([np.diff(np.stack(part["logits"]))[:, 0] for part in (encoder, ngrams)], 1)
    oracle = LogisticRegression(C=np.inf, fit_intercept=False).fit(margins, labels).coef_[0]
    np.testing.assert_allclose(with_ngrams.fitted_weights(encoder, ngrams, labels), oracle, rtol=0.02)


def test_a_few_texts_move_the_weights_little_and_towards_the_better_part() -> None:
    labels = np.array([0, 1, 0, 1, 1, 0])
    right, wrong = drawn(labels, 4, 0, 0), drawn(1 - labels, 1, 0, 0)
    usual = np.array(with_ngrams.USUAL)
    encoder_is_right = np.array(with_ngrams.fitted_weights(right, wrong, labels)) / usual
    ngrams_are_right = np.array(with_ngrams.fitted_weights(wrong, right, labels)) / usual
    assert encoder_is_right[0] > 1 > encoder_is_right[1] and ngrams_are_right[1] > 1 > ngrams_are_right[0]
    none = {"logits": [np.zeros(2)] * 6}
    np.testing.assert_allclose(with_ngrams.fitted_weights(none, none, labels), usual)


@pytest.mark.parametrize(
    ("task", "examples", "wanted", "expected"),
    [
        ("nsmc", 4_999, None, True), ("nsmc", 5_000, None, False), ("nsmc", 5_000, True, True),
        ("nsmc", 8, False, False), ("pair", 8, None, False), ("multilabel", 8, None, False),
        ("regression", 8, None, False), ("ner", 8, None, False), ("korquad", 8, None, False),
    ],
)  # fmt: skip
def test_few_labels_of_single_texts_get_ngrams(task: str, examples: int, wanted: bool | None, expected: bool) -> None:
    assert with_ngrams.fits(Task.choose(task), examples, wanted) is expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True), ({"with_ngrams": False}, False), ({"baseline": "none"}, False),
        ({"baseline": "none", "with_ngrams": True}, True), ({"class_weights": "balanced"}, False),
        ({"distill": {"teachers": ["a"]}}, False), ({"encoder": "frozen"}, False), ({"ngrams": {}}, False),
    ],
)  # fmt: skip
def test_other_ways_of_training_keep_the_encoder_alone(options: dict[str, Any], expected: bool) -> None:
    assert FinetuneOptions.model_validate(options).may_add_ngrams is expected


def test_a_record_says_where_ngrams_cannot_be_a_part(tmp_path: Path) -> None:
    """Of a checkpoint, whose tokenizer is an input anyway."""
    records = []
    for options in ({}, {"baseline": "none"}):
        topic = {"task": "classification", "train": "a.csv"}
        recipe = Recipe.model_validate(
            {"checkpoint": "owner/name", "features": {"topic": topic}, "finetune": {"topic": options}}
        )
        jobs = stages.jobs(recipe, stages.Run("topic", tmp_path, tmp_path / "runs"))
        records += [(job.options, sorted(job.inputs)) for job in jobs if job.title == "finetune topic/1"]
    assert len(records) == 2 and records[0] != records[1]


def test_a_task_without_labels_of_single_texts_refuses_them() -> None:
    sources = {"corpus": {"sources": [{"name": "text", "path": "documents"}]}}
    of_pairs = {"features": {"pairs": {"task": "pair", "train": "a.tsv"}}, "finetune": {"pairs": {"with_ngrams": True}}}
    with pytest.raises(ValueError, match=r"finetune\.pairs\.with_ngrams needs a task that gives a single text one of"):
        Recipe.model_validate(sources | of_pairs)


@pytest.fixture(scope="module")
def run_dir(tiny: Any, kobert: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose classifier of reviews has n-grams for a part, published with its ONNX file."""
    run_dir = tiny.copy_before(tmp_path_factory.mktemp("with-ngrams") / "runs" / "tiny", "publish")
    settings = ("--set", "finetune.nsmc.baseline=ngrams", "--set", "publish={nsmc: {source: nsmc, onnx: true}}")
    result = kobert("run", tiny.recipe, "--run-dir", run_dir, *settings, "--redo-changed")
    assert result.code == 0, result.err
    printed = " ".join(result.out.split())
    assert "network and n-grams: accuracy" in printed and re.search(
        r"log-probabilities of network and n-grams, weighted 0\.\d+ and", printed
    )
    return Path(run_dir)


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_both_parts_are_in_every_prediction(run_dir: Path, backend: str) -> None:
    """Of the published folder and of the run's own, by either backend: softmax(a log p + b log q)."""
    features, published = Features.load(run_dir / "features" / "nsmc" / "test"), run_dir / "publish" / "nsmc"
    texts = [example["text"] for example in features.examples]
    checkpoint = Checkpoint.load(published, backend=backend)
    # from a folder without n-grams
    encoder = Checkpoint(published.parent, checkpoint.model, checkpoint.tokenizer).predict_examples(features.examples)
    assert encoder.network is None
    spelled = list(texts_of(features, vocabulary_in(run_dir / "tokenizer")[0]))
    ngrams = NgramClassifier.load(published / "ngrams").probabilities(spelled)
    logits = np.stack(encoder.logits["logits"]).astype(np.float64)
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    first, second = read_json(published / "ngrams" / "config.json")["weights"]
    powers = probabilities**first * ngrams**second
    expected = powers / powers.sum(1, keepdims=True)
    unlabelled, model = Features(features.arrays, []), run_dir / "finetune" / "nsmc" / "1" / "model"
    taught = teacher_probabilities(unlabelled, model, vocabulary_in(run_dir / "tokenizer")[0], bf16=False)
    np.testing.assert_allclose(taught, expected, atol=2e-4)
    predicted = checkpoint.predict(texts)
    np.testing.assert_allclose([list(row["scores"].values()) for row in predicted], expected, atol=2e-4)
    assert abs(expected - probabilities).max() > 1e-3
    served = ServedModel("nsmc", str(published), backend=backend)
    assert served.predict([served.example(text) for text in texts]) == predicted
    tuned = Checkpoint.load(run_dir / "finetune" / "nsmc" / "1" / "model", run_dir / "tokenizer")
    assert [row["label"] for row in tuned.predict(texts)] == [row["label"] for row in predicted]


def test_records_state_the_network_alone_and_both(run_dir: Path, tiny: Any, kobert: Any, corpora: Path) -> None:
    counts = tiny.manifests(run_dir)["finetune/nsmc/1"]["counts"]
    both = counts["test_prior_ablation"]
    assert list(both) == ["network_alone", "network_and_n-grams"] and both["network_and_n-grams"] == counts["test"]
    published = run_dir / "publish" / "nsmc"
    evaluated = kobert("evaluate", published, corpora / "reviews_test.txt", "--json")
    assert evaluated.json["prior_ablation"] == {
        part: {name: pytest.approx(value, abs=0.01) for name, value in scores.items()} for part, scores in both.items()
    }
    labels = [row["prediction"] for row in read_json_lines(run_dir / "finetune" / "nsmc" / "1" / "predictions.jsonl")]
    assert len(labels) == len(Features.load(run_dir / "features" / "nsmc" / "test"))
    card = " ".join((published / "README.md").read_text(encoding="utf-8").split())
    assert "pretrained, network and n-grams" in card and "other programs compute the encoder alone" in card
    assert card.index("```python") < card.index("**This is the encoder alone.**") < card.index("## Results")
    on_dev = counts["dev_prior_ablation"]
    assert on_dev["network_and_n-grams"] == counts["dev"]
    table = kobert("compare", run_dir).out.splitlines()
    for part, scores in on_dev.items():  # on dev, by which runs are chosen, too
        (row,) = (line for line in table if f"nsmc {part.replace('_', ' ')}" in line)
        assert row.rstrip(" |").endswith(f"accuracy {scores['accuracy']:.2f}"), row


def test_without_ngrams_the_encoder_is_the_same_and_alone(tiny: Any, kobert: Any, run_dir: Path) -> None:
    """The n-grams take no part in the training of the encoder."""
    alone = tiny.run_dir / "finetune" / "nsmc" / "1"
    with_them = run_dir / "finetune" / "nsmc" / "1"
    assert not (alone / "model" / "ngrams").exists()
    name = "model/model.safetensors"
    assert (alone / name).read_bytes() == (with_them / name).read_bytes()
    scores = tiny.manifests()["finetune/nsmc/1"]["counts"]["test"]
    assert scores == tiny.manifests(run_dir)["finetune/nsmc/1"]["counts"]["test_prior_ablation"]["network_alone"]


def test_a_checkpoint_loads_its_ngrams_once(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Path] = []
    load = NgramClassifier.load
    monkeypatch.setattr(NgramClassifier, "load", lambda folder: loaded.append(folder) or load(folder))
    checkpoint = Checkpoint.load(run_dir / "publish" / "nsmc")
    for long in ("truncate", "windows", "truncate"):
        checkpoint.predict(["정말 재밌다"], long=long)
    assert len(loaded) == 1
