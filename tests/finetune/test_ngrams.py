"""The classifier over character n-grams, against scikit-learn's own steps on counted n-grams."""

from itertools import pairwise
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.finetune.ngrams import BLOCK, NgramClassifier, Ngrams, counted, drawn_rows, texts_of
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.tokenizer.loading import vocabulary_in

TEXTS = ["재미있다", "재미없다", "정말 재미있다", "재미없다 정말", "좋다", "싫다", "너무 좋다", "너무 싫다"]
LABELS = np.array([1, 0, 1, 0, 1, 0, 1, 0])
UNSEEN = ["정말 좋다", "정말 싫다", "없다", "ABC"]


def test_probabilities_are_those_of_naive_bayes_weights_and_logistic_regression() -> None:
    vectorizer = CountVectorizer(analyzer="char", ngram_range=(1, 5), binary=True, min_df=2, lowercase=False)
    counts = vectorizer.fit_transform(TEXTS).toarray().astype(float)
    # n-grams in one text only count towards the shares, as in the paper, where nothing is left out
    everything = CountVectorizer(analyzer="char", ngram_range=(1, 5), binary=True, lowercase=False).fit_transform(TEXTS)
    positive = LABELS == 1
    inside = (1 + counts[positive].sum(0)) / (2**22 + everything[positive].sum())
    outside = (1 + counts[~positive].sum(0)) / (2**22 + everything[~positive].sum())
    ratios = np.log(inside / outside)
    model = LogisticRegression(C=0.3, solver="liblinear", dual=True, max_iter=1000, random_state=1)
    model.fit(counts * ratios, LABELS)
    expected = model.predict_proba(vectorizer.transform(UNSEEN).toarray() * ratios)
    classifier = NgramClassifier.fit(Ngrams(), TEXTS, LABELS, 2, seed=1)
    np.testing.assert_allclose(classifier.probabilities(UNSEEN), expected, atol=1e-3)
    assert classifier.probabilities(UNSEEN).argmax(1)[:3].tolist() == [1, 0, 0]


def test_ngrams_of_jamo_are_those_of_texts_spelled_in_jamo() -> None:
    jamo, characters = Ngrams(unit="jamo", min_n=2, max_n=9), Ngrams(min_n=2, max_n=9)
    spelled = [normalize("NFD", text) for text in TEXTS]
    assert len(spelled[0]) == len("ㅈㅐㅁㅣㅇㅣㅆㄷㅏ")
    assert (counted(jamo, TEXTS) != counted(characters, spelled)).nnz == 0
    assert (counted(jamo, TEXTS) != counted(characters, TEXTS)).nnz > 0
    assert "unit" not in characters.dump() and Ngrams(**jamo.dump()) == jamo


def test_of_many_classes_each_is_set_against_the_others() -> None:
    texts = [f"{word} {number}" for word in ("산", "강", "바다") for number in range(20)]
    labels = np.repeat([0, 1, 2], 20)
    classifier = NgramClassifier.fit(Ngrams(), texts, labels, 3, seed=1)
    found = classifier.probabilities(["바다에 간다", "산에 간다", "강에 간다"])
    assert found.argmax(1).tolist() == [2, 0, 1]
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)


def test_a_saved_classifier_is_the_same_and_texts_are_classified_in_blocks(tmp_path: Path) -> None:
    classifier = NgramClassifier.fit(Ngrams(max_n=2), TEXTS, LABELS, 2, seed=1)
    classifier.save(tmp_path)
    many = [TEXTS[i % len(TEXTS)] for i in range(BLOCK + 3)]
    found = NgramClassifier.load(tmp_path).probabilities(many)
    assert found.shape == (BLOCK + 3, 2)
    np.testing.assert_allclose(found, np.resize(classifier.probabilities(TEXTS), found.shape), atol=1e-6)


def test_a_label_without_training_examples_is_never_predicted() -> None:
    classifier = NgramClassifier.fit(Ngrams(), TEXTS, LABELS, 3, seed=1)
    found = classifier.probabilities(UNSEEN)
    assert found[:, 2].max() < 0.1 and set(found.argmax(1)) <= {0, 1}
    only = NgramClassifier.fit(Ngrams(), TEXTS, np.ones(len(TEXTS), int), 2, seed=1)
    assert only.probabilities(UNSEEN)[:, 1].min() > 0.9


@pytest.mark.parametrize(("limit", "read"), [(None, 40), (10_000, 40), (100, 20), (7, 1), (1, 1)])
def test_texts_are_drawn_up_to_a_number_of_tokens(limit: int | None, read: int) -> None:
    train = features_of_ids([[2, 9, 9, 9, 3]] * 40)
    rows = drawn_rows(train, limit)
    assert len(rows) == len(set(rows.tolist())) == read and rows.tolist() == sorted(rows.tolist())


RECIPE: dict[str, Any] = {
    "corpus": {"sources": [{"name": "text", "path": "documents"}]},
    "features": {
        "nsmc": {"task": "nsmc", "train": "reviews_train.txt"},
        "pairs": {"task": "pair", "train": "pairs.tsv"},
    },
}


@pytest.mark.parametrize(
    ("finetune", "expected"),
    [
        ({"nsmc": {}}, ["nsmc-ngrams"]),
        ({"one": {"features": "nsmc"}, "two": {"features": "nsmc", "init": "scratch"}}, ["nsmc-ngrams"]),
        ({"nsmc": {"baseline": "none"}}, []),
        ({"nsmc": {}, "linear": {"features": "nsmc", "ngrams": {}}}, []),
        ({"pairs": {}}, []),
    ],
)
def test_labels_of_single_texts_get_a_baseline(finetune: dict[str, Any], expected: list[str]) -> None:
    recipe = Recipe.model_validate(RECIPE | {"finetune": finetune})
    assert [name for name in recipe.finetune if name not in finetune] == expected
    again = Recipe.model_validate(recipe.dump())
    assert again == recipe, "a recipe in a training manifest is that of its run"


def test_a_baseline_stands_beside_the_encoder(tiny: Any, kobert: Any, tmp_path: Path) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "tiny", "publish")
    settings = ("--set", "finetune.nsmc.baseline=ngrams", "--set", "publish={nsmc: {source: nsmc, onnx: false}}")
    result = kobert("run", tiny.recipe, "--run-dir", run_dir, *settings, "--redo-changed")
    assert result.code == 0, result.err
    counts = tiny.manifests(run_dir)["finetune/nsmc-ngrams/1"]["counts"]
    accuracy = f"{counts['test']['accuracy']:.2f}"
    assert f"test accuracy {accuracy}" in result.out
    card = (run_dir / "publish" / "nsmc" / "README.md").read_text(encoding="utf-8")
    assert f"| no network: linear over n-grams (`nsmc-ngrams`) | accuracy | {accuracy} |" in card
    rows = {row["finetune"]: row for row in kobert("compare", run_dir, "--json").json["runs"]}
    assert rows["nsmc-ngrams"]["scores"]["accuracy"]["mean"] == pytest.approx(float(accuracy))
    assert rows["nsmc-ngrams"]["examples"] == rows["nsmc"]["examples"]


def test_texts_are_what_the_tokens_spell(prepared: Path, pretrained: Path) -> None:
    dev = Features.load(prepared / "nsmc" / "dev")
    backend = vocabulary_in(prepared.parent / "tokenizer")[0]
    found = list(texts_of(dev, backend))
    assert len(found) == len(dev) == len(dev.examples)
    for text, (start, end), example in zip(found, pairwise(dev.arrays["windows"]), dev.examples, strict=True):
        if backend.token_to_id("[UNK]") not in dev.arrays["input_ids"][start:end]:
            assert text.replace("\u2581", "") == "".join(example["text"].split())
