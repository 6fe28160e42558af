"""Excel files (.xlsx), read as the CSV file that Excel would save: column names in the first row, and text in the cells
(optional extra `xlsx`). Sheets that are hidden or empty are not read."""

import re
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unicodedata import normalize

from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.columns import text_of
from kobert_pipeline.tables.csv import refuse_wrong_header
from kobert_pipeline.tables.open_text import open_binary
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput

FORMULA = re.compile(rb"<(?:\w{1,9}:)?f[\s/>]")
"""The beginning of a formula in the XML of a sheet."""


def read_excel(path: Path, columns: Mapping[str, str] = MappingProxyType({})) -> Iterator[Row | UnreadableInput]:
    """The rows of a file below its header, the first row that is not blank; blank rows are left out. `columns`: names
    that the header must have, each with what to do where it is missing. Raises UnreadableInput for a damaged file and
    wrong names, UserError where openpyxl is not installed or two sheets have rows."""
    if not zipfile.is_zipfile(path):
        with open_binary(path):  # refuses what is missing, empty or an older office file
            raise UnreadableInput("damaged", f"{path} is not a complete Excel file; save it again, or as CSV UTF-8")
    workbook = _open(path)
    try:
        names, index = list[str](), 0
        sheet = _only_sheet(path, workbook)
        # openpyxl gives either a formula or its value, so both are read side by side
        # not strict, since `_formulas` gives rows without end for a file that has none
        rows = zip(_whole(path, sheet), _formulas(path, sheet.title), strict=False)
        for row_number, (cells, formulas) in enumerate(rows, 1):
            index += bool(names)
            location = Location(path, "row", row_number)
            if problem := _without_value(cells, formulas):
                yield UnreadableInput("wrong_type", problem, location)
            elif not any(values := [_text(cell.value) for cell in cells]):
                continue
            elif not names and not any(map(str.strip, values)):
                continue  # blanks name no column
            elif names and any(values[len(names) :]):
                problem = f"{len(values)} columns, {len(names)} were expected, as in the row of names"
                yield UnreadableInput("columns", problem, location)
            elif names:
                # a column without a name, as of row numbers, is nobody's
                pairs = zip(names, [*values, *[""] * (len(names) - len(values))], strict=False)
                yield Row({name: value for name, value in pairs if name}, location, index)
            else:
                names = [normalize("NFC", value).strip() for value in values]
                names = names[: max(index for index, name in enumerate(names, 1) if name)]
                refuse_wrong_header(path, names, columns, "row")
        if not names:
            raise _without_rows(path)
    finally:
        workbook.close()  # openpyxl keeps a read-only file open


def _without_value(cells: Any, formulas: Any) -> str:
    """What is wrong with a row that has a formula without a value, or with an error for one; "" where nothing is."""
    if error := next((cell for cell in cells if cell.data_type == "e"), None):
        return f"the cell {error.coordinate} holds the error {error.value}; correct its formula"
    for cell, formula in zip(cells, formulas, strict=False):
        # of an empty text, which a formula may have for a value, the type is another
        if cell.value is None and cell.data_type == "n" and formula.data_type == "f":
            return (
                f"the cell {formula.coordinate} holds a formula whose value the program that wrote it did not compute; "
                "open the file in Excel or LibreOffice and save it"
            )
    return ""


def _formulas(path: Path, title: str) -> Iterator[Any]:
    """The rows of a sheet with formulas in place of their values, or rows without cells where a file has no
    formulas."""
    try:
        with zipfile.ZipFile(path) as archive:
            has_formulas = any(map(partial(_has_formula, archive), archive.namelist()))
    except Exception as error:  # a damaged archive
        raise _damaged(path, error) from None
    if not has_formulas:
        yield from repeat(())
    workbook = _open(path, data_only=False)
    try:
        workbook[title].reset_dimensions()
        yield from _whole(path, workbook[title])
    finally:
        workbook.close()


def _has_formula(archive: zipfile.ZipFile, name: str) -> bool:
    if not name.startswith("xl/worksheets/"):
        return False
    with archive.open(name) as file:
        before = b""
        while block := file.read(1 << 20):
            if FORMULA.search(before + block):
                return True
            before = block[-16:]  # a formula may begin at the end of a block; the longest match has 13 bytes
    return False


def _open(path: Path, data_only: bool = True) -> Any:
    try:
        import openpyxl
    except ImportError:
        raise UserError(
            f"{path} is an Excel file, which requires the library openpyxl; run: pip install 'kobert-pipeline[xlsx]', "
            "or save it as CSV UTF-8"
        ) from None
    try:
        # `data_only`: the values that formulas had when the file was saved
        return openpyxl.load_workbook(path, read_only=True, data_only=data_only)
    except Exception as error:  # whatever openpyxl meets in an archive that is none of Excel's
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> UnreadableInput:
    problem = f"{path} is not an Excel file that can be read ({str(error) or type(error).__name__:.80})"
    return UnreadableInput("damaged", f"{problem}; save it again, or as CSV UTF-8")


def _whole(path: Path, sheet: Any) -> Iterator[Any]:
    """The rows of a sheet. Raises UnreadableInput where it cannot be read to its end."""
    try:
        yield from sheet.iter_rows()
    except Exception as error:  # openpyxl reads a sheet row by row
        raise _damaged(path, error) from None


def _only_sheet(path: Path, workbook: Any) -> Any:
    """The sheet that has rows. Raises UserError for several."""
    sheets = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    for sheet in sheets:
        sheet.reset_dimensions()  # other tools write wrong ones
    filled = [sheet for sheet in sheets if any(map(_is_filled, sheet.iter_rows(values_only=True)))]
    if len(filled) > 1:
        names = ", ".join(sheet.title for sheet in filled)
        raise UserError(
            f"{path} has {len(filled)} sheets with rows ({names:.200}); keep one, and save the others apart"
        )
    if not filled:
        raise _without_rows(path)
    return filled[0]


def _without_rows(path: Path) -> UnreadableInput:
    return UnreadableInput("empty", f"{path} has no rows; there is nothing to read in it")


def _is_filled(row: tuple[Any, ...]) -> bool:
    """Whether a row has a cell with a value, 0 and False among them."""
    return any(value not in (None, "") for value in row)


def _text(value: Any) -> str:
    """A cell as CSV has it; "" for an empty one."""
    from openpyxl.utils.escape import unescape

    if isinstance(value, str):
        return str(unescape(value))  # _x000D_ is a carriage return
    return "" if value is None else str(text_of(value))
