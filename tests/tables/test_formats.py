"""A file in, rows out: whatever format a table is written in by the usual tools, there are as many rows, with the same
texts."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_files import parquet, write, xlsx

from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.tables.rows import read_rows
from kobert_pipeline.tables.unreadable import readable

Texts = list[str]


def by_csv(path: Path, texts: Texts) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text", "n"], *([text, n] for n, text in enumerate(texts))])
    return path


def by_squad(path: Path, texts: Texts) -> Path:
    paragraphs = [{"context": text, "qas": [{"question_id": str(n), "question": "?"}]} for n, text in enumerate(texts)]
    return write(path, json.dumps({"data": [{"paragraphs": paragraphs[:1]}, {"paragraphs": paragraphs[1:]}]}))


def by_modu(path: Path, texts: Texts) -> Path:
    sentences = [{"id": str(n), "form": text} for n, text in enumerate(texts)]
    return write(path, json.dumps({"document": [{"sentence": sentences[:2]}, {"sentence": sentences[2:]}]}))


def rows_of(texts: Texts) -> list[dict[str, str]]:
    return [{"text": text} for text in texts]


def json_of(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent) + "\n"


FORMATS: dict[str, tuple[str, Callable[[Path, Texts], Path]]] = {
    "a.csv": ("text", by_csv),
    "a.tsv": ("text", lambda path, texts: write(path, "n\ttext\n" + "".join(f"1\t{text}\n" for text in texts))),
    "a.xlsx": ("text", lambda path, texts: xlsx(path, [["text", "n"], *([text, 1] for text in texts)])),
    "a.jsonl": ("text", lambda path, texts: write(path, "".join(json.dumps({"text": text}) + "\n" for text in texts))),
    "a.json": ("text", lambda path, texts: write(path, json.dumps(rows_of(texts), indent=1))),
    "a.parquet": ("text", lambda path, texts: parquet(path, {"text": texts})),
    # under the other name, as `datasets` writes JSON Lines, and below each other, as jq prints objects
    "lines.json": ("text", lambda path, texts: write(path, "".join(json_of({"text": text}) for text in texts))),
    "list.jsonl": ("text", lambda path, texts: write(path, json_of(rows_of(texts)))),
    "jq.jsonl": ("text", lambda path, texts: write(path, "".join(json_of({"text": text}, 2) for text in texts))),
    "below-a-key.json": ("text", lambda path, texts: write(path, json_of({"info": {}, "data": rows_of(texts)}, 1))),
    "spacy.json": ("text", lambda path, texts: write(path, json_of([[text, {"entities": []}] for text in texts]))),
    "squad.json": ("context", by_squad),
    "modu.json": ("form", by_modu),
}

one_line = st.text(
    st.one_of(st.sampled_from('",;= 가나\u200b\u2028😀'), st.characters(exclude_categories=["Cs", "Cc"])), max_size=12
)
"""Without control characters, which neither TSV nor XML holds."""


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(one_line.filter(lambda text: "\ufeff" not in text), min_size=2, max_size=6))
def test_a_table_in_and_its_texts_out(tmp_path_factory: pytest.TempPathFactory, name: str, texts: Texts) -> None:
    column, write_as = FORMATS[name]
    path = write_as(tmp_path_factory.getbasetemp() / name, texts)
    assert [row.cells[column] for row in readable(read_rows(path))] == texts


READERS = {
    "a.csv": {"name": "csv", "text": "text"},
    "a.tsv": {"name": "csv", "text": "text"},
    "a.xlsx": {"name": "csv", "text": "text"},
    "a.jsonl": {"name": "jsonl", "id": None},
    "a.json": {"name": "json", "documents_at": "*", "text": "text"},
    "a.parquet": {"name": "parquet"},
    "squad.json": {"name": "squad"},
    "lines.txt": {"name": "text", "documents_by": "line"},
}


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text("가나다 ,.\"'😀", min_size=1, max_size=9).filter(str.strip), min_size=2, max_size=6))
def test_a_source_in_and_its_documents_out(tmp_path_factory: pytest.TempPathFactory, name: str, texts: Texts) -> None:
    folder = tmp_path_factory.getbasetemp()
    if name in FORMATS:
        FORMATS[name][1](folder / name, texts)
    else:
        write(folder / name, "".join(f"{text}\n" for text in texts))
    documents = list(Reader.choose(READERS[name] | {"path": name}).read(folder))
    assert [document.text for document in documents] == texts
