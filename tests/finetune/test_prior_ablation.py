"""What a score owes to the network and what to the rules beside it."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune.prior_ablation import BOTH, NETWORK, PRIORS, constant_logits, prior_ablation
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.pipeline.card_from_dev import noise_on_dev

ALL_PRIORS = {"phrase": 4.0, "type": 8.0, "overlap": 12.0}


@pytest.fixture(scope="module")
def examples(corpora: Path) -> list[dict[str, Any]]:
    return Task.choose("korquad").read(corpora / "qa_train.json")


@pytest.fixture(scope="module")
def tokenizer(tiny: Any) -> MorphemeTokenizer:
    return MorphemeTokenizer.from_pretrained(tiny.run_dir / "tokenizer")


def predicted_by(
    task: Any, examples: list[dict[str, Any]], tokenizer: MorphemeTokenizer, seed: int = 0, scale: float = 1.0
) -> Predicted:
    """The predictions of a network that guesses."""
    features = Features(task.featurize(examples, tokenizer, 128), examples)
    rng = np.random.default_rng(seed)
    logits = {
        name: [rng.normal(0, scale, length).astype(np.float32) for length in np.diff(features.arrays["windows"])]
        for name in ("start_logits", "end_logits")
    }
    return Predicted(task, features, logits, task.predict(logits, features))


@pytest.mark.parametrize("priors", [ALL_PRIORS, {"phrase": 4.0}, {"overlap": 12.0}])
@pytest.mark.parametrize("name", ["korquad", "span"])
def test_the_network_alone_is_the_task_without_priors(
    name: str, priors: dict[str, float], examples: list, tokenizer: MorphemeTokenizer
) -> None:
    predicted = predicted_by(Task.choose({"name": name, "answer_priors": priors}), examples, tokenizer)
    ablation = prior_ablation(predicted)
    without = Task.choose({"name": name})
    assert list(ablation) == [NETWORK, BOTH, PRIORS], "what was learned is named first"
    assert ablation[NETWORK] == without.score(without.predict(predicted.logits, predicted.features), examples)
    assert ablation[BOTH] == predicted.scores != ablation[NETWORK]


def test_the_priors_alone_do_not_depend_on_the_network(examples: list, tokenizer: MorphemeTokenizer) -> None:
    task = Task.choose({"name": "korquad", "answer_priors": ALL_PRIORS})
    first, second = (prior_ablation(predicted_by(task, examples, tokenizer, seed)) for seed in (1, 2))
    assert first[PRIORS] == second[PRIORS] and first[BOTH] != second[BOTH]
    # a network that says as good as nothing answers like the priors, but for ties
    silent = predicted_by(task, examples, tokenizer, scale=1e-5)
    assert silent.scores["f1"] == pytest.approx(first[PRIORS]["f1"], abs=10)


def test_ties_are_drawn_anew_by_each_seed(examples: list, tokenizer: MorphemeTokenizer) -> None:
    task: Any = Task.choose({"name": "korquad", "answer_priors": {"overlap": 12.0}})
    predicted = predicted_by(task, examples, tokenizer)
    answers = [task.predict(constant_logits(predicted.logits, seed), predicted.features) for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]


def test_a_threshold_that_was_tuned_with_priors_does_not_judge_without_them(
    examples: list, tokenizer: MorphemeTokenizer
) -> None:
    # with this threshold no answer is ever given
    task = Task.choose({"name": "span", "null_threshold": -1e9, "answer_priors": ALL_PRIORS})
    ablation = prior_ablation(predicted_by(task, examples, tokenizer))
    assert ablation[BOTH]["f1"] == 0 < min(ablation[NETWORK]["f1"], ablation[PRIORS]["f1"])


@pytest.mark.parametrize("name", ["korquad", "nsmc", "ner"])
def test_a_task_without_priors_has_no_ablation(name: str) -> None:
    assert Task.choose(name).ablate_priors() is None


@pytest.mark.parametrize(("test", "split"), [("qa_dev.json", "test"), (None, "dev")])
def test_a_run_records_the_three_rows_and_compare_and_the_card_show_them(
    test: str | None, split: str, tiny: Any, kobert: Any, tmp_path: Path
) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "priors", "features")
    shutil.copytree(tiny.run_dir / "pretrain", run_dir / "pretrain")
    settings = [
        "features={qa: {task: {name: korquad, stride: 64, answer_priors: {phrase: 4, overlap: 12}}, "
        f"train: qa_train.json, test: {test or 'null'}, max_length: 128, license: CC0-1.0}}}}",
        "finetune={qa: {seeds: [1, 2], plan: {epochs: 1, batch_size: 8}}}",
        "publish={qa: {source: qa, onnx: false}}",
    ]
    arguments = ("--run-dir", run_dir, *(part for setting in settings for part in ("--set", setting)))
    run = kobert("run", tiny.recipe, *arguments)
    assert run.code == 0, run.err
    for part in ("network alone", "network and priors", "priors alone"):
        assert f"{split}, {part}: exact_match" in " ".join(run.out.split())
    seeds = [read_json(run_dir / "finetune" / "qa" / seed / "manifest.json")["counts"] for seed in ("1", "2")]
    parts = [counts[f"{split}_prior_ablation"] for counts in seeds]
    assert [list(ablation) for ablation in parts] == [[NETWORK, BOTH, PRIORS]] * 2
    for ablation, counts in zip(parts, seeds, strict=True):
        assert ablation[BOTH] == pytest.approx(counts[split], abs=1e-4)
    [row] = kobert("compare", run_dir, "--json").json["runs"]
    mean = sum(ablation[NETWORK]["f1"] for ablation in parts) / 2
    assert row["prior_ablation"][NETWORK]["f1"]["mean"] == pytest.approx(mean, abs=0.005)
    assert all(f"qa {name.replace('_', ' ')} |" in kobert("compare", run_dir).out for name in parts[0])
    card = (run_dir / "publish" / "qa" / "README.md").read_text(encoding="utf-8")
    assert f"pretrained, network alone | f1 | {mean:.2f} |" in card


def test_a_card_says_what_missing_spaces_cost(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = (tiny.run_dir / "finetune" / "nsmc" / "1" / "model", tiny.run_dir / "tokenizer")
    assert noise_on_dev(*folders, tiny.run_dir / "features" / "nsmc", None) == {}, "dev is too small to say anything"
    monkeypatch.setattr("kobert_pipeline.pipeline.card_from_dev.FEWEST", 1)
    noise = noise_on_dev(*folders, tiny.run_dir / "features" / "nsmc", None)
    dev = read_json(tiny.run_dir / "finetune" / "nsmc" / "1" / "manifest.json")["counts"]["dev"]
    assert noise["clean"]["accuracy"] == pytest.approx(dev["accuracy"], abs=0.005)
    assert [(row["kind"], row["rate"]) for row in noise["conditions"]] == [
        ("spaces-removed", 1.0), ("key-neighbour", 0.05), ("key-neighbour", 0.1),
    ]  # fmt: skip
    assert noise["conditions"][0]["changed"] > 0 and noise["of"] == "dev, a part of train"
