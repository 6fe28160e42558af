"""The classifier over character n-grams, against scikit-learn's own steps on counted n-grams."""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from starlette.testclient import TestClient
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.files import read_json_lines
from kobert_pipeline.finetune.ngrams import (
    BLOCK,
    NgramClassifier,
    Ngrams,
    counted,
    drawn_rows,
    texts_of,
    whole_texts_of,
)
from kobert_pipeline.finetune.results import PREDICTIONS
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.model import ServedModel
from kobert_pipeline.serve.service import Service
from kobert_pipeline.tokenizer.loading import backend_in, vocabulary_in
from kobert_pipeline.tokenizer.special_tokens import UNK_ID

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


def test_a_text_that_fits_no_class_at_all_still_has_probabilities() -> None:
    """As a long text among short ones: each class is so unlikely that its sigmoid is 0 in float32."""
    weights = np.array([[-1.0, 0], [-2.0, -1.0], [0, -1.0]], np.float32)
    columns = np.sort(counted(Ngrams(min_n=1, max_n=1), ["가나"]).indices)
    classifier = NgramClassifier(Ngrams(min_n=1, max_n=1), columns, weights, np.full(3, -200, np.float32))
    (found,) = classifier.probabilities(["가나"])
    np.testing.assert_allclose(found, np.exp([-1, -3, -1]) / np.exp([-1, -3, -1]).sum(), atol=1e-4)


def test_a_saved_classifier_is_the_same_and_texts_are_classified_in_blocks(tmp_path: Path) -> None:
    classifier = NgramClassifier.fit(Ngrams(max_n=2), TEXTS, LABELS, 2, seed=1)
    classifier.save(tmp_path, {})
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
    rows = drawn_rows(np.full(40, 5), limit)
    assert len(rows) == len(set(rows.tolist())) == read and rows.tolist() == sorted(rows.tolist())


NAMES = ["negative", "positive"]
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


@pytest.fixture(scope="module")
def baseline_run(tiny: Any, kobert: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run with a baseline that is published, too, and what it printed."""
    run_dir = tiny.copy_before(tmp_path_factory.mktemp("baseline") / "runs" / "tiny", "publish")
    published = "publish={nsmc: {source: nsmc, onnx: false}, linear: {source: nsmc-ngrams}}"
    settings = ("--set", "finetune.nsmc.baseline=ngrams", "--set", published)
    result = kobert("run", tiny.recipe, "--run-dir", run_dir, *settings, "--redo-changed")
    assert result.code == 0, result.err
    return run_dir, result.out


def test_a_baseline_stands_beside_the_encoder(tiny: Any, kobert: Any, baseline_run: tuple[Path, str]) -> None:
    run_dir, printed = baseline_run
    counts = tiny.manifests(run_dir)["finetune/nsmc-ngrams/1"]["counts"]
    accuracy = f"{counts['test']['accuracy']:.2f}"
    assert f"test accuracy {accuracy}" in printed
    card = (run_dir / "publish" / "nsmc" / "README.md").read_text(encoding="utf-8")
    assert f"| no network: linear over n-grams (`nsmc-ngrams`) | accuracy | {accuracy} |" in card
    rows = {row["finetune"]: row for row in kobert("compare", run_dir, "--json").json["runs"]}
    assert rows["nsmc-ngrams"]["scores"]["accuracy"]["mean"] == pytest.approx(float(accuracy))
    assert rows["nsmc-ngrams"]["examples"] == rows["nsmc"]["examples"]


def test_a_published_baseline_gives_the_labels_of_its_training(
    tiny: Any, kobert: Any, baseline_run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = baseline_run[0]
    folder, test = run_dir / "publish" / "linear", Features.load(run_dir / "features" / "nsmc" / "test")
    labels = {row["id"]: row["prediction"] for row in read_json_lines(run_dir / "finetune/nsmc-ngrams/1" / PREDICTIONS)}
    for library in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, library, None)  # importing it raises ImportError
    checkpoint = Checkpoint.load(folder)
    predicted = checkpoint.predict([example["text"] for example in test.examples])
    pairs = list(zip(predicted, test.examples, pairwise(test.arrays["windows"].tolist()), strict=True))
    # the tokenizer without an analyzer takes a whole eojeol for unknown, and the other one its morpheme
    known = [(row, example) for row, example, (a, b) in pairs if UNK_ID not in test.arrays["input_ids"][a:b]]
    assert len(known) > len(pairs) / 3
    assert [row["label"] for row, _ in known] == [NAMES[labels[example["id"]]] for _, example in known]
    assert all(sum(row["scores"].values()) == pytest.approx(1, abs=2e-4) for row in predicted)
    assert not (folder / "kiwi.py").exists() and (folder / "tokenizer.json").is_file()


def test_the_card_of_a_published_baseline_speaks_of_no_network(baseline_run: tuple[Path, str]) -> None:
    card = " ".join((baseline_run[0] / "publish" / "linear" / "README.md").read_text(encoding="utf-8").split())
    assert "a linear classifier over n-grams of 2 to 9 jamo" in card and "library_name: kobert-pipeline" in card
    assert "| n-grams with a weight |" in card and "pretrain" not in card
    assert "maximum tokens per window" not in card
    assert "from transformers import" not in card and "$ kobert predict PATH/TO/THIS/FOLDER" in card


def test_a_published_baseline_is_served_and_has_no_vectors(
    kobert: Any, corpora: Path, baseline_run: tuple[Path, str], tmp_path: Path
) -> None:
    folder = baseline_run[0] / "publish" / "linear"
    evaluated = kobert("evaluate", folder, corpora / "reviews_test.txt")
    assert evaluated.out.split("\n\n")[1].startswith("Task `nsmc`, whole texts; ")
    served = ServedModel("linear", str(folder), backend="auto")
    assert served.endpoints == ["/v1/classify", "/v1/tokenize"] and served.torch_only == []
    assert served.predict([served.example("정말 재밌다")])[0]["label"] in NAMES
    texts = tmp_path / "texts.txt"
    texts.write_text("좋다\n", encoding="utf-8")
    result = kobert("embed", folder, texts, "--out", tmp_path / "vectors.npy")
    assert result.code == 2 and "has labels but no vectors" in result.err
    result = kobert("visualize", "attention", folder, "좋다", "--out", tmp_path / "attention.html")
    assert result.code == 2 and "no vectors or attention" in result.err


def test_a_published_baseline_searches_in_an_index_of_words(
    kobert: Any, baseline_run: tuple[Path, str], tmp_path: Path
) -> None:
    """Words need no vectors, so one server labels and searches."""
    (tmp_path / "texts.txt").write_text("음악이 좋다\n비가 온다\n", encoding="utf-8")
    index = ("index", "mini-nsmc", tmp_path / "texts.txt", "--out")
    assert kobert(*index, tmp_path / "words", "--by", "bm25").code == 0
    assert kobert(*index, tmp_path / "vectors").code == 0
    folder = baseline_run[0] / "publish" / "linear"
    service = Service({"linear": str(folder)}, Limits(), index=tmp_path / "words")
    with TestClient(create_app(service)) as client:
        assert service.loaded.wait(60), service.failure
        rows = client.post("/v1/similar", json={"query": "좋은 음악"}).json()["data"]
        assert [row["line"] for row in rows] == [1]
        query = {"query": "음악", "texts": ["비", "음악"]}
        assert [row["text"] for row in client.post("/v1/similar", json=query).json()["data"]] == ["음악"]
        refused = client.post("/v1/similar", json=query | {"by": "mean"}).json()["error"]["message"]
        assert refused == "by: linear makes no vectors of texts; ask for bm25"
    complaint = kobert("serve", folder, "--port", 0, "--index", tmp_path / "vectors").complaint
    assert "no served model makes vectors" in complaint and "make the index with --by bm25" in complaint


def test_texts_are_what_the_tokens_spell(prepared: Path, pretrained: Path) -> None:
    dev = Features.load(prepared / "nsmc" / "dev")
    backend = vocabulary_in(prepared.parent / "tokenizer")[0]
    found = list(texts_of(dev, backend))
    assert len(found) == len(dev) == len(dev.examples)
    for text, (start, end), example in zip(found, pairwise(dev.arrays["windows"]), dev.examples, strict=True):
        if backend.token_to_id("[UNK]") not in dev.arrays["input_ids"][start:end]:
            assert text.replace("\u2581", "") == "".join(example["text"].split())


def test_texts_without_special_tokens_are_whole(tmp_path: Path) -> None:
    """As those of a GPT-2 are, whose tokenizer may have no token for padding either."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.train_from_iterator(TEXTS, trainers.BpeTrainer(special_tokens=["<s>"]))
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path)
    loaded = backend_in(tmp_path)
    rows = [encoding.ids for encoding in loaded.encode_batch(TEXTS)]
    assert [text.replace("▁", "") for text in texts_of(features_of_ids(rows), loaded)] == [
        text.replace(" ", "") for text in TEXTS
    ]
    with pytest.raises(UserError, match="its tokenizer has no token for pad, cls, sep, mask"):
        vocabulary_in(tmp_path)


@pytest.mark.parametrize("enabled", [False, True])
def test_texts_are_read_whole_however_long_an_encoder_reads(prepared: Path, enabled: bool) -> None:
    """Truncated or not encoded at all; the backend keeps its settings."""
    dev = Features.load(prepared / "nsmc" / "dev")
    backend = vocabulary_in(prepared.parent / "tokenizer")[0]
    if enabled:
        backend.enable_truncation(max_length=4)
        backend.enable_padding(length=40)
    expected, lengths = whole_texts_of(Features({}, dev.examples), backend, 8)
    assert max(lengths) > 10 and not any("[PAD]" in text for text in expected)
    ids, starts = dev.arrays["input_ids"], dev.arrays["windows"]
    cut = features_of_ids([[*ids[start:end].tolist()[:7], 3] for start, end in pairwise(starts.tolist())])
    texts, _ = whole_texts_of(Features(cut.arrays, dev.examples), backend, 8)
    known = [UNK_ID not in ids[start:end] for start, end in pairwise(starts.tolist())]
    assert sum(known) > len(known) / 4
    assert [text for text, is_known in zip(texts, known, strict=True) if is_known] == [
        text for text, is_known in zip(expected, known, strict=True) if is_known
    ]
    without_examples, _ = whole_texts_of(Features(cut.arrays, []), backend, 8)
    assert without_examples == list(texts_of(cut, backend))
    assert bool(backend.truncation) == bool(backend.padding) == enabled


def test_the_label_of_a_text_does_not_depend_on_the_texts_beside_it(baseline_run: tuple[Path, str]) -> None:
    """An unknown syllable is spelled otherwise with an analyzer and without."""
    checkpoint = Checkpoint.load(baseline_run[0] / "publish" / "linear")
    texts = ["좋았어욬ㅋ꾧", "배우들 연기가 좋았다", "짧다"]
    alone = [checkpoint.predict([text])[0] for text in texts]
    assert checkpoint.predict([*texts, "정말 길고 긴 이야기이다. " * 9])[:-1] == alone
    assert len(checkpoint.results_of_ids([[2, 10, 11, 12, 3]])) == 1, "token ids have no text"


def test_a_missing_library_is_named(baseline_run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="requires scikit-learn, not installed here; pip install scikit-learn"):
        Checkpoint.load(baseline_run[0] / "publish" / "linear").predict(["좋다"])
