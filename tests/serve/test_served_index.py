"""`kobert serve --index`: `/v1/similar` ranks the texts of an index where a request has none."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from held_model import wait_until
from starlette.testclient import TestClient

from kobert_pipeline.serve import schema
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.server import ready_line
from kobert_pipeline.serve.service import Service

# the first is longer than what the models read of a query, but not of a text of the index
TEXTS = [
    "배우들의 연기가 정말 좋았다. " * 60,
    "이야기가 지루하다.",
    "음악이 아름다운 영화",
    "비가 온다",
    "연기는 별로다",
]
QUERY = "연기가 좋은 영화"


@pytest.fixture(scope="module")
def place(tiny: Any, tmp_path_factory: pytest.TempPathFactory, kobert: Callable[..., Any]) -> Path:
    """The index `both` of a table by the encoder, and `words` without vectors."""
    place = tmp_path_factory.mktemp("indexes")
    rows = [{"id": f"r{n}", "review": text} for n, text in enumerate(TEXTS)]
    (place / "table.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for name, more in (("both", ()), ("words", ("--by", "bm25"))):
        arguments = (tiny.run_dir / "publish" / "mlm", place / "table.jsonl", "--column", "review")
        result = kobert("index", *arguments, "--out", place / name, *more)
        assert result.code == 0, result.err
    return place


@contextmanager
def served(tiny: Any, index: Path | None, *names: str) -> Iterator[Callable[..., Any]]:
    """`ask(model, ...)`: the answer to a search with `mlm`, the model of `both`, or `mini-nsmc`, another one."""
    folders = {name: str(tiny.run_dir / "publish" / name) if name == "mlm" else name for name in names}
    service = Service(folders, Limits(), index=index)
    with TestClient(create_app(service)) as client:
        wait_until(lambda: service.ready or not service.alive, 60)
        assert service.ready, service.failure
        yield lambda model, **fields: client.post("/v1/similar", json={"model": model, "query": QUERY, **fields})


def test_the_texts_of_the_index_are_ranked_as_by_the_command(
    tiny: Any, place: Path, kobert: Callable[..., Any]
) -> None:
    with served(tiny, place / "both", "mlm") as ask:
        for by in ("mean", "bm25", "hybrid", None):
            words = ("similar", tiny.run_dir / "publish" / "mlm", QUERY, "--index", place / "both", "--json")
            expected = [json.loads(line) for line in kobert(*words, *(("--by", by) if by else ())).out.splitlines()]
            content = ask("mlm", by=by).json()
            assert (content["object"], content["model"]) == ("list", "mlm")
            rows = content["data"]
            assert len(rows) == (3 if by == "bm25" else 5), "two texts have no word of the query"
            for row, theirs in zip(rows, expected, strict=True):
                schema.Ranked.model_validate(row, extra="forbid")
                assert row.pop("score") == pytest.approx(theirs["score"], abs=2e-4)
                assert row.pop("index") == row["row"] - 1
                assert row == {key: theirs[key] for key in ("row", "id", "text")}
            assert ask("mlm", by=by, top_k=1).json()["data"][0]["text"] == rows[0]["text"]
        assert ask("mlm").json() == ask("mlm", by="hybrid").json() != ask("mlm", by="mean").json()
        of_the_request = ask("mlm", by="bm25", texts=["비", "좋은 연기"]).json()["data"]
        assert [(row["index"], row["text"]) for row in of_the_request] == [(1, "좋은 연기")]
        assert "1,025 texts of the index are asked for; a request may ask for 1,024" in refusal(ask("mlm", top_k=1025))


def refusal(response: Any) -> str:
    assert response.status_code == 422, response.text
    message: str = response.json()["error"]["message"]
    return message


def test_a_model_with_other_vectors_searches_by_words(tiny: Any, place: Path) -> None:
    with served(tiny, place / "both", "mini-nsmc", "mlm") as ask:
        by_words = ask("mlm", by="bm25").json()["data"]
        assert ask("mini-nsmc").json()["data"] == by_words and len(by_words) == 3
        for by in ("mean", "hybrid"):
            assert ask("mlm", by=by).status_code == 200
            assert (
                refusal(ask("mini-nsmc", by=by)) == f"by: the index has no vectors of mini-nsmc for {by}; ask for bm25"
            )
        assert refusal(ask("mlm", by="cls")).endswith("of mlm for cls; ask for hybrid or mean or bm25")
        assert ask(None).json() == ask("mlm").json(), "without a name by the model that has vectors in the index"
        assert ask(None, texts=TEXTS).status_code == 400, "either model can embed texts of a request"


def test_an_index_without_vectors_is_searched_by_words(tiny: Any, place: Path) -> None:
    with served(tiny, place / "words", "mini-nsmc", "mlm") as ask:
        assert ask(None).json() == ask("mini-nsmc").json(), "all models find the same words"
        assert ask("mini-nsmc").json() == ask("mini-nsmc", by="bm25").json()
        assert "no vectors of mini-nsmc for hybrid; ask for bm25" in refusal(ask("mini-nsmc", by="hybrid"))


def test_without_an_index_texts_are_needed(tiny: Any) -> None:
    with served(tiny, None, "mlm") as ask:
        assert refusal(ask("mlm")) == (
            "texts: none are given, and no index is served; send texts, or start the server with --index DIR"
        )


def test_an_index_that_does_not_fit_ends_the_server(
    place: Path, kobert: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    complaint = kobert("serve", "mood=gone", "--port", 0, "--index", place).complaint
    assert f"{place} is no index: it has no index.json" in complaint, "before models are loaded"
    complaint = kobert("serve", "mini-nsmc", "--port", 0, "--index", place / "both").complaint
    assert "both was made with another checkpoint, for its vectors are others" in complaint
    monkeypatch.setitem(sys.modules, "bm25s", None)
    complaint = kobert("serve", "mini-nsmc", "--port", 0, "--index", place / "words").complaint
    assert "words cannot be searched: " in complaint and "bm25s" in complaint and complaint.endswith("; install it")


def test_a_server_keeps_its_index_while_another_takes_its_place(
    tiny: Any, place: Path, tmp_path: Path, kobert: Callable[..., Any]
) -> None:
    folder = shutil.copytree(place / "words", tmp_path / "index")
    with served(tiny, folder, "mini-nsmc") as ask:
        before = ask("mini-nsmc").json()
        shutil.rmtree(folder)
        (tmp_path / "a.txt").write_text("다른 글\n연기가 좋은 글\n", encoding="utf-8")
        assert kobert("index", "mini-nsmc", tmp_path / "a.txt", "--out", folder, "--by", "bm25").code == 0
        assert ask("mini-nsmc").json() == before
    with served(tiny, folder, "mini-nsmc") as ask:
        assert [row["line"] for row in ask("mini-nsmc").json()["data"]] == [2]


def test_the_paths_of_files_stay_on_the_server(tiny: Any, tmp_path: Path, kobert: Callable[..., Any]) -> None:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_text(f"연기가 좋은 {file.name}\n", encoding="utf-8")
    assert kobert("index", "mini-nsmc", *files, "--out", tmp_path / "index", "--by", "bm25").code == 0
    with served(tiny, tmp_path / "index", "mini-nsmc") as ask:
        assert {row["file"] for row in ask("mini-nsmc").json()["data"]} == {"a.txt", "b.txt"}


def test_the_ready_line_says_which_models_search_by_words_alone() -> None:
    service = Service({}, Limits(), index=Path("judgments"))
    for name, index, pooling in (("a", object(), "mean"), ("b", object(), None), ("c", None, None)):
        service.models[name] = cast(
            Any, SimpleNamespace(name=name, endpoints=["/v1/x"], index=index, pooling_of_index=pooling)
        )
    assert ready_line(service) == "ready: a (/v1/x); b (/v1/x); c (/v1/x); b searches in judgments by words alone"
