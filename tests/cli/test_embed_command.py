"""`kobert embed`: the same vectors in every format, the same file after an interruption, and nothing overwritten."""

import io
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import kobert_pipeline as kobert_package
from kobert_pipeline.files import json_text
from kobert_pipeline.inference import embed as embedding
from kobert_pipeline.inference import vector_files
from kobert_pipeline.inference.embed import Embedder

LINES = [f"{i}번째 평: {'정말 ' * (i % 7)}재밌다" for i in range(10)] + ["", "긴 글이다 " * 200]


@pytest.fixture
def place(beside_encoder: Path) -> Path:
    """The working folder, with `texts.txt`, and the published encoder as `mlm`."""
    (beside_encoder / "texts.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return beside_encoder


def test_every_format_holds_the_same_vectors(place: Path, kobert: Callable[..., Any]) -> None:
    expected = kobert_package.load("mlm").embed(LINES)
    for out in ("made/v.npy", "v.parquet", "v.jsonl"):
        result = kobert("embed", "mlm", "texts.txt", "--out", out)
        assert (result.code, result.out) == (0, ""), result.err
        assert "truncated to 256 tokens: 1 texts\n" in result.err
        assert not Path(f"{out}.parts").exists()
    np.testing.assert_array_equal(np.load("made/v.npy"), expected)
    table = parquet.read_table("v.parquet").to_pydict()
    assert table["text"] == LINES
    np.testing.assert_array_equal(np.array(table["embedding"], np.float32), expected)
    written = Path("v.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in written.splitlines()]
    assert [row["text"] for row in rows] == LINES
    np.testing.assert_array_equal(np.array([row["embedding"] for row in rows], np.float32), expected)
    assert kobert("embed", "mlm", "texts.txt").out == written


def test_standard_input_is_read_between_files(
    place: Path, kobert: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("가운데\r\n".encode())))
    printed = kobert("embed", "mlm", "texts.txt", "-", "texts.txt").out.splitlines()
    assert [json.loads(line)["text"] for line in printed] == [*LINES, "가운데", *LINES]


def test_the_texts_of_a_table_are_those_of_its_column(place: Path, kobert: Callable[..., Any]) -> None:
    Path("t.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in [("n", "text"), ("1", "나"), ("2", "")]), "utf-8")
    Path("t.jsonl").write_text('{"text": "두\\n줄", "n": 3}\n', encoding="utf-8")
    parquet.write_table(pyarrow.table({"n": [4], "text": ["넷"]}), "t.parquet")
    printed = kobert("embed", "mlm", "t.tsv", "t.jsonl", "t.parquet", "--column", "text").out.splitlines()
    assert [json.loads(line)["text"] for line in printed] == ["나", "", "두\n줄", "넷"]
    assert kobert("embed", "mlm", "t.jsonl", "t.parquet", "--column", "text", "--out", "v.npy").code == 0
    np.testing.assert_array_equal(np.load("v.npy"), kobert_package.load("mlm").embed(["두\n줄", "넷"]))


def test_tokens_are_the_same_in_every_format(place: Path, kobert: Callable[..., Any]) -> None:
    expected = Embedder.load(Path("mlm")).embed_tokens(LINES)
    for out in ("t.parquet", "t.jsonl"):
        assert kobert("embed", "mlm", "texts.txt", "--tokens", "--layers", "0,-1", "--out", out).code == 0
    table = parquet.read_table("t.parquet").to_pydict()
    rows = [json.loads(line) for line in Path("t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert list(table) == list(rows[0]) == list(expected)
    for name in expected:
        assert table[name] == [row[name] for row in rows] or name == "embedding"
        assert name == "embedding" or table[name] == expected[name]
    for found in (table["embedding"], [row["embedding"] for row in rows]):
        np.testing.assert_array_equal(np.array(found, np.float32)[:, 32:], expected["embedding"])
    printed = kobert("embed", "mlm", "texts.txt", "--tokens", "--layers", "0,-1").out
    assert printed == Path("t.jsonl").read_text(encoding="utf-8")


class Killed(BaseException):
    """Not an Exception, as a signal is not."""


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], list[int]]:
    """`interrupt(n)`: from now on parts have four texts, and the embedding of the n-th is interrupted (None: of none).
    Returns a list to which the number of texts of each call is appended."""
    plain = Embedder.columns

    def patch(last: int | None) -> list[int]:
        calls: list[int] = []

        def columns(self: Embedder, texts: list[str], first: int, tokens: bool) -> Any:
            calls.append(len(texts))
            if len(calls) == last:
                raise Killed
            return plain(self, texts, first, tokens)

        monkeypatch.setattr(Embedder, "columns", columns)
        return calls

    monkeypatch.setattr(embedding, "CHUNK_TEXTS", 4)
    monkeypatch.setattr(embedding, "CHUNK_TEXTS_OF_TOKENS", 4)
    return patch


@pytest.mark.parametrize("arguments", ["--out {}.npy", "--out {}.parquet", "--tokens --out {}.jsonl"])
def test_an_interrupted_command_resumes_to_the_same_file(
    arguments: str, place: Path, kobert: Callable[..., Any], interrupt: Callable[..., list[int]]
) -> None:
    def embed(name: str) -> tuple[Any, Path]:
        words = shlex.split(arguments.format(name))
        return kobert("embed", "mlm", "texts.txt", *words), Path(words[-1])

    assert interrupt(None) == []
    expected, whole = embed("whole")
    with pytest.raises(Killed):
        interrupt(3)
        embed("resumed")
    calls = interrupt(None)
    result, resumed = embed("resumed")
    assert calls == [4]
    assert resumed.read_bytes() == whole.read_bytes()
    assert result.err.splitlines()[-1] == expected.err.splitlines()[-1] != "", "what was truncated is counted, too"
    assert not Path(f"{resumed}.parts").exists()


def test_an_interrupted_command_resumes_only_as_it_was(
    place: Path, kobert: Callable[..., Any], interrupt: Callable[..., list[int]]
) -> None:
    words = ["embed", "mlm", "texts.txt", "--out", "v.npy"]
    with pytest.raises(Killed):
        interrupt(3)
        kobert(*words)
    before = {path: path.read_bytes() for path in Path("v.npy.parts").iterdir()}
    assert len(before) == 6, "two parts, their marks, the record and the lock"
    interrupt(None)
    assert "another pooling;" in kobert(*words, "--pooling", "max").complaint
    assert "another layers;" in kobert(*words, "--layers", "0").complaint
    Path("other.txt").write_text("다른 글\n", encoding="utf-8")
    assert "interrupted run on other texts" in kobert("embed", "mlm", "other.txt", "--out", "v.npy").complaint
    assert {path: path.read_bytes() for path in Path("v.npy.parts").iterdir()} == before
    part = Path("v.npy.parts", "000001.npy")
    part.write_bytes(part.read_bytes()[:-1])
    assert "has changed since it was written" in kobert(*words).complaint
    assert not Path("v.npy").exists()


def test_nothing_of_the_user_is_overwritten_or_deleted(place: Path, kobert: Callable[..., Any]) -> None:
    Path("v.npy").write_text("mine", encoding="utf-8")
    assert (
        "v.npy exists already and is not overwritten" in kobert("embed", "mlm", "texts.txt", "--out", "v.npy").complaint
    )
    Path("w.npy.parts").mkdir()
    Path("w.npy.parts", "notes.txt").write_text("mine", encoding="utf-8")
    assert "did not write" in kobert("embed", "mlm", "texts.txt", "--out", "w.npy").complaint
    Path("weights.json").write_text("mine", encoding="utf-8")
    complaint = kobert("embed", "mlm", "texts.txt", "--learn-weights", "weights.json").complaint
    assert "weights.json exists already" in complaint
    assert [Path(name).read_text() for name in ("v.npy", "w.npy.parts/notes.txt", "weights.json")] == ["mine"] * 3
    assert sorted(path.name for path in Path("w.npy.parts").iterdir()) == ["notes.txt"]


def test_weights_are_learned_into_a_file_of_their_own(place: Path, kobert: Callable[..., Any]) -> None:
    before = sorted(path.name for path in Path("mlm").iterdir())
    assert kobert("embed", "mlm", "texts.txt", "--learn-weights", "weights.json").code == 0
    words = ["embed", "mlm", "texts.txt", "--pooling", "weighted", "--weights", "weights.json", "--out", "v.npy"]
    assert kobert(*words).code == 0
    expected = kobert_package.load("mlm").embed(LINES, "weighted", weights="weights.json")
    np.testing.assert_array_equal(np.load("v.npy"), expected)
    assert not np.allclose(expected, kobert_package.load("mlm").embed(LINES), atol=1e-3)
    assert sorted(path.name for path in Path("mlm").iterdir()) == before
    assert json.loads(Path("weights.json").read_text())["documents"] == len(LINES)


def test_what_cannot_be_done_is_refused_in_one_sentence(place: Path, kobert: Callable[..., Any]) -> None:
    files = {"empty.txt": b"", "blank.txt": b"\n\n", "labels.CSV": b"text,label\n"}
    files["euc_jp.txt"] = "日本語の文".encode("euc_jp")
    files["rows.jsonl"] = b'{"text": true}\n'
    for name, content in files.items():
        Path(name).write_bytes(content)
    for line, said in [
        ("gone.txt", "gone.txt is not a file"),
        ("gone-*.txt", "gone-*.txt is not a file, but a pattern that the shell left as it is"),
        (". ", ". is not a file"),
        ("empty.txt", "empty.txt is empty"),
        ("blank.txt --out v.npy", "blank.txt is empty"),
        (
            "euc_jp.txt",
            "euc_jp.txt is not text in UTF-8, CP949 or UTF-16; it may be CP949 with hardly",
        ),
        ("texts.txt labels.CSV", "labels.CSV is not one text per line"),
        ("labels.CSV --column text", "labels.CSV has no rows"),
        ("rows.jsonl --column txet", "did you mean 'text'? (found: text); name the column with --column"),
        ("rows.jsonl --column text", "rows.jsonl, line 1: the column 'text' holds bool, text was expected"),
        ("- --column text", "- is standard input, whose lines are texts"),
        ("- -", "- is given more than once"),
        ("texts.txt --out v.csv", "must end in one of .jsonl, .parquet, .npy"),
        ("texts.txt --pooling men", "did you mean 'mean'"),
        ("texts.txt --layers 2", "there is no layer 2"),
        ("texts.txt --layers last", "--layers last: numbers"),
        ("texts.txt --tokens --pooling max", "--tokens pools nothing"),
        ("texts.txt --tokens --out v.npy", "NumPy's file has vectors alone"),
        ("texts.txt --learn-weights w.json --out v.npy", "--learn-weights writes no vectors"),
        ("texts.txt --pooling weighted", "--weights FILE"),
    ]:
        assert said in kobert("embed", "mlm", *shlex.split(line)).complaint, line
    assert not list(Path().glob("v.*")), "nothing to resume is left, either"
    assert "gone is neither a folder" in kobert("embed", "gone", "texts.txt").complaint


def test_numbers_in_json_are_short_and_exact() -> None:
    vectors = np.array([[0.1, -1e-30, 123456.7, 0.0]], np.float32)
    (row,) = vector_files.json_rows({"embedding": vectors})
    assert json_text(row) == '{"embedding": [0.1, -1e-30, 123456.7, 0.0]}'
