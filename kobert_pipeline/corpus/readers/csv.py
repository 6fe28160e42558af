"""CSV and TSV files with the names of their columns in the first line; a text may be in several columns, and rows may
be gathered.

A CSV file is read by the rules of CSV: a cell in double quotes may hold commas, line ends and doubled quotes. In a TSV
file a quote is a character like any other, since KorNLI, KorSTS and their like are full of unpaired ones: a tab parts
columns, a line end rows, and nothing else means anything. Lines without a character hold no row.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import field_validator

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.open_text import COMPRESSED, open_lines, refuse_too_long
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Unfit, set_aside, strict
from kobert_pipeline.errors import UserError, did_you_mean

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
"""What parts the cells of a file, by the end of its name."""
DELIMITER_NAMES = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars"}
"""What may separate the cells of a file whose first line has none of the expected delimiter."""
LONGEST_CELL = 2**24
"""Characters; whole books have a tenth of it. A quote that is never closed takes in the rest of its file up to here."""


class Record(NamedTuple):
    """`line` is the number of its first line in the file, counted from 1; `cells` are its texts by column."""

    line: int
    cells: dict[str, str]


class Csv(Reader):
    """CSV and TSV files, plain or .gz .bz2 .xz .zst."""

    name: Literal["csv"] = "csv"
    text: str | list[str] = "text"
    """Column of the text, or a list of them, such as [sentence1, sentence2]; the cell of each is a document of its
    own."""
    id: str | None = None
    """Column of the document's id; null numbers the lines."""
    group_by: str | None = None
    """Column whose neighbouring equal values make one document, a cell a paragraph. Such documents are never
    `ordered`."""
    delimiter: str | None = None
    """Character that parts cells; null: a comma in .csv files, a tab in .tsv and .txt files."""
    quoted: bool | None = None
    """Whether a cell in double quotes may hold delimiters, line ends and doubled quotes; null: unless the delimiter is
    a tab."""
    encoding: str | None = None
    """Encoding of the files; null finds out: UTF-8, CP949 (EUC-KR) or UTF-16."""
    ordered: bool = True
    """Whether the order of paragraphs means anything."""

    @field_validator("text")
    @classmethod
    def _one_at_least(cls, text: str | list[str]) -> str | list[str]:
        if not text:
            raise ValueError("needs the name of a column, or a list of some")
        return text

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
            raise ValueError(
                f'one character is needed, no quote and no line end, not {delimiter!r} (a tab in YAML: "\\t", in double quotes)'
            )
        return delimiter

    def documents(self, path: Path) -> Iterator[Document | Unfit]:
        """One per cell of a text, or per run of equal `group_by`."""
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
        for number, (value, group) in enumerate(
            groupby(set_aside(records, unfit), key=lambda record: record.cells[key])
        ):
            lines = [" ".join(record.cells[column].splitlines()) for record in group for column in self._text_columns]
            yield Document(f"{path.name}#{number}:{value}", path.name, "\n".join(lines), ordered=False)
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
                f"{path}: say what parts its cells by the option delimiter; it is known of {', '.join(DELIMITERS)} "
                "files alone"
            )
        with open_lines(path, self.encoding) as lines:
            found = _read_records(path, lines, delimiter, delimiter != "\t" if self.quoted is None else self.quoted)
            header = next(strict(found))
            for column in (*self._text_columns, self.id, self.group_by):
                if column is not None and column not in header.cells:
                    raise Unfit(
                        "columns",
                        f"{path}: there is no column '{column}' in its first line{_column_hint(column, header, delimiter)}",
                    )
            yield from found


def delimiter_of(path: Path) -> str | None:
    """What parts the cells of a file by its name, whether or not it is compressed; None where the name does not
    tell."""
    ending = path.with_suffix("").suffix if path.suffix.lower() in COMPRESSED else path.suffix
    return DELIMITERS.get(ending.lower())


def _column_hint(column: str, header: Record, delimiter: str) -> str:
    """What to do about a column that the first line lacks: where another delimiter parts that line, this is named."""
    if len(header.cells) < 2:
        line = "".join(header.cells)
        other = next((one for one in DELIMITER_NAMES if one != delimiter and one in line), None)
        if other:
            spelled = other.replace("\t", "\\t")
            return f', which has {DELIMITER_NAMES[other]} and no {DELIMITER_NAMES.get(delimiter, delimiter)}; set the source\'s option delimiter: "{spelled}"'
    guess = did_you_mean(column, header.cells).replace("allowed", "found")
    other_way = f"; if {delimiter!r} does not part its cells, say what does by the option delimiter"
    return guess + (other_way if len(header.cells) < 2 else "")


def read_records(path: Path, lines: Iterable[str], delimiter: str, quoted: bool) -> Iterator[Record]:
    """The first line's names of columns, each as its own cell, and the records below it. Raises Unfit, with the line,
    for another number of cells than there are columns, for wrong quotes and for cells of more than `LONGEST_CELL`
    characters."""
    return strict(_read_records(path, lines, delimiter, quoted))


def _read_records(path: Path, lines: Iterable[str], delimiter: str, quoted: bool) -> Iterator[Record | Unfit]:
    lines = _refuse_long_lines(path, lines)
    found = _quoted(path, lines, delimiter) if quoted else _plain(lines, delimiter)
    _, names = next(strict(found), (1, []))
    header = [name.strip() for name in names]
    twice = next((name for name, count in Counter(header).items() if name and count > 1), None)
    if twice:
        raise Unfit("columns", f"{path}: two columns of its first line are called '{twice}'; rename one")
    yield Record(1, {name: name for name in header})
    for row in found:
        if isinstance(row, Unfit):
            yield row
            continue
        line, cells = row
        if len(cells) not in (0, len(header)):
            yield Unfit(
                "columns",
                f"{path}, line {line}: {len(cells)} columns, {len(header)} were expected, as in the first line",
            )
        elif cells:
            yield Record(line, dict(zip(header, cells, strict=True)))


def _refuse_long_lines(path: Path, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        refuse_too_long(path, number, line)
        yield line


def _plain(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The number of each line, and its cells; none of a line without a character."""
    for number, line in enumerate(lines, 1):
        row = line.rstrip("\r\n")
        yield number, row.split(delimiter) if row else []


def _quoted(path: Path, lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]] | Unfit]:
    """The number of each record's first line, and its cells; none of a line without a character."""
    csv.field_size_limit(
        max(csv.field_size_limit(), LONGEST_CELL)
    )  # of the process; by default texts of 131,072 characters are too long
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
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
            what = str(error).partition(" - ")[0]  # what follows are hints for programmers
            yield Unfit(
                "not_csv",
                f"{path}, line {number}: not CSV ({what}); a cell with a quote in it is quoted, its quotes doubled",
            )
