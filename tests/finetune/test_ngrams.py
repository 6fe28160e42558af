"""The classifier over character n-grams, against scikit-learn's own steps on counted n-grams."""

import shutil
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.finetune.ngrams import BLOCK, NgramClassifier, Ngrams, counted, run, texts_of
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


def test_a_label_without_training_examples_is_refused(prepared: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(prepared / "nsmc", tmp_path / "nsmc")
    labels = np.load(folder / "train" / "labels.npy")
    np.save(folder / "train" / "labels.npy", np.ones_like(labels))
    with pytest.raises(UserError, match="no training example has the label 'negative', so n-grams cannot learn it"):
        run(Ngrams(), False, 1, folder, prepared.parent / "tokenizer", tmp_path)


def test_texts_are_what_the_tokens_spell(prepared: Path, pretrained: Path) -> None:
    dev = Features.load(prepared / "nsmc" / "dev")
    backend = vocabulary_in(prepared.parent / "tokenizer")[0]
    found = list(texts_of(dev, backend))
    assert len(found) == len(dev) == len(dev.examples)
    for text, (start, end), example in zip(found, pairwise(dev.arrays["windows"]), dev.examples, strict=True):
        if backend.token_to_id("[UNK]") not in dev.arrays["input_ids"][start:end]:
            assert text.replace("\u2581", "") == "".join(example["text"].split())
