"""`kobert index`: a folder in which `kobert similar` finds what it finds in the files themselves."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest

from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.inference import embed as embedding
from kobert_pipeline.inference.embed import Embedder
from kobert_pipeline.inference.text_index import INDEX, VECTORS
from kobert_pipeline.questions.bm25 import QUESTION_WORDS, Bm25, densest, passages_of, search_terms

LINES = [
    "배우들의 연기가 좋았다",
    "",
    "이야기가 지루하다",
    "음악이 좋고 연기도 좋다",
    "두 시간이 아까웠다",
    "1",
    "\u200b",
]
TABLE = "id,review\n" + "".join(f"r{n},{line}\n" for n, line in enumerate(LINES[:5]))
QUERIES = ("연기가 좋다", "지루한 이야기")
METHODS = ("--by", "mean", "--by", "bm25", "--by", "hybrid")


@pytest.fixture
def place(beside_encoder: Path) -> Path:
    (beside_encoder / "texts.txt").write_text("\n".join(LINES), encoding="utf-8")
    (beside_encoder / "more.txt").write_text("연기가 " * 300 + "끝\n다른 줄", encoding="utf-8")
    (beside_encoder / "table.csv").write_text(TABLE, encoding="utf-8")
    return beside_encoder


@pytest.mark.parametrize(
    "files", [("texts.txt",), ("texts.txt", "more.txt"), ("table.csv", "--column", "review")], ids=str
)
def test_it_finds_what_similar_finds_in_the_files(
    files: tuple[str, ...], place: Path, kobert: Callable[..., Any]
) -> None:
    assert kobert("index", "mlm", *files, "--out", "index", "--long", "truncate").code == 0
    names = [name for name in files if Path(name).suffix]
    given = [argument for name in names for argument in ("--in", name)] + list(files[len(names) :])
    by_files = kobert("similar", "mlm", *QUERIES, *given, *METHODS, "--json").out.splitlines()
    by_index = kobert("similar", "mlm", *QUERIES, "--index", "index", *METHODS, "--json").out.splitlines()
    assert len(by_files) == len(by_index) > 12
    for theirs, ours in zip(map(json.loads, by_files), map(json.loads, by_index), strict=True):
        assert theirs.pop("score") == pytest.approx(ours.pop("score"), abs=2e-4)
        assert theirs == ours
    said = kobert("index", "mlm", *files, "--out", "again").out
    assert f"(blank and left out: {1 if 'table.csv' in files else 2})" in said
    table = kobert("similar", "mlm", QUERIES[0], "--index", "index", "--by", "bm25", "--top-k", 2).out
    assert table == kobert("similar", "mlm", QUERIES[0], *given, "--by", "bm25", "--top-k", 2).out


def test_an_index_of_words_alone_has_no_vectors_and_is_searched_by_words(
    place: Path, kobert: Callable[..., Any]
) -> None:
    made = kobert("index", "mlm", "texts.txt", "--out", "words", "--by", "bm25")
    assert made.out == "words: 5 texts (blank and left out: 2), their words without vectors\n"
    assert kobert("index", "mlm", "texts.txt", "--out", "both").code == 0
    assert not (place / "words" / VECTORS).exists()
    found = kobert("similar", "mlm", *QUERIES, "--index", "words", "--json")
    assert found.code == 0, found.err
    assert found.out == kobert("similar", "mlm", *QUERIES, "--index", "both", "--by", "bm25", "--json").out
    for method in ("mean", "hybrid"):
        complaint = kobert("similar", "mlm", QUERIES[0], "--index", "words", "--by", method).complaint
        assert "words has no vectors, for it was made with --by bm25; search it by bm25, or make it again" in complaint
    arguments = ("index", "mlm", "texts.txt", "--out", "again", "--by", "bm25", "--pooling", "cls")
    assert "--pooling is for vectors, which --by bm25 leaves out" in kobert(*arguments).complaint
    assert kobert("index", "mlm", "texts.txt", "--out", "again", "--by", "bm25", "--json").json["pooling"] is None


@pytest.mark.parametrize("pooling", ["mean", "first-last"])
def test_an_index_is_searched_by_words_and_its_vectors(pooling: str, place: Path, kobert: Callable[..., Any]) -> None:
    assert kobert("index", "mlm", "texts.txt", "--out", "index", "--pooling", pooling).code == 0
    search = ("similar", "mlm", *QUERIES, "--index", "index", "--json")
    found = kobert(*search)
    assert found.code == 0, found.err
    assert found.out == kobert(*search, "--by", "hybrid").out
    assert {json.loads(line)["method"] for line in found.out.splitlines()} == {"hybrid"}
    by_files = kobert("similar", "mlm", *QUERIES, "--in", "texts.txt", "--by", pooling, "--by", "hybrid", "--json")
    by_index = kobert(*search, "--by", pooling, "--by", "hybrid")
    hits = [[json.loads(line) for line in result.out.splitlines()] for result in (by_files, by_index)]
    assert [row["score"] for row in hits[0]] == pytest.approx([row["score"] for row in hits[1]], abs=2e-4)


def test_long_texts_are_whole_unless_they_are_to_be_truncated(place: Path, kobert: Callable[..., Any]) -> None:
    assert "3 texts" not in kobert("index", "mlm", "more.txt", "--out", "whole").out
    assert "2 texts, whole (pooling mean, --long windows)" in " ".join(
        kobert("index", "mlm", "more.txt", "--out", "again").out.split()
    )
    about = kobert("index", "mlm", "more.txt", "--out", "cut", "--long", "truncate", "--json").json
    assert about["truncated"] == 1 and about["texts"] == 2
    for name in ("whole", "cut"):
        for method in ("mean", "hybrid"):
            found = kobert("similar", "mlm", "연기", "--index", name, "--by", method)
            assert found.code == 0 and "연기" in found.out, found.err
    vectors = [np.load(place / name / "vectors.npy") for name in ("whole", "cut")]
    assert not np.allclose(vectors[0][0], vectors[1][0], atol=1e-4) and np.allclose(vectors[0][1], vectors[1][1])


def test_an_interrupted_command_resumes_to_the_same_index(
    place: Path, kobert: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "CHUNK_CHARACTERS", 1)  # a part for each text
    calls: list[int] = []
    plain = Embedder.columns

    def interrupted(self: Embedder, texts: list[str], first: int, tokens: bool) -> Any:
        calls.append(first)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return plain(self, texts, first, tokens)

    monkeypatch.setattr(Embedder, "columns", interrupted)
    arguments = ("index", "mlm", "texts.txt", "--out")
    assert kobert(*arguments, "index").code == 130
    assert not (place / "index").exists() and (place / "index.parts").is_dir()
    assert kobert(*arguments, "index").code == 0
    assert calls == [0, 1, 2, 3, 3, 4], "three parts were kept"
    assert not (place / "index.parts").exists()
    monkeypatch.setattr(embedding, "CHUNK_CHARACTERS", 1000)
    assert kobert(*arguments, "whole").code == 0
    np.testing.assert_allclose(*(np.load(place / name / "vectors.npy") for name in ("index", "whole")), atol=1e-5)
    for name in ("texts.jsonl", "index.json", "starts.npy"):
        assert (place / "index" / name).read_bytes() == (place / "whole" / name).read_bytes()


def test_what_does_not_fit_is_refused(place: Path, tiny: Any, kobert: Callable[..., Any]) -> None:
    kobert("index", "mlm", "texts.txt", "--out", "index")
    assert "index exists" in kobert("index", "mlm", "texts.txt", "--out", "index").complaint
    other = kobert("similar", "mlm", "글", "--index", "index", "--by", "cls").complaint
    assert "has vectors of the pooling mean and the last layer, not of cls; give --by mean and no --layers" in other
    other = kobert("similar", "mini-nsmc", "글", "--index", "index", "--by", "mean").complaint
    assert "made with another checkpoint" in other
    assert "leave --in" in kobert("similar", "mlm", "글", "--index", "index", "--in", "texts.txt").complaint
    assert "is no index" in kobert("similar", "mlm", "글", "--index", "mlm").complaint
    write_json(place / "index" / INDEX, read_json(place / "index" / INDEX) | {"version": 0})
    complaint = kobert("similar", "mlm", "글", "--index", "index").complaint
    assert "index is an index of another version; make it again with kobert index" in complaint
    (place / "blank.txt").write_text(" \n\n", encoding="utf-8")
    assert "blank" in kobert("index", "mlm", "blank.txt", "--out", "none").complaint
    assert not list(place.glob("*none*")) and not list(place.glob(".*")), "nothing is left of what failed"


def test_a_copy_that_broke_off_is_refused(place: Path, kobert: Callable[..., Any]) -> None:
    assert kobert("index", "mlm", "texts.txt", "--out", "new/folder/index").code == 0
    shutil.copytree(place / "new" / "folder" / "index", place / "copy")
    assert kobert("similar", "mlm", "연기", "--index", "copy", *METHODS).code == 0
    files = [path for path in sorted((place / "copy").rglob("*")) if path.is_file() and path.name != INDEX]
    assert len(files) > 5
    for path in files:
        content = path.read_bytes()
        for damage in (lambda path=path: path.unlink(), lambda path=path, cut=content[:-1]: path.write_bytes(cut)):
            damage()
            complaint = kobert("similar", "mlm", "연기", "--index", "copy", *METHODS).complaint
            name = path.relative_to(place / "copy").as_posix()
            assert f"copy is not whole: {name} is missing or cut off; copy it again" in complaint
        path.write_bytes(content)


def test_an_index_of_words_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    texts = [line for line in LINES if line.strip()]
    Bm25(texts).save(tmp_path / "bm25")
    loaded = Bm25.load(tmp_path / "bm25", len(texts))
    assert np.array_equal(loaded.scores([*QUERIES, "없는낱말", ""]), Bm25(texts).scores([*QUERIES, "없는낱말", ""]))
    Bm25(["", " "]).save(tmp_path / "empty")
    assert not Bm25.load(tmp_path / "empty", 2).scores(["연기"]).any()


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("배우의 연기", "배우의 연기"), ("누가 항소했나", "피고가 항소"), ("없는낱말", "가나다"),
        ("명예훼손죄", "사이버명예훼손"),  # found by its pairs of characters
    ],
)  # fmt: skip
def test_a_passage_has_what_a_search_for_the_query_looks_for(query: str, shown: str) -> None:
    found = ["배우의 연기가 좋았다. ", "그래서 피고가 항소하였다. ", "그러나 사이버명예훼손은 아니다. "]
    line = "가나다 " * 50 + "누가 왔다. " + ("그리고 " * 200).join(found) + "라마바 " * 60
    terms = set(search_terms([query], QUESTION_WORDS)[0])
    passage, short, decomposed = passages_of([line, "짧은 글", normalize("NFD", line)], terms, 120)
    assert shown in passage and len(passage) <= 120 and passage.strip("…") in line
    assert (short, decomposed) == ("짧은 글", passage)


@pytest.mark.parametrize("seed", range(5))
def test_a_passage_begins_where_most_terms_follow(seed: int) -> None:
    chance = random.Random(seed)
    hits = sorted((chance.randrange(300), chance.choice("abcdef")) for _ in range(40))
    counts = [len({term for place, term in hits if start <= place < start + 50}) for start, _ in hits]
    assert densest(hits, 50) == hits[int(np.argmax(counts))][0]
