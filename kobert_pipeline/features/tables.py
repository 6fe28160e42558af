"""Tables of labelled examples, each row with its place in its file: TSV, CSV, JSON Lines, JSON and Parquet, the last never compressed.

A CSV file is read by the rules of CSV: a field in double quotes may hold commas, line ends and doubled quotes. In a TSV file a quote is a
character like any other, since KorNLI, KorSTS and their like are full of unpaired ones: a tab parts columns, a line end rows, and nothing
else means anything. Lines without a character hold no row.
"""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kobert_pipeline.corpus.opening import open_lines, read_json_text
from kobert_pipeline.corpus.readers.jsonl import json_object
from kobert_pipeline.corpus.readers.parquet import opened, read_rows
from kobert_pipeline.errors import UserError, did_you_mean

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
ID = ("guid", "id")
"""What known sets call the column of an example's id."""


class Row(NamedTuple):
    """`place` says where it stands, as in "train.tsv, line 3"; `cells` are its values by column, text or what JSON and Parquet hold."""

    place: str
    cells: dict[str, Any]


def rows(path: Path) -> Iterator[Row]:
    """The rows of a file of any kind in `KINDS`, by the end of its name. Raises UserError for another name or a file of another form."""
    ending = path.with_suffix("").suffix if path.suffix in COMPRESSED else path.suffix
    if ending not in KINDS or (ending == ".parquet" and path.suffix in COMPRESSED):
        raise UserError(f"{path}: a file of labelled texts ends with {', '.join(KINDS)} (all but the last maybe with .gz .bz2 .xz .zst)")
    return KINDS[ending](path)


def has(cells: dict[str, Any], column: str) -> bool:
    """Whether there is such a column; `labels.label` is the column `label` of the object in the column `labels`."""
    return column in columns(cells)


def columns(cells: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Every column, those of objects behind the column that holds them, with its value."""
    found = {f"{before}{column}": value for column, value in cells.items()}
    for column, value in cells.items():
        if isinstance(value, dict):
            found |= columns(value, f"{before}{column}.")
    return found


def column_of(given: str | None, known: tuple[str, ...], path: Path, first: Row) -> str | None:
    """The column that plays a role: the one `given`, else the first of the `known` ones that the `first` row of a file has, else None.
    Raises UserError for a given one that is not there."""
    if given and not has(first.cells, given):
        guess = did_you_mean(given, columns(first.cells)).replace("allowed", "found")
        raise UserError(f"{path}: there is no column '{given}'{guess}")
    return given or next((column for column in known if has(first.cells, column)), None)


def missing(role: str, known: tuple[str, ...], path: Path, first: Row, task: str) -> UserError:
    """What to say where no column plays a role that is needed."""
    return UserError(
        f"{path}: no column is the {role} of the task {task} (known are {', '.join(known)}; found were "
        f"{', '.join(list(columns(first.cells))[:12])}); say which with the option {role} of the task"
    )


def value_of(row: Row, column: str) -> Any:
    """What a row holds in a column. Raises UserError where it has none."""
    if column in row.cells:
        return row.cells[column]
    found = columns(row.cells)
    if column not in found:
        raise UserError(f"{row.place}: there is no '{column}'{did_you_mean(column, found).replace('allowed', 'found')}")
    return found[column]


def _tsv(path: Path) -> Iterator[Row]:
    with open_lines(path) as lines:
        yield from _under_header(path, ((number, line.rstrip("\r\n").split("\t")) for number, line in enumerate(lines, 1)))


def _csv(path: Path) -> Iterator[Row]:
    with open_lines(path) as lines:
        yield from _under_header(path, _records(path, lines))


def _records(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """The number of each record's first line, and its fields."""
    reader = csv.reader(lines, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(f"{path}, line {number}: not CSV ({error}); a field with a quote in it is quoted, its quotes doubled") from None


def _under_header(path: Path, records: Iterator[tuple[int, list[str]]]) -> Iterator[Row]:
    """The records below the first as rows; it names the columns."""
    _, header = next(records, (1, []))
    header = [name.strip() for name in header]
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice:
        raise UserError(f"{path}: two columns of its first line are called '{twice}'; rename one")
    for number, cells in records:
        if cells in ([], [""]):
            continue
        if len(cells) != len(header):
            raise UserError(f"{path}, line {number}: {len(cells)} columns, {len(header)} were expected, as in the first line")
        yield Row(f"{path}, line {number}", dict(zip(header, cells, strict=True)))


def _json_lines(path: Path) -> Iterator[Row]:
    with open_lines(path) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield Row(f"{path}, line {number}", json_object(path, number, line))


def _json(path: Path) -> Iterator[Row]:
    with open_lines(path) as lines:
        content = read_json_text(path, lines)
    if not isinstance(content, list):
        raise UserError(f"{path}: a list of objects was expected, not {type(content).__name__}; one object a line is a .jsonl file")
    for number, cells in enumerate(content, 1):
        if not isinstance(cells, dict):
            raise UserError(f"{path}, entry {number}: an object was expected, not {type(cells).__name__}")
        yield Row(f"{path}, entry {number}", cells)


def _parquet(path: Path) -> Iterator[Row]:
    for number, cells in enumerate(read_rows(path, opened(path), None), 1):
        yield Row(f"{path}, row {number}", cells)


KINDS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".tsv": _tsv, ".txt": _tsv, ".csv": _csv, ".jsonl": _json_lines, ".json": _json, ".parquet": _parquet,
}  # fmt: skip
