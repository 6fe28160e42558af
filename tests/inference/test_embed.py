"""Vectors of padded batches equal those of one text at a time, computed by `transformers` and a few lines of torch."""

import math
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import kobert_pipeline as kobert_package
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.rows import by_tokens
from kobert_pipeline.finetune.feature_based import FeatureBasedTagger
from kobert_pipeline.inference import embed as embedding
from kobert_pipeline.inference.embed import Embedder
from kobert_pipeline.inference.loading import load_tokenizer
from kobert_pipeline.inference.token_weights import TokenWeights
from kobert_pipeline.morphemes.analyzers import kiwi
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.morphemes.segmentation import units
from kobert_pipeline.morphemes.segmenter import Segmenter
from kobert_pipeline.publish.verify import SAMPLES
from kobert_pipeline.questions.bm25 import K1, B
from kobert_pipeline.tokenizer.tagged_morphemes import TaggingSegmenter, morphemes_of_tokens, tagged_morphemes

TEXTS = [*SAMPLES, "글", "", " ".join(SAMPLES * 30)]
ROUNDING = 1e-5
"""Largest difference that another order of sums may make; the vectors' values are about 1."""


@pytest.fixture(scope="module")
def mlm(tiny: Any) -> Path:
    return Path(tiny.run_dir / "publish" / "mlm")


def plain_states(folder: Path, text: str) -> list[torch.Tensor]:
    """The hidden states (S, H) of one text, embeddings first, without padding."""
    tokenizer = MorphemeTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        found = model(**tokenizer(text, truncation=True, return_tensors="pt"), output_hidden_states=True).hidden_states
    return [states[0] for states in found]


BY_HAND: dict[str, Callable[[list[torch.Tensor]], torch.Tensor]] = {
    "cls": lambda states: states[-1][0],
    "mean": lambda states: states[-1].mean(0),
    "max": lambda states: states[-1].max(0).values,
    "first-last": lambda states: ((states[1] + states[-1]) / 2).mean(0),
}


def test_every_pooling_of_a_padded_batch_is_that_of_one_text_at_a_time(mlm: Path) -> None:
    checkpoint, states = kobert_package.load(mlm), [plain_states(mlm, text) for text in TEXTS]
    for pooling, by_hand in BY_HAND.items():
        expected = np.stack([by_hand(of_text).numpy() for of_text in states])
        np.testing.assert_allclose(checkpoint.embed(TEXTS, pooling), expected, atol=ROUNDING, err_msg=pooling)


def test_layers_are_concatenated_in_the_order_given(mlm: Path) -> None:
    states = [plain_states(mlm, text) for text in TEXTS]
    expected = [np.concatenate([of_text[layer].mean(0) for layer in (-1, 0)]) for of_text in states]
    np.testing.assert_allclose(kobert_package.load(mlm).embed(TEXTS, layers=(-1, 0)), expected, atol=ROUNDING)


def test_batches_do_not_change_vectors(mlm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = kobert_package.load(mlm)
    together = checkpoint.embed(TEXTS)
    monkeypatch.setattr(embedding, "BATCH_TOKENS", 1)
    np.testing.assert_allclose(checkpoint.embed(TEXTS), together, atol=ROUNDING)
    assert checkpoint.embed(TEXTS[0]).shape == (32,)
    assert checkpoint.embed([]).shape == (0, 32)


def test_batches_with_little_padding_change_neither_vectors_nor_labels(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as for models that are not packed
    monkeypatch.setattr("kobert_pipeline.finetune.model.packed_view", lambda model, device: None)
    checkpoint, found = kobert_package.load(tiny.run_dir / "publish" / "nsmc"), []
    passes: list[tuple[int, ...]] = []
    checkpoint.model.base_model.register_forward_pre_hook(
        lambda model, args, given: passes.append((args[0] if args else given["input_ids"]).shape), with_kwargs=True
    )
    for max_padding in (10**9, 0):
        monkeypatch.setattr("kobert_pipeline.finetune.batching.MAX_PADDING_CPU", max_padding)
        # a blank text has none
        scores = [row["scores"]["positive"] for row in checkpoint.predict(TEXTS) if row["scores"]]
        found.append((checkpoint.embed(TEXTS), scores))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=ROUNDING)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)
    assert passes[0] == passes[1] and passes[0][0] == len(TEXTS) and len(passes) > 4, passes


def test_batches_hold_every_row_with_tokens_once_and_little_padding() -> None:
    lengths = np.random.default_rng(1).integers(0, 40, 200)
    batches = list(by_tokens(lengths, 100))
    assert sorted(np.concatenate(batches)) == list(np.flatnonzero(lengths))
    assert all(len(rows) * lengths[rows].max() <= 100 for rows in batches)
    assert all((len(rows) + 1) * lengths[after[0]] > 100 for rows, after in pairwise(batches))
    assert [list(rows) for rows in by_tokens(np.array([7, 9]), 5)] == [[0], [1]]
    assert list(by_tokens(np.array([0]), 5)) == []


def test_weights_are_those_of_bm25(mlm: Path, tmp_path: Path) -> None:
    """Each token's weights in a text add up to its BM25 score, by the formula with its sums written out."""
    tokenizer, file = load_tokenizer(mlm), tmp_path / "weights.json"
    corpus = ["영화가 정말 재밌다", "정말 정말 지루한 영화", "음악이 좋다", "배우 연기가 좋다"]
    ids = [tokenizer(text)["input_ids"] for text in corpus]
    TokenWeights.learn(ids, tokenizer).save(file)
    weights = TokenWeights.load(file, tokenizer)
    mean_length = sum(map(len, ids)) / len(ids)
    for of_text in ids:
        for token in set(of_text):
            containing = sum(token in other for other in ids)
            idf = math.log(1 + (len(ids) - containing + 0.5) / (containing + 0.5))
            count = of_text.count(token)
            score = idf * count * (K1 + 1) / (count + K1 * (1 - B + B * len(of_text) / mean_length))
            found = sum(weight for weight, id_ in zip(weights.of(of_text), of_text, strict=True) if id_ == token)
            assert found == pytest.approx(score, rel=1e-9)
    expected = []
    for text in corpus:
        own = weights.of(tokenizer(text)["input_ids"])
        expected.append(np.average(plain_states(mlm, text)[-1].numpy(), axis=0, weights=own))
    found = kobert_package.load(mlm).embed(corpus, "weighted", weights=file)
    np.testing.assert_allclose(found, expected, atol=ROUNDING)


def test_weights_of_another_vocabulary_or_no_weights_are_refused(mlm: Path, tiny: Any, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(mlm)
    checkpoint = kobert_package.load(mlm)
    learned = TokenWeights.learn([[1, 2]], tokenizer)
    learned.save(tmp_path / "right.json")
    with pytest.raises(UserError, match="exists already and is not overwritten"):
        learned.save(tmp_path / "right.json")
    learned.model_copy(update={"vocabulary": "another"}).save(tmp_path / "other.json")
    (tmp_path / "plain.json").write_text("{}", encoding="utf-8")
    for path, said in [
        (tmp_path / "other.json", "another vocabulary"),
        (tmp_path / "plain.json", "damaged or was edited"),
        (mlm / "manifest.json", "holds no weights of tokens"),
        (tmp_path / "gone.json", "is not a file; `kobert embed --learn-weights FILE`"),
    ]:
        with pytest.raises(UserError, match=said):
            checkpoint.embed(["글"], "weighted", weights=path)


def test_arguments_that_do_not_fit_are_refused(mlm: Path, tmp_path: Path) -> None:
    checkpoint = kobert_package.load(mlm)
    for given, said in [
        ({"pooling": "men"}, "did you mean 'mean'"),
        ({"layers": (2,)}, "there is no layer 2: the model has 0, the embeddings, and 1 to 1"),
        ({"layers": (-1, -3)}, "there is no layer -3"),
        ({"layers": ()}, "no layer is named"),
        ({"pooling": "first-last", "layers": (0,)}, "leave --layers out"),
        ({"pooling": "weighted"}, "--learn-weights"),
        ({"weights": tmp_path / "weights.json"}, "--pooling weighted"),
    ]:
        with pytest.raises(UserError, match=said):
            checkpoint.embed(["글"], **given)


def test_tokens_have_their_states_places_and_morphemes(mlm: Path) -> None:
    texts = ["그는 그녀를 사랑했다.", "", unicodedata.normalize("NFD", "정말 [MASK] 친구였다"), "한\t가지"]
    columns = Embedder.load(mlm).embed_tokens(texts, first=5)
    index, spans = columns["index"], list(zip(columns["start"], columns["end"], strict=True))
    for number, text in enumerate(texts):
        own = [i for i, of_token in enumerate(index) if of_token == number + 5]
        np.testing.assert_allclose(columns["embedding"][own], plain_states(mlm, text)[-1].numpy(), atol=ROUNDING)
        assert "".join(columns["text"][i] for i in own) == "".join(text.split())
        assert all(columns["text"][i] == text[slice(*spans[i])] for i in own)
        assert [columns["token"][i] for i in (own[0], own[-1])] == ["[CLS]", "[SEP]"]
    pairs = list(zip(columns["morpheme"], columns["tag"], strict=True))
    # each once, since a morpheme may have several tokens
    assert list(dict.fromkeys(pairs[: index.index(6)])) == [
        (None, None), ("그", "NP"), ("는", "JX"), ("그녀", "NP"), ("를", "JKO"), ("사랑", "NNG"), ("하+었", "XSV+EP"),
        ("다", "EF"), (".", "SF"),
    ]  # fmt: skip
    assert pairs[columns["text"].index("[MASK]")] == (None, None)


def test_one_analysis_of_a_text_gives_tokens_and_tags(mlm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of a second analysis, which only texts with added tokens need."""
    plain = [*TEXTS, "사랑했다", "친구다\n사랑했다 " * 200]
    texts = [*plain, TEXTS[0], unicodedata.normalize("NFD", "사랑했다"), "정말 [MASK] 친구였다"]
    analysed: list[str] = []
    kiwi_tokens = kiwi.tokens

    def tokens(parts: Iterable[str], *settings: Any) -> Any:
        return kiwi_tokens((analysed.append(part) or part for part in parts), *settings)

    monkeypatch.setattr(kiwi, "tokens", tokens)
    once, count = Embedder.load(mlm).embed_tokens(texts), Counter(analysed)
    analysed.clear()
    monkeypatch.setattr(embedding, "with_tags", lambda tokenizer: tokenizer)
    twice = Embedder.load(mlm).embed_tokens(texts)
    np.testing.assert_array_equal(once.pop("embedding"), twice.pop("embedding"))
    assert once == twice
    assert any(tag and "+" in tag for tag in once["tag"])
    spared = Counter(text[start:end] for text in dict.fromkeys(plain) for start, end in units(text))
    assert Counter(analysed) - count == spared


def test_morphemes_are_at_the_characters_as_given() -> None:
    text = unicodedata.normalize("NFD", "친구를 사랑했다")
    found = tagged_morphemes(TaggingSegmenter(Segmenter()), [text, ""])
    assert found[1] == []
    assert [(text[one.start : one.end], one.form, one.tag) for one in found[0]] == [
        (unicodedata.normalize("NFD", part), form, tag)
        for part, form, tag in [
            ("친구", "친구", "NNG"), ("를", "를", "JKO"), ("사랑", "사랑", "NNG"), ("했", "하", "XSV"),
            ("했", "었", "EP"), ("다", "다", "EF"),
        ]
    ]  # fmt: skip


def test_truncated_texts_are_counted(mlm: Path) -> None:
    embedder = Embedder.load(mlm)
    tokenizer = embedder.tokenizer
    exact = next(text for n in range(200, 260) if len(tokenizer(text := "가 " * n)["input_ids"]) == embedder.max_length)
    embedder.embed([exact, "글"])
    assert embedder.truncated == 0
    embedder.embed([exact + "나", "글", exact * 3])
    assert embedder.truncated == 2


def test_weights_of_a_model_that_are_not_numbers_are_refused(mlm: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(mlm, tmp_path / "damaged", ignore=shutil.ignore_patterns("manifest.json")))
    tensors = load_file(folder / "model.safetensors")
    tensors["bert.embeddings.LayerNorm.bias"][0] = float("nan")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="gives vectors that are not finite"):
        kobert_package.load(folder).embed(["글"])
    with pytest.raises(UserError, match="gives vectors that are not finite"):
        Embedder.load(folder).embed_tokens(["글"])


def test_an_unpublished_model_embeds_with_the_tokenizer_of_its_run(tiny: Any, mlm: Path) -> None:
    unpublished = kobert_package.load(tiny.run_dir / "pretrain" / "model", tiny.run_dir / "tokenizer")
    np.testing.assert_array_equal(unpublished.embed(TEXTS[:3]), kobert_package.load(mlm).embed(TEXTS[:3]))


@pytest.mark.parametrize("name", ("nsmc", "korquad"))
def test_a_model_with_any_head_embeds_by_its_encoder(name: Any, tiny: Any) -> None:
    folder = tiny.run_dir / "publish" / name
    expected = [plain_states(folder, text)[-1].mean(0).numpy() for text in TEXTS]
    np.testing.assert_allclose(kobert_package.load(folder).embed(TEXTS), expected, atol=ROUNDING)


def test_a_feature_based_tagger_embeds_by_its_frozen_encoder(tiny: Any, mlm: Path, tmp_path: Path) -> None:
    FeatureBasedTagger(transformers.AutoModel.from_pretrained(mlm)).save_pretrained(tmp_path / "model")
    tagger = kobert_package.load(tmp_path / "model", tiny.run_dir / "tokenizer")
    np.testing.assert_allclose(tagger.embed(TEXTS[:3]), kobert_package.load(mlm).embed(TEXTS[:3]), atol=ROUNDING)


def test_an_analyzer_without_tags_gives_tokens_no_morphemes(mlm: Path) -> None:
    tokenizer = load_tokenizer(mlm)
    tokenizer.segmenter = Segmenter("whitespace")
    assert embedding.with_tags(tokenizer) is tokenizer
    assert morphemes_of_tokens(tokenizer, ["나는"], [[5]], [[(0, 2)]]) == {}


def test_a_file_for_onnx_runtime_gives_the_vectors_of_tokens_too(with_onnx: Path) -> None:
    by_torch, by_onnx = (
        Embedder.load(with_onnx / "encoder", backend=backend).embed_tokens(TEXTS[:3]) for backend in ("torch", "onnx")
    )
    np.testing.assert_allclose(by_onnx.pop("embedding"), by_torch.pop("embedding"), atol=1e-4)
    assert by_onnx == by_torch and len(by_onnx["token"]) > 10
