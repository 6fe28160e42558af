"""What a score owes to the network and what to the rules beside it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.model import Predicted
from kobert_pipeline.finetune.prior_ablation import BOTH, NETWORK, PRIORS, constant_logits, prior_ablation
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

BONUSES = {"phrase_bonus": 4.0, "kind_bonus": 8.0, "sentence_bonus": 12.0}


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


@pytest.mark.parametrize("bonuses", [BONUSES, {"phrase_bonus": 4.0}, {"sentence_bonus": 12.0}])
@pytest.mark.parametrize("name", ["korquad", "span"])
def test_the_network_alone_is_the_task_without_bonuses(
    name: str, bonuses: dict[str, float], examples: list, tokenizer: MorphemeTokenizer
) -> None:
    predicted = predicted_by(Task.choose({"name": name, **bonuses}), examples, tokenizer)
    ablation = prior_ablation(predicted)
    without = Task.choose({"name": name})
    assert list(ablation) == [NETWORK, BOTH, PRIORS], "what was learned is named first"
    assert ablation[NETWORK] == without.score(without.predict(predicted.logits, predicted.features), examples)
    assert ablation[BOTH] == predicted.scores != ablation[NETWORK]


def test_the_priors_alone_do_not_depend_on_the_network(examples: list, tokenizer: MorphemeTokenizer) -> None:
    task = Task.choose({"name": "korquad", **BONUSES})
    first, second = (prior_ablation(predicted_by(task, examples, tokenizer, seed)) for seed in (1, 2))
    assert first[PRIORS] == second[PRIORS] and first[BOTH] != second[BOTH]
    # a network that says as good as nothing answers like the priors, but for ties
    silent = predicted_by(task, examples, tokenizer, scale=1e-5)
    assert silent.scores["f1"] == pytest.approx(first[PRIORS]["f1"], abs=10)


def test_ties_are_drawn_anew_by_each_seed(examples: list, tokenizer: MorphemeTokenizer) -> None:
    task: Any = Task.choose({"name": "korquad", "sentence_bonus": 12.0})
    predicted = predicted_by(task, examples, tokenizer)
    answers = [task.predict(constant_logits(predicted.logits, seed), predicted.features) for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]


def test_a_threshold_that_was_tuned_with_bonuses_does_not_judge_without_them(
    examples: list, tokenizer: MorphemeTokenizer
) -> None:
    # with this threshold no answer is ever given
    predicted = predicted_by(Task.choose({"name": "span", "null_threshold": -1e9, **BONUSES}), examples, tokenizer)
    ablation = prior_ablation(predicted)
    assert ablation[BOTH]["f1"] == 0 < min(ablation[NETWORK]["f1"], ablation[PRIORS]["f1"])


@pytest.mark.parametrize("name", ["korquad", "nsmc", "ner"])
def test_a_task_without_priors_has_no_ablation(name: str) -> None:
    assert Task.choose(name).ablate_priors() is None
