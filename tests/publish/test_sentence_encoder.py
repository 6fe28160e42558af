"""A sentence encoder from the corpus of the tiny run: published, it embeds as it was trained, wherever it is used."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from plain_states import plain_states

import kobert_pipeline
from kobert_pipeline.inference.embed import Embedder
from kobert_pipeline.serve.model import Ranking, ServedModel

TEXTS = ["아버지가 방에 들어가셨다.", "그 영화 진짜 재밌었어요ㅋㅋ 또 보고 싶다!", "글", "글 " * 60]
MAX_LENGTH = 48
PLAN = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3}


@pytest.fixture(scope="module")
def published(tiny: Any, kobert: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("search")
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    task = {"name": "contrastive", "pooling": "max"}
    recipe["features"] = {"search": {"task": task, "pairs": {"number": 60}, "dev_share": 0.2, "max_length": MAX_LENGTH}}
    recipe["finetune"] = {"search": {"plan": PLAN}}
    recipe["publish"] = {"search": {"source": "search"}}
    path = place / "search.yaml"
    path.write_text(yaml.safe_dump(recipe, allow_unicode=True), encoding="utf-8")
    run_dir = tiny.copy(place / "run", "corpus", "analysis", "tokenizer", "shards", "pretrain")
    result = kobert("run", path, "--run-dir", run_dir)
    assert result.code == 0, result.err
    return run_dir / "publish" / "search"


def largest_states(folder: Path, text: str) -> np.ndarray:
    """The largest value of each dimension, by hand."""
    return plain_states(folder, text).amax(0).numpy()


def test_the_stored_pooling_is_the_default_of_every_use(published: Path) -> None:
    expected = np.stack([largest_states(published, text) for text in TEXTS])
    loaded = kobert_pipeline.load(published)
    np.testing.assert_allclose(loaded.embed(TEXTS), expected, atol=1e-6)
    assert Embedder.load(published).pooling == "max"
    assert np.abs(loaded.embed(TEXTS, pooling="mean") - expected).max() > 0.1
    served = ServedModel("search", str(published))
    np.testing.assert_allclose([vector for vector, _ in served.embed(TEXTS)], expected, atol=1e-6)
    assert "/v1/classify" not in served.endpoints
    by_default, by_max, by_mean = (
        [row["score"] for row in served.rank([Ranking(TEXTS[0], TEXTS[1:], by, 3)])[0]] for by in (None, "max", "mean")
    )
    assert by_default == by_max != by_mean


def test_commands_embed_and_rank_by_it_and_predict_refuses(published: Path, kobert: Any, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    rows = [json.loads(line) for line in kobert("embed", published, path).out.splitlines()]
    expected = kobert_pipeline.load(published).embed(TEXTS, pooling="max")
    np.testing.assert_allclose([row["embedding"] for row in rows], expected, atol=1e-5)
    ranked = kobert("similar", published, TEXTS[0], "--in", path, "--json").out.splitlines()
    assert {json.loads(line)["method"] for line in ranked} == {"max"}
    assert "use kobert embed or kobert similar" in kobert("predict", published, TEXTS[0]).complaint


def test_evaluate_measures_it_and_any_other_model(published: Path, tiny: Any, kobert: Any, tmp_path: Path) -> None:
    features = published.parents[1] / "features" / "search" / "dev" / "examples.jsonl"
    dev = tmp_path / "dev.jsonl"
    dev.write_bytes(features.read_bytes())
    folder = published.parents[1] / "finetune" / "search" / "1"
    scores = json.loads((folder / "manifest.json").read_text())["counts"]["dev"]
    found = kobert("evaluate", published, dev, "--out", tmp_path / "report.json")
    assert found.code == 0, found.err
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["clean"]["scores"] == {name: round(value, 2) for name, value in scores.items()}
    other = kobert_pipeline.load(tiny.run_dir / "publish" / "nsmc").evaluate(dev, task="contrastive")
    assert other["task"]["pooling"] == "mean"
    assert other["clean"]["scores"].keys() == report["clean"]["scores"].keys()
    assert "noise is known for tasks that" in kobert("evaluate", published, dev, "--noise", "keys-swapped").complaint


def test_sentence_transformers_gives_the_same_vectors(published: Path) -> None:
    modes = json.loads((published / "1_Pooling" / "config.json").read_text())
    assert modes.pop("word_embedding_dimension") == 32
    assert {mode for mode, used in modes.items() if used} == {"pooling_mode_max_tokens"}
    import sentence_transformers

    encoder = sentence_transformers.SentenceTransformer(str(published), trust_remote_code=True, device="cpu")
    assert encoder.max_seq_length == MAX_LENGTH
    np.testing.assert_allclose(encoder.encode(TEXTS), kobert_pipeline.load(published).embed(TEXTS), atol=1e-6)


def test_the_card_says_that_the_vectors_are_to_be_compared(published: Path) -> None:
    card = (published / "README.md").read_text(encoding="utf-8")
    assert "pooled as in training" in card
    assert "mrr@10" in card
    assert "not trained to compare" not in " ".join(card.split())
