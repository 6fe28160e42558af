"""Tables of labelled examples, each row with its place in its file: TSV, CSV, JSON Lines, JSON and Parquet, the last
never compressed.

What is read, and how, is what the corpus's readers of these files read, so that an evaluation set is the same text
there and here.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kobert_pipeline.corpus.open_text import COMPRESSED, LARGEST_JSON, open_lines, read_json_text
from kobert_pipeline.corpus.readers.csv import read_records
from kobert_pipeline.corpus.readers.jsonl import json_object
from kobert_pipeline.corpus.readers.parquet import open_parquet, read_rows
from kobert_pipeline.errors import UserError, did_you_mean

IDS = ("guid", "id")
"""What known sets call the column of an example's id."""


class Row(NamedTuple):
    """`place` says where it stands, as in "train.tsv, line 3"; `cells` are its values by column, text or what JSON and
    Parquet hold."""

    place: str
    cells: dict[str, Any]


def rows(path: Path) -> Iterator[Row]:
    """The rows of a file of any kind in `KINDS`, by the end of its name. Raises UserError for another name or a file of
    another form."""
    ending = path.with_suffix("").suffix if path.suffix in COMPRESSED else path.suffix
    if ending not in KINDS or (ending == ".parquet" and path.suffix in COMPRESSED):
        raise UserError(
            f"{path}: a file of labelled texts ends with {', '.join(KINDS)} (all but the last maybe with .gz .bz2 .xz "
            ".zst)"
        )
    return KINDS[ending](path)


def has_column(cells: dict[str, Any], column: str) -> bool:
    """Whether there is such a column; `labels.label` is the column `label` of the object in the column `labels`."""
    return column in columns(cells)


def columns(cells: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Every column, those of objects behind the column that holds them, with its value."""
    found = {f"{before}{column}": value for column, value in cells.items()}
    for column, value in cells.items():
        if isinstance(value, dict):
            found |= columns(value, f"{before}{column}.")
    return found


def column_of(
    role: str, path: Path, first: Row, task: str, given: str | None, known: Sequence[str], needed: bool = True
) -> str | None:
    """The column that plays a `role` in a `task`, by the first row: the `given` one, else the first of the `known` that
    there is; None where none is. Raises UserError for a given one that is not there, and where one is `needed` and none
    is known."""
    if given:
        if not has_column(first.cells, given):
            guess = did_you_mean(given, columns(first.cells)).replace("allowed", "found")
            raise UserError(
                f"{path}: there is no column '{given}'{guess}; say which it is with the option {role} of the task"
            )
        return given
    found = next((column for column in known if has_column(first.cells, column)), None)
    if found is None and known and needed:
        raise UserError(
            f"{path}: no column is the {role} of the task {task} (known are {', '.join(known)}; found were "
            f"{', '.join(list(columns(first.cells))[:12])}); say which with the option {role} of the task"
        )
    return found


def cell(row: Row, column: str) -> Any:
    """The value of a row in a column, which may lie in an object. Raises UserError for a row without it."""
    if column in row.cells:
        return row.cells[column]
    found = columns(row.cells)
    if column not in found:
        raise UserError(f"{row.place}: there is no '{column}'{did_you_mean(column, found).replace('allowed', 'found')}")
    return found[column]


def _tsv(path: Path) -> Iterator[Row]:
    return _table(path, "\t", quoted=False)


def _csv(path: Path) -> Iterator[Row]:
    return _table(path, ",", quoted=True)


def _table(path: Path, delimiter: str, quoted: bool) -> Iterator[Row]:
    """The records below the first, which names the columns, as rows."""
    with open_lines(path) as lines:
        for record in islice(read_records(path, lines, delimiter, quoted), 1, None):
            yield Row(f"{path}, line {record.line}", dict(record.cells))


def _json_lines(path: Path) -> Iterator[Row]:
    with open_lines(path) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield Row(f"{path}, line {number}", json_object(path, number, line))


def _json(path: Path) -> Iterator[Row]:
    with open_lines(path, longest=LARGEST_JSON) as lines:
        content = read_json_text(path, lines)
    if not isinstance(content, list):
        raise UserError(
            f"{path}: a list of objects was expected, not {type(content).__name__}; one object a line is a .jsonl file"
        )
    for number, cells in enumerate(content, 1):
        if not isinstance(cells, dict):
            raise UserError(f"{path}, entry {number}: an object was expected, not {type(cells).__name__}")
        yield Row(f"{path}, entry {number}", cells)


def _parquet(path: Path) -> Iterator[Row]:
    for number, cells in enumerate(read_rows(path, open_parquet(path), None), 1):
        yield Row(f"{path}, row {number}", cells)


KINDS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".tsv": _tsv, ".txt": _tsv, ".csv": _csv, ".jsonl": _json_lines, ".json": _json, ".parquet": _parquet,
}  # fmt: skip
