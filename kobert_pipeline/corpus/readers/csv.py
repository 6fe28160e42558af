"""CSV and TSV files with column names in the first line. Texts may be in several columns, and rows may be grouped.

In a CSV file a cell in double quotes may contain commas, line ends and doubled quotes. In a TSV file quotes are
ordinary characters, since KorNLI, KorSTS and similar sets are full of unpaired ones: only tabs and line ends separate
cells. Empty lines are ignored.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import field_validator

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.open_text import COMPRESSED, open_lines, refuse_too_long
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Unfit, set_aside, strict
from kobert_pipeline.errors import UserError, did_you_mean

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
"""Default delimiter by suffix of the file name."""
DELIMITER_NAMES = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars"}
"""Delimiters to look for in a first line that does not contain the expected one."""
LONGEST_CELL = 2**24
"""Characters, ten times as many as a book has. A quote that is never closed makes a cell of the rest of its file, up to
this length."""


class Record(NamedTuple):
    """A row: `line` is the number of its first line in the file, from 1; `cells` are its texts by column name; `row`
    is its number as in a spreadsheet, from 1 for the first below the column names, blank ones counted."""

    line: int
    cells: dict[str, str]
    row: int


class Csv(Reader):
    """CSV and TSV files, plain or .gz .bz2 .xz .zst."""

    name: Literal["csv"] = "csv"
    text: str | list[str] = "text"
    """Column of the text, or a list of columns, such as [sentence1, sentence2]; each cell becomes its own document."""
    id: str | None = None
    """Column of the document's id; null: the line number."""
    group_by: str | None = None
    """Column by which neighbouring rows with equal values are joined to one document, each cell a paragraph. Such
    documents are never `ordered`."""
    delimiter: str | None = None
    """Character that separates cells; null: a comma in .csv files (a semicolon where their first line has semicolons
    and no commas), a tab in .tsv and .txt files."""
    quoted: bool | None = None
    """Whether cells in double quotes may contain delimiters, line ends and doubled quotes; null: yes, unless the
    delimiter is a tab."""
    encoding: str | None = None
    """Encoding of the files; null: detected among UTF-8, CP949 (EUC-KR) and UTF-16."""
    ordered: bool = True
    """Whether the order of paragraphs means anything."""

    @field_validator("text")
    @classmethod
    def _one_at_least(cls, text: str | list[str]) -> str | list[str]:
        if not text:
            raise ValueError("needs the name of a column, or a list of names")
        return text

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
            raise ValueError(
                f"must be one character other than a quote or a line end, not {delimiter!r} "
                '(a tab in YAML: "\\t", in double quotes)'
            )
        return delimiter

    def documents(self, path: Path) -> Iterator[Document | Unfit]:
        """One per text cell, or one per group of rows."""
        records = self._records(path)
        if self.group_by is None:
            for record in records:
                if isinstance(record, Unfit):
                    yield record
                    continue
                for column in self._text_columns:
                    yield Document(
                        self._document_id(path, record, column), path.name, record.cells[column], self.ordered
                    )
            return
        key, unfit = self.group_by, list[Unfit]()
        groups = groupby(set_aside(records, unfit), key=lambda record: record.cells[key])
        for number, (value, group) in enumerate(groups):
            lines = [" ".join(record.cells[column].splitlines()) for record in group for column in self._text_columns]
            yield Document(f"{path.name}#{number}:{value}", path.name, "\n".join(lines), ordered=False)
            # an unreadable row neither ends the group around it nor is lost: it comes after the group's document
            yield from unfit
            unfit.clear()
        yield from unfit

    @property
    def _text_columns(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text

    def _document_id(self, path: Path, record: Record, column: str) -> str:
        row = record.cells[self.id] if self.id else f"{path.name}#{record.line}"
        return row if len(self._text_columns) == 1 else f"{row}:{column}"

    def _records(self, path: Path) -> Iterator[Record | Unfit]:
        delimiter = self.delimiter or delimiter_of(path)
        if delimiter is None:
            raise UserError(
                f"{path}: set the option delimiter to what separates its cells; only {', '.join(DELIMITERS)} files "
                "have a default"
            )
        with open_lines(path, self.encoding) as lines:
            if self.delimiter is None:
                delimiter, lines = found_delimiter(lines, delimiter)
            quoted = delimiter != "\t" if self.quoted is None else self.quoted
            records = _read_records(path, lines, delimiter, quoted)
            header = next(strict(records))
            texts = [("text", column) for column in self._text_columns]
            for option, column in (*texts, ("id", self.id), ("group_by", self.group_by)):
                if column is not None and column not in header.cells:
                    hint = _column_hint(column, header, delimiter, option)
                    raise Unfit("columns", f"{path}: there is no column '{column}' in its first line{hint}")
            yield from records


def delimiter_of(path: Path) -> str | None:
    """The default delimiter of a file by its name, without a suffix of compression; None for other names."""
    ending = path.with_suffix("").suffix if path.suffix.lower() in COMPRESSED else path.suffix
    return DELIMITERS.get(ending.lower())


def found_delimiter(lines: Iterable[str], delimiter: str) -> tuple[str, Iterator[str]]:
    """The delimiter of a table, and its lines: a semicolon where a comma is the default and the first line has
    semicolons and no commas, as spreadsheet programs write tables where the comma is the decimal point."""
    lines = iter(lines)
    first = next(lines, "")
    return ";" if delimiter == "," and "," not in first and ";" in first else delimiter, chain([first], lines)


def other_delimiter(header: Record, delimiter: str) -> str | None:
    """The delimiter in a first line that has a single column, because it does not contain the expected one; None where
    it has more columns, or no delimiter."""
    line = "".join(header.cells)
    others = (other for other in DELIMITER_NAMES if other != delimiter and other in line)
    return next(others, None) if len(header.cells) < 2 else None


def _column_hint(column: str, header: Record, delimiter: str, option: str) -> str:
    """What to do about a column that is not in the first line: the `option` names another one, or the delimiter is
    wrong."""
    guess = did_you_mean(column, header.cells).replace("allowed", "found")
    guess += f"; the source's option {option} names the column"
    if len(header.cells) >= 2:
        return guess
    other = other_delimiter(header, delimiter)
    if other is None:
        return f"{guess}; if {delimiter!r} does not separate its cells, set the option delimiter"
    option = 'delimiter: "{}"'.format(other.replace("\t", "\\t"))
    expected = DELIMITER_NAMES.get(delimiter, delimiter)
    return f", which has {DELIMITER_NAMES[other]} and no {expected}; set the source's option {option}"


def read_records(path: Path, lines: Iterable[str], delimiter: str, quoted: bool) -> Iterator[Record]:
    """The header as a record whose cells are the column names, then the records. Raises Unfit, with the line number,
    for a wrong number of cells, wrong quotes, and cells of more than `LONGEST_CELL` characters."""
    return strict(_read_records(path, lines, delimiter, quoted))


def _read_records(path: Path, lines: Iterable[str], delimiter: str, quoted: bool) -> Iterator[Record | Unfit]:
    lines = _refuse_long_lines(path, lines)
    rows = _quoted(path, lines, delimiter) if quoted else _plain(lines, delimiter)
    _, names = next(strict(rows), (1, []))
    header = [name.strip() for name in names]
    twice = next((name for name, count in Counter(header).items() if name and count > 1), None)
    if twice:
        raise Unfit("columns", f"{path}: two columns of its first line are called '{twice}'; rename one")
    yield Record(1, {name: name for name in header}, 0)
    for number, row in enumerate(rows, 1):
        if isinstance(row, Unfit):
            yield row
            continue
        line, cells = row
        if len(cells) not in (0, len(header)):
            yield Unfit(
                "columns",
                f"{path}, line {line}: {len(cells)} columns, {len(header)} were expected, as in the first line"
                f"{'' if quoted else _quote_hint(cells)}",
            )
        elif cells:
            yield Record(line, dict(zip(header, cells, strict=True)), number)


def _quote_hint(cells: list[str]) -> str:
    """What to do where quotes are ordinary characters and a cell begins with one that it does not close: spreadsheet
    programs quote a cell with a line break."""
    if not any(cell.startswith('"') and (cell == '"' or not cell.endswith('"')) for cell in cells):
        return ""
    return "; in this kind of file a cell in quotes cannot go over several lines, save the table as CSV UTF-8"


def _refuse_long_lines(path: Path, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        refuse_too_long(path, number, line)
        yield line


def _plain(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line; an empty line has no cells."""
    for number, line in enumerate(lines, 1):
        row = line.rstrip("\r\n")
        yield number, row.split(delimiter) if row else []


def _quoted(path: Path, lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]] | Unfit]:
    """The number of the first line and the cells of each record; an empty line has no cells."""
    # a limit of the whole process, so never lowered; the default of 131,072 characters is too short for long texts
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)  # strict: wrong quotes raise and are not guessed at
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "field limit" in str(error):
                raise Unfit(
                    "not_csv",
                    f"{path}, line {number}: a cell has more than {LONGEST_CELL:,} characters; is its quote never "
                    "closed?",
                ) from None
            what = str(error).partition(" - ")[0]  # the rest of the message is for programmers
            yield Unfit(
                "not_csv",
                f"{path}, line {number}: not CSV ({what}); a cell with a quote in it is quoted, its quotes doubled",
            )
