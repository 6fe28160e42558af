"""The commands and the code of docs/embedding.md work one after the other, and it names every pooling."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import yaml
import zstandard
from pyarrow import parquet
from pydantic import ValidationError

from kobert_pipeline.config import recipe_file
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.finetune.pooling import POOLINGS
from kobert_pipeline.pipeline.recipe import Recipe

REPO = Path(__file__).resolve().parents[2]
GUIDE = (REPO / "docs" / "embedding.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.M | re.S)


def test_the_guide_does_what_it_says(
    corpora: Path,
    tmp_path: Path,
    kobert: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    reviews = (corpora / "reviews_test.txt").read_text(encoding="utf-8").splitlines()[:20]
    Path("reviews.txt").write_text("\n".join(reviews), encoding="utf-8")
    love, texts = blocks("text")[0], blocks("text")[2]
    Path("love.txt").write_text(love, encoding="utf-8")
    Path("texts.txt").write_text(texts, encoding="utf-8")
    Path("reviews.csv").write_text("\n".join(["review", *texts.splitlines()]), encoding="utf-8")
    part = Path("runs/mine/corpus/part-00000.parquet")
    part.parent.mkdir(parents=True)
    parquet.write_table(pyarrow.table({"id": ["1"], "text": [love]}), part)
    documents = Path("mydata/documents")
    documents.mkdir(parents=True)
    for number, line in enumerate(love.splitlines()):
        (documents / f"{number}.txt").write_text(line, encoding="utf-8")
    Path("documents.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    for name in ("tydiqa-goldp-ko-train", "KorQuAD_v1.0_dev"):  # those of the clone take minutes
        path = Path("corpora", "qa", f"{name}.json.zst")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zstandard.compress((corpora / "qa_dev.json").read_bytes()))
    # in the place of a reranker: a model with two outputs that says of itself that it labels pairs
    reranker = Path("runs/mine/publish/rerank")
    shutil.copytree(REPO / "models" / "mini-nsmc", reranker, ignore=shutil.ignore_patterns("manifest.json"))
    config = read_json(reranker / "config.json")
    labels = {"id2label": {"0": "different", "1": "same"}, "label2id": {"different": 0, "same": 1}}
    write_json(reranker / "config.json", config | labels | {"task_specific_params": {"pair": {"max_length": 64}}})
    answers = []
    for block in blocks("console"):
        for line in block.splitlines():
            command, _, out = line.removeprefix("$ kobert ").partition(" > ")
            words = shlex.split(command)
            result = kobert(*(part for word in words for part in (Path().glob(word) if "*" in word else [word])))
            assert result.code == 0, (line, result.err)
            if out:
                Path(out).write_text(result.out, encoding="utf-8")
            if command.startswith("predict"):
                answers.append(result.out.rpartition("  score:")[0])
    assert len(Path("documents-index/texts.jsonl").read_text(encoding="utf-8").splitlines()) == len(love.splitlines())
    assert np.load("layers.npy").shape == (20, 512)
    assert np.load("weighted.npy").shape == np.load("reviews.npy").shape == (20, 256)
    distances, vectors = blocks("python")
    exec(distances, {})
    printed, shown = (
        np.array([row.strip(" []").split() for row in text.splitlines()], float)
        for text in (capsys.readouterr().out, blocks("text")[1])
    )
    np.testing.assert_allclose(printed, shown, atol=0.002)
    # the score depends on how the CPU rounds
    assert answers == [blocks("text")[3].rpartition("  score:")[0]]
    exec(vectors, {})
    assert capsys.readouterr().out == "(2, 256)\n"


def test_the_recipe_of_the_guide_is_valid_and_its_triples_are_read(tmp_path: Path) -> None:
    korean = (REPO / "docs" / "ko" / "embedding.md").read_text(encoding="utf-8")
    documents, encoder, reranker = blocks("yaml")
    Recipe.model_validate(yaml.safe_load(documents))
    assert f"```yaml\n{encoder}```" in korean and f"```yaml\n{reranker}```" in korean
    recipe = Recipe.model_validate(recipe_file.load("mini", []) | yaml.safe_load(encoder))
    assert recipe.features["search"].pairs and not recipe.features["questions"].pairs
    content = recipe_file.load("mini", []) | yaml.safe_load(reranker)
    pairs = Recipe.model_validate(content).features["rerank"].pairs
    assert pairs and pairs.negatives == 4
    for wrong, said in (({"kind": "questions"}, "a reranker also learns from others"), ({}, "from others")):
        with pytest.raises(ValidationError, match=said):
            Recipe.model_validate(content | {"features": {"rerank": {"task": "rerank", "pairs": wrong}}})
    (tmp_path / "questions.tsv").write_text(blocks("text")[-1], encoding="utf-8")
    [example] = recipe.features["questions"].task.read(tmp_path / "questions.tsv")
    assert example["negatives"] == ["운전면허증은 경찰서에서 갱신합니다."]


@pytest.mark.parametrize("folder", ("docs", "docs/ko"))
def test_the_guide_names_every_pooling(folder: Any) -> None:
    guide = (REPO / folder / "embedding.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", guide, re.M)) == set(POOLINGS), folder
