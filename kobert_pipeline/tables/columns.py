"""Which columns of a table hold what is read from it, and their cells."""

import ast
import math
import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple
from unicodedata import normalize

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.files import parse_json
from kobert_pipeline.tables.unreadable import Row, UnreadableInput

IDS = ("guid", "id", "question_id", "qas_id", "qid")
"""Names of the column of an example's id in published data sets."""
BRACKETS = ("[]", "{}", "()")
LIST_ITEM = re.compile(
    r"""\s*('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[+-]?\d+(?:\.\d*)?)\s*(?:,|(?=[\s'"]|$))""", re.DOTALL
)
"""A quoted text or a number in a list as Python or, without commas, NumPy prints it."""
ARRAY = re.compile(r"\barray\((\[[^\[\]]*\])(?:,\s*dtype=\w+)?\)")
NUMPY_SCALAR = re.compile(r"""\bnp\.(?:(True|False)_|\w+\(([+-]?[\d.]+(?:e[+-]?\d+)?|'[^']*'|"[^"]*")\))""")
"""A number or text as NumPy 2 prints it in a list: `np.int64(3)`."""
BY_OPTION = "by the option {field} of the task (kobert evaluate: --set {field}=NAME)"


class RowField(NamedTuple):
    """Something that is read from each row, such as its text or its label.

    `column` is the name that an option gives; without one, the first of the `known` names that the file has, in any
    case, is it, if its first value `fits`.
    """

    name: str
    column: str | None = None
    known: Sequence[str] = ()
    required: bool = True
    fits: Callable[[Any], bool] = lambda value: True


def find_columns(first: Row, fields: Sequence[RowField], task: str, by: str = BY_OPTION) -> dict[str, str]:
    """The column of each field, each another one, by the first row of a table for a `task`; fields that the file does
    not have are missing. Raises UserError, which says `by` what to name a column, where a column that an option names,
    or the column of a required field, is missing."""
    # columns that options name are taken first, so that no other field takes them by a known name
    taken = {field.column for field in fields}
    columns = dict[str, str]()
    for field in fields:
        column = _find_column(first, field, task, by, taken)
        if column is not None:
            columns[field.name] = column
            taken.add(column)
    return columns


def _find_column(first: Row, field: RowField, task: str, by: str, taken: set[str | None]) -> str | None:
    path, by = first.location.path, by.format(field=field.name)
    # rows of the other formats have the names themselves
    if (first.location.unit == "line" and ".jsonl" not in path.suffixes) or ".xlsx" in path.suffixes:
        by += "; the first line of the file must hold the names of the columns: delete what is above them, or add them"
    if field.column:
        # rows have their names in NFC, but for fields of objects
        column = next(filter(partial(has_column, first.cells), (normalize("NFC", field.column), field.column)), None)
        if column is None:
            guess = did_you_mean(field.column, flat_cells(first.cells), "found")
            or_none = ", or set id to null for the numbers of the rows" if field.name == "id" else ""
            raise UserError(f"{path}: there is no column '{field.column}'{guess}; name the column {by}{or_none}")
        return column
    # in the order of `known`: of several columns that would do, the first one listed is meant
    # reversed: of names that differ in case alone the first one of the file stays
    by_name = {name.casefold(): name for name in reversed(flat_cells(first.cells))}
    matches = (name if has_column(first.cells, name) else by_name.get(name.casefold()) for name in field.known)
    named = [column for column in matches if column is not None and column not in taken]
    column = next((column for column in named if field.fits(cell(first, column))), None)
    if column is None and field.known and field.required:
        names = ", ".join(f"{name:.30}" for name in list(flat_cells(first.cells))[:12])
        other = f", but '{named[0]}' holds {cell(first, named[0])!r:.80}, another form" if named else ""
        raise UserError(
            f"{path}: no column is the {field.name} of the task {task} (known are {', '.join(field.known)}; found "
            f"were {names}{other}); name it {by}"
        )
    return column


def late_columns(first: Row, fields: Sequence[RowField], columns: dict[str, str]) -> Callable[[Row], None]:
    """A function that raises UserError for a row with a value in the column of a field that the first row has no column
    for, since it would be left out: lines of JSON need not all have the same keys."""
    had = {name.casefold() for name in first.cells}
    missing = [field for field in fields if field.name not in columns and field.name != "id"]
    late = {name.casefold() for field in missing for name in (field.column or "", *field.known)} - had

    def refuse(row: Row) -> None:
        for column, value in row.cells.items() if late else ():
            if column.casefold() in late and value not in (None, "", []):
                raise UserError(
                    f"the column '{column}' is in this row but not in the first of the file; give it there, too (null "
                    "where it has none)"
                )

    return refuse


def has_column(cells: dict[str, Any], column: str) -> bool:
    """Whether there is such a column; `labels.label` is the column `label` of the object in the column `labels`."""
    return column in cells or column in flat_cells(cells)


def flat_cells(cells: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The value of every column, with the fields of objects as columns of their own, such as `labels.label`."""
    values = {f"{prefix}{column}": value for column, value in cells.items()}
    for column, value in cells.items():
        if isinstance(value, dict):
            values |= flat_cells(value, f"{prefix}{column}.")
    return values


def cell(row: Row, column: str) -> Any:
    """The value of a row in a column, which may be a field of an object. Raises UnreadableInput where there is
    none."""
    if column in row.cells:  # a column whose name contains a dot is itself meant, not a field of an object
        return row.cells[column]
    values = flat_cells(row.cells)
    if column not in values:
        raise UnreadableInput("missing_key", f"there is no '{column}'{did_you_mean(column, values, 'found')}")
    return values[column]


def cell_of(row: Row, column: str) -> Any:
    """The value of a row in a column, which may be a field of an object; None where it has none."""
    return cell(row, column) if has_column(row.cells, column) else None


def values_of(row: Row, columns: dict[str, str]) -> dict[str, Any]:
    """The value of each field of a row. Raises UnreadableInput for a row without it."""
    return {field: cell(row, column) for field, column in columns.items()}


def named_classes(value: Any, names: Sequence[str]) -> Any:
    """The name of a class by its number, or of each number in a list; any other value, such as the -1 of a row without
    a label, as it is."""
    if isinstance(value, list):
        return [named_classes(item, names) for item in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value


def text_cell(row: Row, column: str, numbers: bool = False) -> str:
    """The text of a row in a column, with `numbers` as `text_of` has them. Raises UnreadableInput for anything else."""
    value = text_of(cell(row, column)) if numbers else cell(row, column)
    if not isinstance(value, str):
        problem = f"the column '{column}' holds {type(value).__name__}, text was expected"
        raise UnreadableInput("wrong_type", problem)
    return value


def text_of(value: Any) -> Any:
    """A number as the text that a tool took for it (the review 1004), and a date as a table without types has it; any
    other value as it is."""
    if (whole := whole_number(value)) is not None:
        return str(whole)
    if isinstance(value, date):
        return str(value).removesuffix(" 00:00:00")
    return str(value) if isinstance(value, (float, Decimal)) and math.isfinite(value) else value


def parse_container(text: str) -> Any:
    """The list or object that a text is in JSON, or as Python, NumPy and pandas print one (sets and tuples are lists
    too); the text itself where it is none."""
    inside = text.strip()
    if inside[:1] + inside[-1:] not in BRACKETS:
        return text
    try:
        return parse_json(inside)
    except ValueError:
        pass
    try:
        # item by item, since `literal_eval` takes NumPy's ['a' 'b'] for ['ab']
        if inside[0] == "[" and not LIST_ITEM.sub("", inside[1:-1]).strip():
            return [ast.literal_eval(item) for item in LIST_ITEM.findall(inside[1:-1])]
        value = ast.literal_eval(ARRAY.sub(r"\1", NUMPY_SCALAR.sub(r"\1\2", inside)))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    if isinstance(value, (set, tuple)):
        # sorted, since the order of a set of texts is another one in every process
        return sorted(value, key=str) if isinstance(value, set) else list(value)
    return value if isinstance(value, (list, dict)) else text


def label_text(value: Any) -> str | None:
    """A label as text: a text, a whole number (4.0 is 4), true or false, a date, or a list of one of these; None for
    anything else."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, date) or whole_number(value) is not None:
        value = text_of(value)
    # files of a Mac may spell a label in NFD, which looks the same but would be another one
    return normalize("NFC", str(value).strip()) if isinstance(value, (str, bool)) else None


def label_value(label: str, truth: bool = True) -> str:
    """What a label is by value, as another file may have it: `4` for 4.0, and with `truth` `1` for True and `0` for
    FALSE."""
    if match := re.fullmatch(r"([+-]?\d+)\.0*", label):
        return match[1]
    return {"true": "1", "false": "0"}.get(label.lower(), label) if truth else label


def whole_number(value: Any) -> int | None:
    """A whole number, also where a table has it as 4.0; None for any other value."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    return int(value) if is_number and math.isfinite(value) and value == int(value) else None


def number_of(value: Any) -> float:
    """A number, or one that is written as text; nan for any other value."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
