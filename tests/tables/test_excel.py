"""Excel files are read as the CSV files that Excel saves."""

import builtins
import re
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from sample_files import xlsx

from kobert_pipeline.corpus.readers.csv import Csv
from kobert_pipeline.corpus.readers.nsmc import Nsmc
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Task
from kobert_pipeline.inference.table_fields import column_texts
from kobert_pipeline.tables.rows import read_rows
from kobert_pipeline.tables.unreadable import Row, UnreadableInput, readable

ROWS = [["id", "document", "label"], [7, "재미있다", 1.0], [8, 1004, True], [None, None, None], ["구", "둘\n줄", 0]]
CELLS = [
    {"id": "7", "document": "재미있다", "label": "1"},
    {"id": "8", "document": "1004", "label": "True"},
    {"id": "구", "document": "둘\n줄", "label": "0"},
]


def rows_of(path: Path) -> list[Row | UnreadableInput]:
    return list(read_rows(path))


def test_cells_are_texts_and_rows_are_numbered_as_excel_shows_them(tmp_path: Path) -> None:
    rows = list(readable(read_rows(xlsx(tmp_path / "A.XLSX", ROWS))))
    assert [row.cells for row in rows] == CELLS
    assert [(row.index, row.location.inside) for row in rows] == [(1, "row 2"), (2, "row 3"), (4, "row 5")]


def test_blank_rows_and_columns_around_a_table_are_not_read(tmp_path: Path) -> None:
    moved = [[" "], [], *([None, *row, None] for row in ROWS)]
    [first, *_] = readable(read_rows(xlsx(tmp_path / "a.xlsx", moved)))
    assert (first.cells, first.index, first.location.inside) == (CELLS[0], 1, "row 4")


def test_a_column_without_a_name_is_not_read_and_a_short_row_is_filled(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "a.xlsx", [["", "text", "label"], [0, "가", 1], [1, "나"]])
    assert [row.cells for row in readable(read_rows(path))] == [
        {"text": "가", "label": "1"},
        {"text": "나", "label": ""},
    ]


def test_a_value_beyond_the_named_columns_is_refused_with_its_row(tmp_path: Path) -> None:
    rows = rows_of(xlsx(tmp_path / "a.xlsx", [["text", "label", None], ["가", 1, None], ["나", 0, "더"]]))
    assert isinstance(rows[0], Row) and isinstance(rows[1], UnreadableInput)
    assert str(rows[1]).endswith("row 3: 3 columns, 2 were expected, as in the row of names")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('<c r="A3"><f>A1</f><v></v></c>', None),
        ('<c r="A3" s="0"><f>A1</f></c>', None),
        ('<c r="A3"><f>A1</f><v>7</v></c>', "7"),
        ('<c r="A3" t="str"><f>A1</f><v></v></c>', ""),
        ('<c r="A3" s="0"/>', ""),
    ],
)
def test_a_formula_without_a_value_is_refused_with_its_cell(written: str, value: str | None, tmp_path: Path) -> None:
    workbook, path, other = openpyxl.Workbook(), tmp_path / "a.xlsx", tmp_path / "b.xlsx"
    for row in (["text", "label"], ["=A1", 1], ["=A1", 0]):
        workbook.active.append(row)
    workbook.save(path)
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(other, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "xl/worksheets/sheet1.xml":
                content = re.sub(rb"(<f>A1</f>)<v ?/?>(</v>)?", rb"\1<v>1</v>", content, count=1)
                content, count = re.subn(rb'<c r="A3">.*?</c>', written.encode(), content)
                assert count == 1
            copy.writestr(name, content)
    first, second = rows_of(other)
    assert isinstance(first, Row) and first.cells == {"text": "1", "label": "1"}
    if value is None:
        assert "row 3: the cell A3 holds a formula whose value" in str(second)
    else:
        assert isinstance(second, Row) and second.cells == {"text": value, "label": "0"}


def test_a_carriage_return_of_excel_and_a_date_are_text(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "a.xlsx", [["text", "day"], ["가_x000D_\n나", date(2026, 3, 4)]])
    assert [row.cells for row in readable(read_rows(path))] == [{"text": "가\r\n나", "day": "2026-03-04"}]


@pytest.mark.parametrize("title", ["숨은 표", "빈 표"])
def test_hidden_and_empty_sheets_are_not_read(tmp_path: Path, title: str) -> None:
    path = xlsx(tmp_path / "a.xlsx", ROWS)
    workbook = openpyxl.load_workbook(path)
    sheet = workbook.create_sheet(title, 0)
    if title == "숨은 표":
        sheet.append(["다른", "표"])
        sheet.sheet_state = "hidden"
    workbook.save(path)
    assert [row.cells for row in readable(read_rows(path))] == CELLS


@pytest.mark.parametrize(("row", "value"), [(1, "text"), (1, 0), (1_500, "text")])
def test_two_sheets_with_rows_are_refused(tmp_path: Path, row: int, value: object) -> None:
    path = xlsx(tmp_path / "a.xlsx", ROWS)
    workbook = openpyxl.load_workbook(path)
    workbook.create_sheet("둘째").cell(row, 1, value)
    workbook.save(path)
    with pytest.raises(UserError, match=r"has 2 sheets with rows \(표, 둘째\); keep one"):
        rows_of(path)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["text", "text"], ["가", "나"]], "two columns of its first row are called 'text'"),
        ([[None], [None]], "has no rows; there is nothing to read"),
        ([[" "], [None]], "has no rows; there is nothing to read"),
        ([["text"], ["가"], ["=1/0"]], "row 3: the cell A3 holds the error #DIV/0!"),
    ],
)
def test_a_wrong_sheet_is_refused(tmp_path: Path, rows: list, said: str) -> None:
    path = xlsx(tmp_path / "a.xlsx", rows)
    if rows[-1] == ["=1/0"]:
        workbook = openpyxl.load_workbook(path)
        workbook.active["A3"].value = "#DIV/0!"
        workbook.save(path)
    with pytest.raises(UserError, match=said):
        list(readable(read_rows(path)))


READERS = [
    lambda path: [document.text for document in Csv(path="a.xlsx", text="document").documents(path)],
    lambda path: [document.text for document in Nsmc(path="a.xlsx").documents(path)],
    lambda path: [text for text, _ in column_texts(path, "document")],
    lambda path: [example["text"] for example in Task.choose("nsmc").read(path)],
    lambda path: [example["text"] for example in Task.choose("classification").read(path)],
]


@pytest.mark.parametrize("read", READERS, ids=["reader csv", "reader nsmc", "column", "task nsmc", "classification"])
def test_every_way_to_read_a_table_reads_excel(tmp_path: Path, read: Any) -> None:
    assert read(xlsx(tmp_path / "a.xlsx", ROWS)) == [cells["document"] for cells in CELLS]


def test_a_missing_column_is_answered_as_in_a_csv_file(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "a.xlsx", ROWS)
    with pytest.raises(UserError, match=r"no column 'text' in its first row .*; the source's option text names"):
        list(Csv(path="a.xlsx").documents(path))
    with pytest.raises(UserError, match="the first line of the file must hold the names of the columns"):
        Task.choose("acceptability").read(path)


@pytest.mark.parametrize("read", READERS[:3])
def test_without_openpyxl_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Any) -> None:
    path, importer = xlsx(tmp_path / "a.xlsx", ROWS), builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] == "openpyxl":
            raise ImportError(name)
        return importer(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"requires the library openpyxl; run: pip install 'kobert-pipeline\[xlsx\]'"):
        read(path)


@pytest.mark.parametrize(("cut", "said"), [("\x01", "not well-formed"), ("<", "not well-formed")])
def test_a_sheet_that_is_no_xml_is_damaged(tmp_path: Path, cut: str, said: str) -> None:
    path, broken = xlsx(tmp_path / "a.xlsx", [["text", "label"], [7, 1]]), tmp_path / "broken.xlsx"
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(broken, "w") as archive:
        for name in whole.namelist():
            content = whole.read(name)
            archive.writestr(name, content.replace(b"<v>7", f"<v>{cut}7".encode()) if "sheet1" in name else content)
    with pytest.raises(UserError, match=f"is not an Excel file that can be read .{said}"):
        rows_of(broken)
