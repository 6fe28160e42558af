"""Tables of labelled texts in every kind of file, and the errors about files that are not tables."""

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from kobert_pipeline.errors import UserError, UserErrors
from kobert_pipeline.features.tables import Row, each_row, rows

CELLS = [{"text": "가을 하늘이 높다", "label": "날씨"}, {"text": '그는 "좋다, 가자"라고 했다', "label": "말"}]


def write(path: Path, content: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(content.encode(encoding))
    return path


TSV = 'text\tlabel\n가을 하늘이 높다\t날씨\n그는 "좋다, 가자"라고 했다\t말\n'
CSV = 'text,label\r\n가을 하늘이 높다,날씨\r\n"그는 ""좋다, 가자""라고 했다",말\r\n'


def test_rows_of_text_files_are_the_same_in_every_form(tmp_path: Path) -> None:
    for encoding, (name, content) in itertools.product(
        ["utf-8", "utf-8-sig", "cp949", "utf-16"],
        [
            ("a.tsv", TSV),
            ("a.txt", TSV.replace("\n", "\r\n")),
            ("a.tsv", TSV.removesuffix("\n")),
            ("a.csv", CSV),
            ("a.csv", CSV.replace("\r\n", "\n") + "\n"),
            ("a.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n\n" for row in CELLS)),
            ("a.json", json.dumps(CELLS, indent=1)),
        ],
    ):
        assert [row.cells for row in rows(write(tmp_path / name, content, encoding))] == CELLS, (encoding, name)


def test_rows_of_parquet_keep_their_types_and_objects(tmp_path: Path) -> None:
    content = [
        {"text": "글", "label": 1, "labels": {"label": 3.7}},
        {"text": None, "label": 0, "labels": {"label": 0.5}},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(content), tmp_path / "a.parquet")
    found = list(rows(tmp_path / "a.parquet"))
    assert [row.cells for row in found] == content
    assert found[1].place.endswith("a.parquet, row 2")


def test_a_compressed_file_is_read_by_the_ending_before(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(TSV.encode()))
    assert [row.cells for row in rows(tmp_path / "a.tsv.gz")] == CELLS


def test_a_quote_in_a_tsv_file_is_a_character(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'text\tlabel\n"열기만 한 따옴표\t0\n두 글자 ""\t1\n')
    assert [row.cells["text"] for row in rows(path)] == ['"열기만 한 따옴표', '두 글자 ""']


def test_a_csv_file_with_semicolons_in_its_first_line_and_no_commas_is_read_by_them(tmp_path: Path) -> None:
    content = 'text;label\r\n가, 나;0\r\n"다; 라";"1"\r\n'
    found = [row.cells for row in rows(write(tmp_path / "a.csv", content))]
    assert found == [{"text": "가, 나", "label": "0"}, {"text": "다; 라", "label": "1"}]
    with_commas = [row.cells for row in rows(write(tmp_path / "a.csv", "text;note,label\n가;나,0\n"))]
    assert with_commas == [{"text;note": "가;나", "label": "0"}]


def test_a_quoted_field_of_csv_may_go_over_lines_and_places_count_them(tmp_path: Path) -> None:
    found = list(rows(write(tmp_path / "a.csv", 'text,label\n"두\n줄",0\n한 줄,1\n')))
    assert [row.cells["text"] for row in found] == ["두\n줄", "한 줄"]
    assert [row.place.rpartition(", ")[2] for row in found] == ["line 2", "line 4 (row 2 below the first)"]


WRONG_FILES = [
    ("a.tsv", "text\tlabel\n가\t0\n나\n", r"a\.tsv, line 3: 1 columns, 2 were expected"),
    ("a.tsv", "text\tlabel\n가\t0\t1\n", "line 2: 3 columns"),
    ("a.csv", "text,label\n가,0\n나,다,1\n", r"a\.csv, line 3: 3 columns, 2 were expected"),
    ("a.csv", 'text,label\n가,0\n"나,1\n', r"a\.csv, line 3: not CSV"),
    ("a.csv", 'text,label\n"가"나,0\n', "line 2: not CSV"),
    ("a.tsv", "text;label\n가;0\n", r"a\.tsv: its first line has semicolons and no tabs; save .* CSV UTF-8"),
    ("a.csv", "text\tlabel\n가\t0\n", "has tabs and no commas"),
    ("a.csv", "text;label\n가;0\n나;다;1\n", "line 3: 3 columns, 2 were expected"),
    ("a.tsv", "text,label\n가,0\n", "has commas and no tabs"),
    ("a.txt", 'text\tlabel\n가\t0\n"나\n다"\t1\n', "line 3: 1 columns, 2 were expected, .* save .* as CSV UTF-8"),
    ("a.tsv", 'text\tlabel\n가\t0\n"나"\n', "line 3: 1 columns, 2 were expected, as in the first line$"),
    ("a.csv", "text,text\n가,나\n", "two columns of its first line are called 'text'"),
    ("a.jsonl", '{"text": "가"}\n{"text": \n', r"a\.jsonl, line 2: not JSON"),
    ("a.jsonl", '{"text": "가"}\n["나"]\n', "line 2: an object was expected, not list"),
    ("a.json", '{"data": []}', r"a\.json: a list of objects was expected, not dict"),
    ("a.json", '[{"text": "가"}, "나"]', "entry 2: an object was expected, not str"),
    ("a.json", "[", "is not a JSON file"),
    ("a.parquet", "PAR1", "is not a complete Parquet file"),
    ("a.xlsx", "x", r"ends with \.tsv"),
    ("a.parquet.gz", "x", r"ends with \.tsv"),
    ("a.tsv", "", "is empty"),
    ("a.tsv", "\x00\x01\x02", "binary"),
]


def test_a_wrong_file_is_told_in_one_sentence(tmp_path: Path) -> None:
    for name, content, said in WRONG_FILES:
        with pytest.raises(UserError, match=said) as raised:
            list(rows(write(tmp_path / name, content)))
        assert "\n" not in str(raised.value), (name, content)


def test_rows_of_empty_cells_are_no_rows_and_places_count_them(tmp_path: Path) -> None:
    for name, content in [
        ("a.csv", "text,label\n가,0\n,\n나,1\n , \n,\n"),
        ("a.tsv", "text\tlabel\n가\t0\n\t\n나\t1\n\t\n"),
    ]:
        found = [(row.place.rpartition(", ")[2], row.cells["text"]) for row in rows(write(tmp_path / name, content))]
        assert found == [("line 2", "가"), ("line 4", "나")], name


def test_a_file_without_rows_has_none(tmp_path: Path) -> None:
    found: list[Any] = [
        list(rows(write(tmp_path / name, content))) for name, content in (("a.tsv", "text\tlabel\n"), ("a.json", "[]"))
    ]
    assert found == [[], []]


def test_rows_are_numbered_as_in_a_spreadsheet(tmp_path: Path) -> None:
    for name, content, numbers in [
        ("a.csv", "text\n가\n\n나\n", [1, 3]),
        ("a.csv", 'text,n\n\n"가\n가",1\n,\n나,2\n', [2, 4]),
        ("a.tsv", "text\tn\n가\t1\n\n나\t2\n", [1, 3]),
        ("a.jsonl", '{"text": "가"}\n\n{"text": "나"}\n', [1, 2]),
    ]:
        found = list(rows(write(tmp_path / name, content)))
        assert [row.number for row in found] == numbers, content
    found = list(rows(write(tmp_path / "a.csv", 'text,n\n"가\n가",1\n나,2\n')))
    assert [row.place.rpartition("a.csv, ")[2] for row in found] == ["line 2", "line 4 (row 2 below the first)"]


def test_a_table_of_another_form_is_not_read_to_its_end() -> None:
    seen = []

    def refuse(row: Row) -> None:
        seen.append(row.number)
        raise UserError(f"{row.place}: no")

    table = [Row(f"a.csv, line {n}", {}, n) for n in range(5000)]
    with pytest.raises(UserErrors, match=r"line 0: no \(also refused: line 1, .* and at least 994 more\)") as caught:
        each_row(table, refuse)
    assert len(seen) == 1000 and len(caught.value.sentences) == 21
