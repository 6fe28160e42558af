"""Tables of labelled examples in TSV, CSV, JSON Lines, JSON and Parquet, each row with its place in the file.

They are read by the corpus's readers of these formats, so that decontamination sees the same evaluation texts.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kobert_pipeline.corpus.open_text import COMPRESSED, LARGEST_JSON, open_lines, read_json_text
from kobert_pipeline.corpus.readers.csv import DELIMITER_NAMES, found_delimiter, other_delimiter, read_records
from kobert_pipeline.corpus.readers.jsonl import json_object
from kobert_pipeline.corpus.readers.parquet import open_parquet, read_rows
from kobert_pipeline.errors import UserError, UserErrors, did_you_mean

T = TypeVar("T")
LISTED = 20
"""Rows that are refused with a sentence each."""
NAMED = 5
"""Further rows that the message about the first one names."""
MOST_REFUSED = 1000
"""Rows after which a table is not read on: it is of another form."""
IDS = ("guid", "id")
"""Names of the column of an example's id in published data sets."""


class Row(NamedTuple):
    """A row: `place` is for error messages, as in "train.tsv, line 3"; `cells` are its values by column name, text or
    any value of JSON and Parquet; `number` is 1 for the first row below the column names, and counts blank rows."""

    place: str
    cells: dict[str, Any]
    number: int


def rows(path: Path) -> Iterator[Row]:
    """The rows of a file, whose suffix says which of `KINDS` it is. Raises UserError for other suffixes and for a file
    of another form."""
    name = Path(path.name.lower())
    suffix = name.with_suffix("").suffix if name.suffix in COMPRESSED else name.suffix
    # Parquet is compressed inside, and must be seekable
    if suffix not in KINDS or (suffix == ".parquet" and name.suffix in COMPRESSED):
        raise UserError(
            f"{path}: the name of a table ends with {', '.join(KINDS)} (all but the last also compressed: .gz "
            ".bz2 .xz .zst)"
        )
    return KINDS[suffix](path)


def each_row(table: Sequence[Row], make: Callable[[Row], T]) -> list[T]:
    """What is made of each row. Raises UserErrors for the rows that are refused, so that they can be
    fixed together."""
    made, refused = list[T](), list[tuple[str, str]]()
    for row in table:
        try:
            made.append(make(row))
        except UserError as error:
            refused.append((row.place, str(error)))
            if len(refused) == MOST_REFUSED:
                break
    if refused:
        _refuse(refused)
    return made


def _refuse(refused: list[tuple[str, str]]) -> None:
    """Raise UserErrors for rows, each with its place and the sentence about it."""
    path, places = refused[0][0].rpartition(", ")[0], [place.rpartition(", ")[2] for place, _ in refused]
    at_least = "at least " if len(refused) == MOST_REFUSED else ""
    unlisted, unnamed = len(refused) - LISTED, len(refused) - 1 - NAMED
    sentences = [sentence for _, sentence in refused[:LISTED]]
    if unlisted > 0:
        sentences.append(f"{path}: {at_least}{unlisted:,} more rows are refused, the next at {places[LISTED]}")
    more = ", ".join(places[1 : 1 + NAMED]) + (f" and {at_least}{unnamed:,} more" if unnamed > 0 else "")
    raise UserErrors(sentences, f" (also refused: {more})" if more else "")


def has_column(cells: dict[str, Any], column: str) -> bool:
    """Whether there is such a column; `labels.label` is the column `label` of the object in the column `labels`."""
    return column in cells or column in columns(cells)


def columns(cells: dict[str, Any], before: str = "") -> dict[str, Any]:
    """The value of every column, with the fields of objects as columns of their own, such as `labels.label`."""
    values = {f"{before}{column}": value for column, value in cells.items()}
    for column, value in cells.items():
        if isinstance(value, dict):
            values |= columns(value, f"{before}{column}.")
    return values


def column_of(
    role: str,
    path: Path,
    first: Row,
    task: str,
    given: str | None,
    known: Sequence[str],
    needed: bool = True,
    by: str = "by the option {role} of the task (kobert evaluate: --set {role}=NAME)",
) -> str | None:
    """The column for a `role` of a `task`, by the first row: the `given` one, else the first of the `known` names that
    the file has, else None. Raises UserError, which says `by` what to name a column, where the given column is missing,
    or a `needed` one is not found."""
    by = by.format(role=role)
    # rows of the other formats have the names themselves
    if not {".jsonl", ".json", ".parquet"} & set(path.suffixes):
        by += "; the first line of the file must hold the names of the columns, so add one if yours has none"
    if given:
        if not has_column(first.cells, given):
            guess = did_you_mean(given, columns(first.cells)).replace("allowed", "found")
            or_none = ", or set id to null for the numbers of the rows" if role == "id" else ""
            raise UserError(f"{path}: there is no column '{given}'{guess}; name the column {by}{or_none}")
        return given
    # in the order of `known`: of several columns that would do, the first one listed is meant
    column = next((column for column in known if has_column(first.cells, column)), None)
    if column is None and known and needed:
        found = ", ".join(f"{name:.30}" for name in list(columns(first.cells))[:12])
        raise UserError(
            f"{path}: no column is the {role} of the task {task} (known are {', '.join(known)}; found were {found}); "
            f"name it {by}"
        )
    return column


def cell(row: Row, column: str) -> Any:
    """The value of a row in a column, which may be a field of an object. Raises UserError for a row without it."""
    if column in row.cells:  # a column whose name contains a dot is itself meant, not a field of an object
        return row.cells[column]
    values = columns(row.cells)
    if column not in values:
        guess = did_you_mean(column, values).replace("allowed", "found")
        raise UserError(f"{row.place}: there is no '{column}'{guess}")
    return values[column]


def number_of(value: Any) -> float:
    """A number, or one that is written as text; nan for any other value."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _tsv(path: Path) -> Iterator[Row]:
    return _table(path, "\t", quoted=False)


def _csv(path: Path) -> Iterator[Row]:
    return _table(path, ",", quoted=True)


def _table(path: Path, delimiter: str, quoted: bool) -> Iterator[Row]:
    """The records of a table, without its header and without rows of empty cells, which spreadsheet programs write
    below a table. Raises UserError for another delimiter."""
    with open_lines(path) as lines:
        delimiter, lines = found_delimiter(lines, delimiter)
        records = read_records(path, lines, delimiter, quoted)
        if other := other_delimiter(next(records), delimiter):
            raise UserError(
                f"{path}: its first line has {DELIMITER_NAMES[other]} and no {DELIMITER_NAMES[delimiter]}; save the "
                "table as CSV UTF-8 with commas (.csv), or with tabs (.tsv)"
            )
        for record in records:
            # where cells go over several lines, lines of the file are not rows of a spreadsheet
            in_rows = "" if record.line == record.row + 1 else f" (row {record.row:,} below the first)"
            if any(cell.strip() for cell in record.cells.values()):
                yield Row(f"{path}, line {record.line}{in_rows}", dict(record.cells), record.row)


def _json_lines(path: Path) -> Iterator[Row]:
    with open_lines(path) as lines:
        filled = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        for number, (line_number, line) in enumerate(filled, 1):
            yield Row(f"{path}, line {line_number}", json_object(path, line_number, line), number)


def _json(path: Path) -> Iterator[Row]:
    with open_lines(path, longest=LARGEST_JSON) as lines:
        content = read_json_text(path, lines)
    if not isinstance(content, list):
        raise UserError(
            f"{path}: a list of objects was expected, not {type(content).__name__}; a file with one object per line "
            "ends with .jsonl"
        )
    for number, cells in enumerate(content, 1):
        if not isinstance(cells, dict):
            raise UserError(f"{path}, entry {number}: an object was expected, not {type(cells).__name__}")
        yield Row(f"{path}, entry {number}", cells, number)


def _parquet(path: Path) -> Iterator[Row]:
    for number, cells in enumerate(read_rows(path, open_parquet(path), None), 1):
        yield Row(f"{path}, row {number}", cells, number)


KINDS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".tsv": _tsv, ".txt": _tsv, ".csv": _csv, ".jsonl": _json_lines, ".json": _json, ".parquet": _parquet,
}  # fmt: skip
