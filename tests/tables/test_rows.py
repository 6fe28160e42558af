"""Good files: equal rows in every format, encoding and compression, with their locations and numbers."""

import csv
import json
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sample_files import COMPRESSIONS, parquet, squad, write

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Task
from kobert_pipeline.tables.columns import RowField, cell, find_columns, parse_container, values_of
from kobert_pipeline.tables.csv import read_csv
from kobert_pipeline.tables.rows import read_parquet, read_rows
from kobert_pipeline.tables.squad import questions
from kobert_pipeline.tables.unreadable import Location, Row, readable

CELLS = [{"text": "가을 하늘이 높다", "label": "날씨"}, {"text": '그는 "좋다, 가자"라고 했다', "label": "말"}]
TSV = 'text\tlabel\n가을 하늘이 높다\t날씨\n그는 "좋다, 가자"라고 했다\t말\n'
CSV = 'text,label\r\n가을 하늘이 높다,날씨\r\n"그는 ""좋다, 가자""라고 했다",말\r\n'
CONTENTS = [
    ("a.tsv", TSV),
    ("a.txt", TSV.replace("\n", "\r\n")),
    ("a.tsv", TSV.removesuffix("\n")),
    ("A.CSV", CSV),
    ("a.csv", CSV.replace("\r\n", "\n") + "\n"),
    ("a.csv", CSV.replace(",날", ";날").replace("t,l", "t;l").replace(",말", ";말")),
    ("a.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n\n" for row in CELLS)),
    ("a.json", json.dumps(CELLS, ensure_ascii=False, indent=1)),
]


def cells_of(path: Path) -> list[dict]:
    return [row.cells for row in readable(read_rows(path))]


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
def test_rows_are_the_same_in_every_format_encoding_and_compression(tmp_path: Path, encoding: str, suffix: str) -> None:
    rows = [
        cells_of(write(tmp_path / f"{name}{suffix}", COMPRESSIONS[suffix](content.encode(encoding))))
        for name, content in CONTENTS
    ]
    assert rows == [CELLS] * len(CONTENTS)


def test_a_time_that_python_has_none_for_is_text(tmp_path: Path) -> None:
    late = pyarrow.array([253402300799, 0], pyarrow.timestamp("s", "UTC")).cast(pyarrow.timestamp("s", "Asia/Seoul"))
    pyarrow.parquet.write_table(pyarrow.table({"text": ["글", "말"], "until": late}), tmp_path / "a.parquet")
    rows = [row.cells for row in readable(read_parquet(tmp_path / "a.parquet"))]
    assert [row["text"] for row in rows] == ["글", "말"]
    assert all(isinstance(row["until"], str) for row in rows)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([[253402300799], []], pyarrow.list_(pyarrow.timestamp("s", "Asia/Seoul"))),
        ([{"u": 253402300799}, {"u": 0}], pyarrow.struct({"u": pyarrow.timestamp("s", "Asia/Seoul")})),
    ],
    ids=["list", "struct"],
)
def test_a_time_in_a_list_that_python_has_none_for_is_a_row_that_is_refused(
    values: list[Any], type_: Any, tmp_path: Path
) -> None:
    table = pyarrow.table({"times": pyarrow.array(values, type_), "text": ["글", "말"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    problem, row = read_parquet(tmp_path / "a.parquet")
    assert "row 1: a value that Python does not have (" in str(problem)
    assert isinstance(row, Row) and row.cells["text"] == "말"


def test_late_times_and_text_that_is_no_utf_8_in_one_file(tmp_path: Path) -> None:
    late = pyarrow.array([253402300799, 0], pyarrow.timestamp("s", "Asia/Seoul"))
    texts = pyarrow.array([b"\xb1\xdb", "글".encode()], pyarrow.binary()).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"until": late, "text": texts}), tmp_path / "a.parquet")
    problem, row = read_parquet(tmp_path / "a.parquet")
    assert "not UTF-8" in str(problem) and isinstance(row, Row) and row.cells["text"] == "글"


def test_rows_of_parquet_keep_their_types_and_objects(tmp_path: Path) -> None:
    labels = [{"label": 3.7}, {"label": 0.5}]
    path = parquet(tmp_path / "a.parquet", {"text": ["글", None], "label": [1, 0], "labels": labels})
    rows = list(readable(read_rows(path)))
    assert rows[1] == Row({"text": None, "label": 0, "labels": labels[1]}, Location(path, "row", 2), 2)
    assert [row.cells for row in readable(read_parquet(path, {"label": ""}))] == [{"label": 1}, {"label": 0}]


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_file_of_several_compressed_ones_is_read_to_its_end(tmp_path: Path, suffix: str) -> None:
    content = COMPRESSIONS[suffix]("text\n하나\n".encode()) + COMPRESSIONS[suffix]("둘\n".encode())
    assert cells_of(write(tmp_path / f"a.csv{suffix}", content)) == [{"text": "하나"}, {"text": "둘"}]


def test_a_quote_in_a_tsv_file_is_a_character(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'text\tlabel\n"열기만 한 따옴표\t0\n두 글자 ""\t1\n')
    assert [cells["text"] for cells in cells_of(path)] == ['"열기만 한 따옴표', '두 글자 ""']


def test_a_csv_file_with_a_comma_in_its_first_line_has_commas(tmp_path: Path) -> None:
    assert cells_of(write(tmp_path / "a.csv", "text;note,label\n가;나,0\n")) == [{"text;note": "가;나", "label": "0"}]


OPTIONS = [
    ("a.dat", 'text|x\n"가|나"|1\n', {"delimiter": "|"}, "가|나"),
    ("a.csv", 'text;x\n"가";1\n', {"delimiter": ";", "quoted": False}, '"가"'),
    ("a.tsv", 'text\tx\n"가\n나"\t1\n', {"quoted": True}, "가\n나"),
    ("a.csv", "text,x\n" + "가\x00나,1\n" + "다,1\n" * 99, {}, "가\x00나"),
    ("a.csv", b"text\n" + "가나다라\n".encode() * 9 + b"\xff\n", {"lossy": True}, "가나다라"),
]


@pytest.mark.parametrize(("name", "content", "options", "text"), OPTIONS)
def test_delimiter_and_quotes_can_be_given_and_stray_bytes_may_be_kept(
    tmp_path: Path, name: str, content: str | bytes, options: dict, text: str
) -> None:
    assert next(readable(read_csv(write(tmp_path / name, content), **options))).cells["text"] == text


cells = st.text(
    st.one_of(
        st.sampled_from('",\t;\r\n 가'), st.characters(exclude_categories=["Cs"], exclude_characters="\x00\ufeff")
    ),
    max_size=9,
)
"""Neither null bytes, which no text holds, nor byte order marks, which are dropped at the beginning of lines."""


@given(
    table=st.integers(1, 3).flatmap(
        lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), max_size=5)
    ),
    delimiter=st.sampled_from(",;\t|"),
    ends=st.sampled_from(["\n", "\r\n"]),
    every=st.booleans(),
)
@example(table=[[""], ["\n"], ['"']], delimiter=",", ends="\n", every=False)
@example(table=[["\u2028가", "\x85\x0b"]], delimiter="\t", ends="\r\n", every=False)
def test_what_a_csv_writer_writes_is_read(tmp_path_factory, table, delimiter, ends, every) -> None:
    # Python 3.11 forgets to quote those
    assume(every or ends == "\r\n" or not any("\r" in cell for row in table for cell in row))
    path = tmp_path_factory.getbasetemp() / "written.csv"
    columns = ["가", "나", "다"][: len(table[0]) if table else 1]
    with path.open("w", encoding="utf-8", newline="") as file:
        quoting = csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL
        csv.writer(file, delimiter=delimiter, lineterminator=ends, quoting=quoting).writerows([columns, *table])
    rows = readable(read_csv(path, delimiter, quoted=True, encoding="utf-8"))
    assert [list(row.cells.values()) for row in rows] == [row for row in table if any(map(str.strip, row))]


NUMBERED = [
    ("a.csv", "text\n가\n\n나\n", [(1, "line 2"), (3, "line 4")]),
    ("a.csv", 'text,n\n\n"가\n가",1\n,\n나,2\n', [(2, "line 3"), (4, "line 6 (row 4 below the first)")]),
    ("a.csv", "text,label\n가,0\n,\n나,1\n , \n,\n", [(1, "line 2"), (3, "line 4")]),
    ("a.csv", "\n;;\ntext;n\n가;1\n\n나;2\n", [(1, "line 4"), (3, "line 6")]),
    ("a.csv", ";;\ntext,n\n가,1\n나,2\n", [(1, "line 3"), (2, "line 4")]),
    ("a.csv", '"","\u3000"\ntext,n\n가,"1\n2"\n나,2\n', [(1, "line 3"), (2, "line 5 (row 2 below the first)")]),
    ("a.tsv", "text\tlabel\n가\t0\n\t\n나\t1\n\t\n", [(1, "line 2"), (3, "line 4")]),
    ("a.jsonl", '{"text": "가"}\n\n{"text": ""}\n', [(1, "line 1"), (2, "line 3")]),
    ("a.json", '[{"text": "가"}, {}]', [(1, "entry 1"), (2, "entry 2")]),
    ("a.json", squad({"id": 7}, {"guid": "b"}, {}), [(0, "question 7"), (0, "question b"), (0, "question 3")]),
    ("a.csv", "text,label\n", []),
    ("a.json", "[]", []),
]


@pytest.mark.parametrize(("name", "content", "expected"), NUMBERED)
def test_rows_are_numbered_as_in_a_spreadsheet_and_located_in_the_file(
    tmp_path: Path, name: str, content: str, expected: list
) -> None:
    rows = readable(read_rows(write(tmp_path / name, content)))
    assert [(row.index, row.location.inside) for row in rows] == expected


def test_questions_have_their_own_keys_and_their_context(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", squad({"guid": "a", "question": "누가?", "answers": []}, {"id": 1, "guid": 2}))
    rows = [row.cells for row in readable(questions(path))]
    assert rows == [
        {"id": "a", "question": "누가?", "answers": [], "context": "민수가 갔다"},
        {"id": 1, "context": "민수가 갔다"},
    ]
    assert rows == cells_of(path)


def test_a_column_is_the_given_one_or_the_first_known_one_and_a_dot_leads_into_an_object() -> None:
    row = Row({"a.b": 1, "c": {"d": {"e": 2}}, "text": "글", "id": "x"}, Location(Path("a.json"), "entry", 1), 1)
    fields = [
        RowField("label", "c.d.e"),
        RowField("text", known=("sentence", "text", "id")),
        RowField("lead", known=("sent2",), required=False),
        RowField("pair"),
    ]
    columns = find_columns(row, fields, "nli")
    assert columns == {"label": "c.d.e", "text": "text"}
    assert values_of(row, columns) == {"label": 2, "text": "글"}
    assert cell(row, "a.b") == 1


LATE = [
    ("choice", {"premise": "글", "choice1": "가", "choice2": "나", "label": 0}, {"question": "왜?"}),
    ("contrastive", {"query": "글", "positive": "가"}, {"negative": "나"}),
    ("contrastive", {"query": "글", "positive": "가"}, {"score": 0.1}),
    ("span", {"question": "몇?", "context": "5명과 5명", "answer": "5명과"}, {"start": 4, "answer": "5명"}),
]


@pytest.mark.parametrize(("task", "row", "more"), LATE)
def test_what_only_a_later_row_has_is_not_left_out(task: str, row: dict, more: dict, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in (row, row | more)), encoding="utf-8")
    with pytest.raises(UserError, match=f"line 2: the column '{next(iter(more))}' is in this row but not in the first"):
        Task.choose(task).read(path)
    nothing = dict.fromkeys(more) | {"answer": row["answer"]} if task == "span" else dict.fromkeys(more)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in (row, row | nothing)), encoding="utf-8")
    assert len(Task.choose(task).read(path)) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("['가' '나']", ["가", "나"]), ("{'가', '나'}", ["가", "나"]), ("array([1, 2])", "array([1, 2])"),
        ("[01]", "[01]"), ("[01, 03]", "[01, 03]"),
        ("[속보] 비가 온다", "[속보] 비가 온다"), ("[속보]", "[속보]"), ("(웃음)", "(웃음)"), ("{1 + }", "{1 + }"),
    ],
)  # fmt: skip
def test_what_is_in_brackets_is_a_list_only_where_it_reads_as_one(text: str, value: Any) -> None:
    assert parse_container(text) == value


QUOTED = {
    "pandas.tsv": ('그는 "좋다"고 했다', '"그는 ""좋다""고 했다"', "다른 글"),
    "excel.txt": ("내일, 비가 오나요?", '"내일, 비가 오나요?"', "다른 글"),
}


@pytest.mark.parametrize(("name", "text", "cell", "other"), [(name, *rest) for name, rest in QUOTED.items()])
def test_quotes_of_a_tsv_file_that_all_enclose_cells_are_no_text(
    name: str, text: str, cell: str, other: str, tmp_path: Path
) -> None:
    content = f"text\tlabel\n{cell}\t1\n{other}\t0\n"
    assert [row["text"] for row in cells_of(write(tmp_path / name, content.encode()))] == [text, other]
    for own in ('그는 "좋다"고', '"끝나지 않은', "쉼표, 하나" if name == "excel.txt" else '"'):
        rows = cells_of(write(tmp_path / name, f"{content}{own}\t1\n".encode()))
        assert [row["text"] for row in rows] == [cell, other, own], "one quote of its own shows that all are text"


@pytest.mark.parametrize("text", ['""', '"좋다"'])
def test_quotes_that_no_program_would_have_written_are_text(text: str, tmp_path: Path) -> None:
    rows = cells_of(write(tmp_path / "a.tsv", f"text\tlabel\n가\t0\n{text}\t1\n".encode()))
    assert [row["text"] for row in rows] == ["가", text]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_names_of_columns_inside_a_table_are_no_row(name: str, tmp_path: Path) -> None:
    content = "text,label\n글,1\ntext,label\n말,0\n".replace(",", "," if name == "a.csv" else "\t")
    with pytest.raises(UserError, match="line 3: it repeats the names of the columns, as where files were joined"):
        cells_of(write(tmp_path / name, content.encode()))


def test_blanks_after_commas_are_no_part_of_cells(tmp_path: Path) -> None:
    rows = cells_of(write(tmp_path / "a.csv", 'label, text\n긍정, "정말, 좋아요"\n부정, "별로"\n'.encode()))
    assert rows == [{"label": "긍정", "text": "정말, 좋아요"}, {"label": "부정", "text": "별로"}]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "문장,라벨\n글,1\n"), *((f"a.{kind}", '{"문장": "글", "라벨": 1}') for kind in ("jsonl", "json"))],
)
def test_names_of_columns_are_composed(name: str, content: str, tmp_path: Path) -> None:
    rows = f"[{content}]" if name == "a.json" else content
    [row] = read_rows(write(tmp_path / name, normalize("NFD", rows).encode()))
    assert isinstance(row, Row) and list(row.cells) == ["문장", "라벨"]
    named = RowField("text", normalize("NFD", "문장"))
    assert find_columns(row, [named], "classification") == {"text": "문장"}


def test_names_of_columns_that_look_the_same_hide_no_value(tmp_path: Path) -> None:
    row = {"문장": "글", normalize("NFD", "문장"): "말"}
    [read] = read_rows(write(tmp_path / "a.jsonl", json.dumps(row, ensure_ascii=False).encode()))
    assert isinstance(read, Row) and read.cells == row
