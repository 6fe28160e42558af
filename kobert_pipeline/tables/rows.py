"""The rows of a table, whatever its format: TSV, CSV, Excel, JSON Lines, JSON, questions in SQuAD form, Parquet.

The corpus's readers of these formats read the same rows, so that decontamination sees the texts of evaluation sets.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from unicodedata import is_normalized, normalize

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.files import parse_json
from kobert_pipeline.tables.csv import read_csv
from kobert_pipeline.tables.excel import read_excel
from kobert_pipeline.tables.file_type import COMPRESSED, data_suffix
from kobert_pipeline.tables.modu import sentences_of
from kobert_pipeline.tables.open_text import LONGEST_LINE, open_binary, open_lines, read_json_file, unreadable_line
from kobert_pipeline.tables.squad import questions_of
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput, only_blank_lines, readable, tried

T = TypeVar("T")
Rows = Iterator[Row | UnreadableInput]


def read_rows(path: Path) -> Rows:
    """The rows of a file, whose suffix says which of `PARSERS` reads it. Raises UserError for other suffixes and for a
    file of another form."""
    suffix = data_suffix(path)
    # Parquet and Excel files are compressed inside, and must be seekable
    if suffix not in PARSERS or (suffix in (".parquet", ".xlsx") and path.suffix.lower() in COMPRESSED):
        with open_binary(path):  # refuses a spreadsheet, a PDF file and so on by what they are
            raise UserError(
                f"{path}: the name of a table ends with {', '.join(PARSERS)} (all but the last two also compressed: "
                f"{' '.join(COMPRESSED)})"
            )
    for row in PARSERS[suffix](path):
        yield with_nfc_names(row) if isinstance(row, Row) else row


def with_nfc_names(row: Row) -> Row:
    """The row with the names of its columns in NFC: in files of a Mac they may look the same in another form."""
    if all(is_normalized("NFC", name) for name in row.cells):
        return row
    cells = {normalize("NFC", name): value for name, value in row.cells.items()}
    # where two names look the same, both stay, since one would hide the other
    return replace(row, cells=cells) if len(cells) == len(row.cells) else row


def read_each(path: Path, maker: Callable[[Row], Callable[[Row], T]]) -> list[T]:
    """What is made of each row of a file, by the function that `maker` gives for the first one, which shows the
    columns. Raises one error about all rows that are refused."""
    return list(readable(tried(read_rows(path), maker)))


def stream_each(path: Path, maker: Callable[[Row], Callable[[Row], T]]) -> Iterator[T]:
    """What `read_each` gives, without having all rows in memory: the file is read once to find refused rows, before any
    result is given, and then once more. Raises UserError for a file without rows."""
    if not sum(1 for _ in readable(tried(read_rows(path), maker))):
        raise UserError(f"{path} has no rows; add some below its first line")
    yield from readable(tried(read_rows(path), maker))


def read_lines(path: Path) -> Rows:
    """Every line of a file, without its line end, as a row with the one cell `line`."""
    with open_lines(path) as lines:
        for line_number, line in enumerate(lines, 1):
            location = Location(path, "line", line_number)
            yield unreadable_line(line, location) or Row({"line": line.rstrip("\r\n")}, location, line_number)


def read_json_lines(path: Path, encoding: str | None = None, longest: int = LONGEST_LINE, lossy: bool = False) -> Rows:
    """The objects in the lines of a file that are not blank. Raises UnreadableInput for a file that has none."""
    index = 0
    with open_lines(path, encoding, longest) as lines:
        for line_number, line in enumerate(lines, 1):
            if line.strip():
                index += 1
                location = Location(path, "line", line_number)
                yield unreadable_line(line, location, lossy) or _json_row(line, location, index)
    if not index:
        raise only_blank_lines(path)


def read_json_or_lines(path: Path) -> Rows:
    """The objects in the lines of a file, as `read_json_lines` gives them, or, where the first line is no object, the
    rows of the one JSON value that the file holds."""
    if not begins_with_object(path):
        try:
            yield from rows_of_json(path, read_json_file(path))
            return
        except UnreadableInput as problem:
            if problem.reason != "not_json":
                raise
    yield from read_json_lines(path)  # says which lines are wrong


def begins_with_object(path: Path) -> bool:
    """Whether the first line of a file that is not blank is an object in JSON."""
    with open_lines(path) as lines:
        first = next((line for line in lines if line.strip()), "")
    try:
        return isinstance(parse_json(first), dict)
    except ValueError:
        return False


def _json_row(line: str, location: Location, index: int) -> Row | UnreadableInput:
    try:
        cells = parse_json(line)
    except ValueError as error:
        return UnreadableInput("not_json", f"not JSON ({getattr(error, 'msg', error)})", location)
    return _object_row(cells, location, index)


def _object_row(cells: Any, location: Location, index: int) -> Row | UnreadableInput:
    if is_spacy(cells):
        cells = {"text": cells[0], **cells[1]}
    if isinstance(cells, dict):
        return Row(cells, location, index)
    return UnreadableInput("wrong_type", f"an object was expected, not {type(cells).__name__}", location)


def read_json(path: Path) -> Rows:
    """The rows of a JSON file, see `rows_of_json`, or of JSON Lines, which `datasets` writes under that name too."""
    try:
        content = read_json_file(path)
    except UnreadableInput as problem:
        if problem.reason != "not_json" or not begins_with_object(path):
            raise
        yield from read_json_lines(path)
        return
    yield from rows_of_json(path, content)


def rows_of_json(path: Path, content: Any) -> Rows:
    """The objects of a list, which may be the only one under a key; or the questions in SQuAD form, or the sentences in
    the form of the Modu corpora. Raises UnreadableInput for other content."""
    if isinstance(content, dict):
        lists = {key: value for key, value in content.items() if _is_table(value)}
        data = content.get("data")
        # of lists, pandas' orient='split', nobody would expect questions
        is_squad = any("paragraphs" in entry for entry in lists.get("data", ())) or not lists
        if isinstance(data, list) and is_squad and not (data and all(isinstance(entry, list) for entry in data)):
            yield from questions_of(path, content)
            return
        if isinstance(content.get("document"), list):
            yield from sentences_of(path, content["document"])
            return
        content = lists.popitem()[1] if len(lists) == 1 else content
    if not isinstance(content, list):
        raise UnreadableInput(
            "other_form",
            f"{path}: a list of objects (pandas writes one by orient='records'), or SQuAD form (data > paragraphs > "
            f"context and qas), was expected, not {type(content).__name__}; a file with one object per line ends with "
            ".jsonl",
        )
    for index, cells in enumerate(content, 1):
        yield _object_row(cells, Location(path, "entry", index), index)


def _is_table(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value)
    return is_list and all(isinstance(entry, dict) or is_spacy(entry) for entry in value)


def is_spacy(entry: Any) -> bool:
    """Whether an entry is a text and an object of what is in it, as spaCy was trained on."""
    return isinstance(entry, list) and [type(value) for value in entry] == [str, dict]


def read_parquet(path: Path, columns: Mapping[str, str] = MappingProxyType({})) -> Rows:
    """The rows of a Parquet file, with these columns (none: all), each with what to do where the file does not have it.
    Raises UnreadableInput for a missing column, and where the file is damaged."""
    import pyarrow
    import pyarrow.parquet

    index = 0
    try:
        file = pyarrow.parquet.ParquetFile(path)
        for column, advice in columns.items():
            if column not in file.schema_arrow.names:
                guess = did_you_mean(column, file.schema_arrow.names, "found")
                raise UnreadableInput("columns", f"{path}: there is no column '{column}'{guess}{advice}")
        names = class_names(file.schema_arrow.metadata or {})
        for batch in file.iter_batches(batch_size=10_000, columns=list(columns) or None):
            for cells in _batch_cells(batch):
                index += 1
                location = Location(path, "row", index)
                if isinstance(cells, tuple):
                    yield UnreadableInput(*cells, location)
                else:
                    yield Row(cells, location, index, names)
    except (pyarrow.ArrowInvalid, OSError) as error:
        problem = f"{path} is not a complete Parquet file ({str(error).splitlines()[0]}); fetch it again"
        raise UnreadableInput("damaged", problem) from None


def class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """The names that `datasets` notes in a Parquet file's metadata for the numbers of a column, or for those in its
    lists (`ClassLabel`)."""
    try:
        features = dict(parse_json(metadata.get(b"huggingface", b"{}").decode("utf-8"))["info"]["features"])
    except (ValueError, LookupError, TypeError):  # written by another program, or none at all
        return {}
    # before version 4 of `datasets` a list was written as a list of one feature
    inner = {column: item[0] if isinstance(item, list) and item else item for column, item in features.items()}
    objects = {column: item.get("feature", item) for column, item in inner.items() if isinstance(item, dict)}
    labels = {column: item for column, item in objects.items() if isinstance(item, dict) and "names" in item}
    return {column: item["names"] for column, item in labels.items() if item.get("_type") == "ClassLabel"}


def _batch_cells(batch: Any) -> Iterator[dict[str, Any] | tuple[str, str]]:
    """The cells of each row of a batch; for rows that cannot be read the reason and the problem."""
    try:
        yield from batch.to_pylist()
        return
    except UnicodeDecodeError:  # raised before the first row is given, so no row comes twice
        pass
    except (ValueError, OverflowError):  # Python has no such time as 9999-12-31 in another time zone
        from pyarrow.types import is_date, is_timestamp

        for index, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
            if is_timestamp(column.type) or is_date(column.type):
                batch = batch.set_column(index, name, column.cast("string"))
    for position in range(batch.num_rows):
        try:
            yield from batch.slice(position, 1).to_pylist()
        except UnicodeDecodeError:
            yield "encoding", "not UTF-8, though its column says so"
        except (ValueError, OverflowError) as error:
            yield "wrong_type", f"a value that Python does not have ({error}); write it as text"


PARSERS: dict[str, Callable[[Path], Rows]] = {
    ".tsv": read_csv, ".txt": read_csv, ".csv": read_csv, ".jsonl": read_json_or_lines, ".json": read_json,
    ".parquet": read_parquet, ".xlsx": read_excel,
}  # fmt: skip
"""Suffix of a file's name: what reads its rows."""
