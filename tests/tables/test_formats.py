"""A file in, rows out: whatever format a table is written in by the usual tools, there are as many rows, with the same
texts."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sample_files import parquet, write, xlsx

from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.tables.csv import has_quoted_cells
from kobert_pipeline.tables.file_type import text_format
from kobert_pipeline.tables.rows import read_rows
from kobert_pipeline.tables.unreadable import Row, UnreadableInput, readable

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
    return write(
        path, json.dumps({"document": [{"id": "1", "sentence": sentences[:2]}, {"id": "2", "sentence": sentences[2:]}]})
    )


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


GOOD_AND_BAD: dict[str, tuple[str, str, str, str]] = {
    "a.csv": ("글,1\n", "글\n", "text,n\n", "글,1\n"),
    "a.tsv": ("글\t1\n", "글\t0\t0\n", "text\tn\n", "글\t1\n"),
    "a.jsonl": ('{"text": "글"}\n', '{"text": \n', "\n", '{"text": "글"}\n'),
    "a.json": ('{"text": "글"},', "3,", "[", '{"text": "글"}]'),
    "squad.json": (
        '{"id": 1},', "3,", '{"data": [{"paragraphs": [{"context": "글", "qas": [', '{"id": 1}]}]}]}'
    ),
    "modu.json": ('{"form": "글"},', '{"text": 0},', '{"document": [{"sentence": [', '{"form": "글"}]}]}'),
}  # fmt: skip
"""A good row, a bad one, how the file begins, and its end with a good row."""


def with_error(path: Path, good: list[bool]) -> Path:
    """An Excel file, in whose bad rows a formula has failed."""
    xlsx(path, [["text"], *(["글" if is_good else "#DIV/0!"] for is_good in good)])
    workbook = openpyxl.load_workbook(path)
    for row, is_good in enumerate(good, 2):
        workbook.active.cell(row, 1).data_type = "s" if is_good else "e"
    workbook.save(path)
    return path


def with_bytes(path: Path, good: list[bool]) -> Path:
    """A Parquet file, in whose bad rows a text is not UTF-8."""
    texts = pyarrow.array(["글".encode()[: 3 if is_good else 2] for is_good in good])
    return parquet(path, {"text": texts.view(pyarrow.string())})


@pytest.mark.parametrize("name", [*GOOD_AND_BAD, "a.xlsx", "a.parquet"])
@settings(max_examples=25, deadline=None)
@given(good=st.lists(st.booleans(), max_size=8))
def test_every_row_is_read_or_refused_by_its_place(
    tmp_path_factory: pytest.TempPathFactory, name: str, good: list[bool]
) -> None:
    path = tmp_path_factory.getbasetemp() / f"bad-{name}"
    is_good = [*good, True]
    if name in GOOD_AND_BAD:
        good_row, bad_row, begin, end = GOOD_AND_BAD[name]
        write(path, begin + "".join(good_row if row else bad_row for row in good) + end)
    else:
        (with_error if name == "a.xlsx" else with_bytes)(path, is_good)
    rows = list(read_rows(path))
    assert [isinstance(row, Row) for row in rows] == is_good
    refused = {row.location for row in rows if isinstance(row, UnreadableInput)}
    assert None not in refused and len(refused) == good.count(False)


def lines_of(form: str) -> Callable[[Path, Texts], Path]:
    """What writes a text by this form, in which {0} is its number, from 10, and {1} the text."""
    begin, row, end = form.split("|")
    return lambda path, texts: write(path, begin + "".join(map(row.format, range(10, 99), texts)) + end)


SOURCES = {
    "lines.txt": ("text", lines_of("|{1}\n\n|")),
    "nsmc.txt": ("nsmc", lines_of("id\tdocument\tlabel\n|{0}\t{1}\t1\n|")),
    "modu.json": ("modu", by_modu),
    "wiki_00": ("wikiextractor", lines_of('|<doc id="{0}" url="u" title="제목">\n제목\n\n{1}\n</doc>\n|')),
    "a.srt": ("subtitles", lines_of("|{0}\n00:00:{0},000 --> 00:00:{0},500\n{1}\n\n|")),
    "a.vtt": ("subtitles", lines_of("WEBVTT\n\n|00:{0}.000 --> 00:{0}.500\n{1}\n\n|")),
    "a.sbv": ("subtitles", lines_of("|0:00:{0}.000,0:00:{0}.500\n{1}\n\n|")),
    "a.smi": ("subtitles", lines_of("<SAMI><BODY>\n|<SYNC Start={0}><P Class=KRCC>\n{1}\n|</BODY></SAMI>")),
    "a.lrc": ("subtitles", lines_of("[ti:제목]\n|[00:{0}.00]{1}\n|")),
    "pc.txt": ("chat", lines_of("글 님과 카카오톡 대화\n저장한 날짜 : 2024-05-01\n|[민수] [오전 9:{0}] {1}\n|")),
    "phone.txt": ("chat", lines_of("글 님과 카카오톡 대화\n저장한 날짜 : 1\n|2024. 5. 1. 오전 9:{0}, 민수 : {1}\n|")),
    "mac.csv": ("chat", lines_of('Date,User,Message\n|2024-05-01 09:00:{0},민수,"{1}"\n|')),
    "a.html": ("html", lines_of("<html><body>|<p>{1}</p>|</body></html>")),
    "dump.xml": ("wikipedia", lines_of(
        "<mediawiki>|<page><title>제목</title><ns>0</ns><id>{0}</id><revision><text>{1}</text></revision></page>|"
        "</mediawiki>")),
    "data": ("datasets", lambda path, texts: FORMATS["a.jsonl"][1](path / "train.jsonl", texts)),
}  # fmt: skip
"""File: its reader, and what writes texts to it."""


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=15, deadline=None)
@given(texts=st.lists(st.text("가나다라", min_size=2, max_size=9), min_size=2, max_size=6))
def test_a_source_in_and_all_its_texts_out(tmp_path_factory: pytest.TempPathFactory, name: str, texts: Texts) -> None:
    folder = tmp_path_factory.getbasetemp()
    reader, write_as = SOURCES[name]
    # no two are alike, since a subtitle that is shown again is the same one
    texts = [f"바다가 보이는 방에서 {number}번째로 {text} 불렀다" for number, text in enumerate(texts)]
    (folder / "data").mkdir(exist_ok=True)
    write_as(folder / name, texts)
    documents = Reader.choose({"name": reader, "path": name}).read(folder)
    lines = [line for document in documents for line in document.text.splitlines() if line != "제목"]
    assert lines == texts


READERS = {
    "a.csv": {"name": "csv", "text": "text"},
    "a.tsv": {"name": "csv", "text": "text"},
    "a.xlsx": {"name": "csv", "text": "text"},
    "a.jsonl": {"name": "jsonl", "id": None},
    "a.json": {"name": "json", "documents_at": "*", "text": "text"},
    "a.parquet": {"name": "parquet"},
    "squad.json": {"name": "squad"},
    "by-line.txt": {"name": "text", "documents_by": "line"},
}


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text("가나다 ,.\"'😀", min_size=1, max_size=9).filter(str.strip), min_size=2, max_size=6))
def test_a_source_in_and_its_documents_out(tmp_path_factory: pytest.TempPathFactory, name: str, texts: Texts) -> None:
    folder = tmp_path_factory.getbasetemp()
    if name in FORMATS:
        FORMATS[name][1](folder / name, texts)
        # a single text in quotes may be one that a program has put in quotes
        assume(name != "a.tsv" or not has_quoted_cells(folder / name, None))
    else:
        content = "".join(f"{text}\n" for text in texts)
        assume(text_format(content) is None)  # lines that look like a table are refused
        write(folder / name, content)
    documents = list(Reader.choose(READERS[name] | {"path": name}).read(folder))
    assert [document.text for document in documents] == texts
