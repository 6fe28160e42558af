"""CSV and TSV files with column names in the first line.

In a CSV file a cell in double quotes may contain commas, line ends and doubled quotes. In a TSV file quotes are
ordinary characters, since KorNLI, KorSTS and similar sets are full of unpaired ones, and only tabs and line ends
separate cells, unless all of the file shows that quotes enclose cells. Rows of empty cells are ignored, as spreadsheets
write them above and below a table.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from unicodedata import normalize

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.tables.encoding import Undecodable
from kobert_pipeline.tables.file_type import data_suffix
from kobert_pipeline.tables.open_text import open_lines, unreadable_line
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
"""Default delimiter by suffix of the file name."""
DELIMITER_NAMES = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars"}
"""Delimiters to look for in a first line that does not contain the expected one."""
NSMC_HEADER = "id\tdocument\tlabel\n"
QUOTED = re.compile(r'"([^"]|"")*"')
"""A cell in quotes, those inside doubled."""
BLANK = ',;|"'
"""Characters that a line without text may have, besides white space."""
LONGEST_CELL = 2**24
"""Characters, ten times as many as a book has. A quote that is never closed makes a cell of the rest of its file, up to
this length."""

Record = tuple[int, list[str]]
"""The number of its first line in the file, and its cells; an empty line has none."""


def read_csv(
    path: Path,
    delimiter: str | None = None,
    quoted: bool | None = None,
    encoding: str | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
    lossy: bool = False,
) -> Iterator[Row | UnreadableInput]:
    """The rows of a table.

    Args:
        delimiter: what separates cells; None: see `default_delimiter`.
        quoted: whether quotes enclose cells; None: unless the delimiter is a tab and the file has other quotes.
        encoding: None: detected.
        columns: names that must be in the first line, each with what to do where it is not.
        lossy: whether bytes that cannot be decoded may become U+FFFD.

    Raises UnreadableInput for a first line that is wrong.
    """
    with open_lines(path, encoding) as lines:
        above, first = list[str](), next(lines, "")
        while first and all(character in BLANK or character.isspace() for character in first):
            above.append(first)
            first = next(lines, "")
        separator = delimiter or default_delimiter(path, first)
        quoted = separator != "\t" or has_quoted_cells(path, encoding) if quoted is None else quoted
        undecodable = list[int]()  # numbers of lines
        # from the first line of the file, so that numbers of lines are the file's
        lines = _checked(path, chain(above, [first], lines), undecodable)
        spaced = f"{separator} " in first
        records = _quoted(path, lines, separator, spaced) if quoted else _plain(lines, separator)
        below = (record for record in records if isinstance(record, UnreadableInput) or record[0] > len(above))
        header = _header(path, next(below, (1, [])), separator, delimiter is None, columns)
        for index, record in enumerate(records, 1):
            row = _row(path, record, index, header, quoted, len(above) + 1)
            # the lines of a record are read when it is asked for, so those up to its end are known here
            if undecodable and not lossy and isinstance(row, Row) and undecodable[-1] >= int(row.location.value):
                row = unreadable_line(Undecodable(), row.location)
            if row:
                yield row


def default_delimiter(path: Path, first: str) -> str:
    """The delimiter by the suffix of a file; a semicolon where the first line of a .csv file has semicolons and no
    commas, as spreadsheets write it where the comma is the decimal point. Raises UserError for other suffixes."""
    delimiter = DELIMITERS.get(data_suffix(path))
    if delimiter is None:
        raise UserError(
            f"{path}: set the option delimiter to what separates its cells; only {', '.join(DELIMITERS)} files have a "
            "default"
        )
    return ";" if delimiter == "," and "," not in first and ";" in first else delimiter


def has_quoted_cells(path: Path, encoding: str | None) -> bool:
    """Whether quotes enclose cells of a file with tabs, as pandas and Excel write it: each cell with a quote is in
    quotes, and needs them because a quote inside is doubled, or because it has a comma where no cell without quotes has
    one. NSMC's own files, which went through that twice, are left to its reader."""
    some, bare_commas, for_commas = False, False, False
    with open_lines(path, encoding) as lines:
        for line in lines:
            if line == NSMC_HEADER:
                return False
            if not isinstance(line, str) or not ('"' in line or "," in line):
                continue
            for cell in line.rstrip("\r\n").split("\t"):
                needs = '""' in cell[1:-1] or "," in cell
                if '"' in cell and not (needs and QUOTED.fullmatch(cell)):
                    return False
                some |= '"' in cell
                for_commas |= '"' in cell and '""' not in cell[1:-1]
                bare_commas |= '"' not in cell and "," in cell
    return some and not (for_commas and bare_commas)


def _checked(path: Path, lines: Iterator[str], undecodable: list[int]) -> Iterator[str]:
    """The lines; the numbers of `undecodable` ones are added to this list. Raises UnreadableInput for one that is too
    long."""
    for line_number, line in enumerate(lines, 1):
        if problem := unreadable_line(line, Location(path, "line", line_number), lossy=True):
            raise problem
        if isinstance(line, Undecodable):
            undecodable.append(line_number)
        yield line


def _header(
    path: Path, record: Record | UnreadableInput, separator: str, by_default: bool, columns: Mapping[str, str]
) -> list[str]:
    """The names of the columns. Raises UnreadableInput for a repeated name, a delimiter other than the suffix's, and
    where one of `columns` is missing."""
    if isinstance(record, UnreadableInput):
        raise record
    names = [normalize("NFC", name).strip() for name in record[1]]
    if names and names[0].lower().startswith("sep="):
        raise UnreadableInput(
            "columns", f"{path}: its first line is for Excel alone ({names[0]!r:.10}); delete that line"
        )
    others = (other for other in DELIMITER_NAMES if other != separator and other in "".join(names))
    if by_default and len(names) < 2 and (other := next(others, None)):
        option = other.replace("\t", "\\t")
        raise UnreadableInput(
            "columns",
            f"{path}: its first line has {DELIMITER_NAMES[other]} and no {DELIMITER_NAMES[separator]}; save the table "
            f'as CSV UTF-8 with commas (.csv) or with tabs (.tsv); of a source of the corpus set delimiter: "{option}"',
        )
    refuse_wrong_header(path, names, columns, "line")
    return names


def refuse_wrong_header(path: Path, names: list[str], columns: Mapping[str, str], unit: str) -> None:
    """Raise UnreadableInput for a repeated name of a column in the first `unit` of a file, and where one of `columns`
    is missing."""
    if repeated := next((name for name, count in Counter(names).items() if name and count > 1), None):
        raise UnreadableInput("columns", f"{path}: two columns of its first {unit} are called '{repeated}'; rename one")
    for column, advice in columns.items():
        if column not in names:
            guess = did_you_mean(column, names, "found")
            problem = f"{path}: there is no column '{column}' in its first {unit}{guess}{advice}"
            raise UnreadableInput("columns", problem)


def _row(
    path: Path, record: Record | UnreadableInput, index: int, header: list[str], quoted: bool, header_line: int
) -> Row | UnreadableInput | None:
    """The row of a record, None for one without text."""
    if isinstance(record, UnreadableInput):
        return record
    line, cells = record
    if not any(map(str.strip, cells)):
        return None
    # where cells go over several lines, lines of the file are not rows of a spreadsheet
    note = "" if line == header_line + index else f" (row {index:,} below the first)"
    location = Location(path, "line", line, note)
    if len(cells) > 1 and [cell.strip() for cell in cells] == header:
        problem = "it repeats the names of the columns, as where files were joined; delete this line"
        return UnreadableInput("columns", problem, location)
    if len(cells) == len(header):
        return Row(dict(zip(header, cells, strict=True)), location, index)
    # as spreadsheets write a cell with a line break
    hint = "" if quoted or len(cells) > len(header) else "; here no cell goes over several lines, as it may in a .csv"
    problem = f"{len(cells)} columns, {len(header)} were expected, as in the first line{hint}"
    return UnreadableInput("columns", problem, location)


def _plain(lines: Iterator[str], delimiter: str) -> Iterator[Record]:
    for line_number, line in enumerate(lines, 1):
        content = line.rstrip("\r\n")
        yield line_number, content.split(delimiter) if content else []


def _quoted(path: Path, lines: Iterator[str], delimiter: str, spaced: bool) -> Iterator[Record | UnreadableInput]:
    """The records of a file with quoted cells, `spaced` where a blank follows each delimiter."""
    # a limit of the whole process, so never lowered; the default of 131,072 characters is too short for long texts
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    # strict: wrong quotes raise and are not guessed at
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=spaced, strict=True)
    while True:
        line_number = reader.line_num + 1
        try:
            yield line_number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            location = Location(path, "line", line_number)
            if "field limit" in str(error):
                problem = f"a cell has more than {LONGEST_CELL:,} characters; is its quote never closed?"
                raise UnreadableInput("not_csv", problem, location) from None
            what = str(error).partition(" - ")[0]  # the rest of the message is for programmers
            problem = f"not CSV ({what}); a cell with a quote in it is quoted, its quotes doubled"
            yield UnreadableInput("not_csv", problem, location)
