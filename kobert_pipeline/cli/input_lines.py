"""The texts that a command is given: on the command line, or as the lines of files and of standard input."""

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import SURROGATES
from kobert_pipeline.tables.file_type import data_suffix, text_format
from kobert_pipeline.tables.open_text import has_mac_line_ends, open_lines
from kobert_pipeline.tables.rows import PARSERS, read_lines
from kobert_pipeline.tables.unreadable import readable

READ_BYTES = 65_536
"""Bytes that are read, and answered, at once: as many as a pipe holds."""
HEAD_LINES = 200
"""Lines by which the format of a file is recognized."""


def text_batches(texts: list[str], option: str = "- <") -> Iterator[list[str]]:
    """The texts on the command line, or with `-` the lines of standard input, as many at a time as are there already.
    Warns of a text that is the name of a file, which the command reads with `option`. Raises UserError for input that
    is empty or not UTF-8."""
    if texts == ["-"]:
        return stdin_batches()
    if "-" in texts:
        raise UserError("- reads texts from standard input; give it alone, or only texts")
    refuse_undecodable(texts)
    if named := next(filter(os.path.isfile, texts), None):
        print(f"{named} is a file, but its name is read as the text; {option} {named} reads its texts", file=sys.stderr)
    return iter([texts])


def refuse_file_names(texts: list[str], advice: str) -> None:
    """Raise UserError for a text on the command line that is the name of a file beside files given with --in: the shell
    makes `--in *.txt` an option with one file, and texts. `advice`: how the command takes several files."""
    if named := next(filter(os.path.isfile, texts), None):
        raise UserError(
            f"{named} is a file, but only the name right after --in is read as one; {advice} (the shell turns a "
            "pattern such as *.txt into several names)"
        )


def refuse_blank_arguments(texts: list[str]) -> None:
    """Raise UserError for a text on the command line that is empty or only white space, such as a variable without a
    value."""
    for position, text in enumerate(texts, 1):
        if not text.strip():
            raise UserError(f"text {position} is empty; give a text, or - to read lines from standard input")


def refuse_undecodable(texts: list[str], what: str = "text") -> None:
    """Raise UserError for an argument that is not in UTF-8, of which Python makes halves of characters."""
    for position, text in enumerate(texts, 1):
        if SURROGATES.search(text):
            raise UserError(f"{what} {position} is not UTF-8; convert it first (iconv -f cp949 -t utf-8)")


def file_batches(names: list[str], column: str | None = None, tabs: bool = False) -> Iterator[list[str]]:
    """The lines of files, one file after the other; `-` is standard input. With a `column`, the files are tables and
    their cells the texts; with `tabs` a line may be several texts with tabs between them. Raises UserError for a file
    that is missing, empty or in no Korean encoding, or has no such column."""
    for name in names:
        if column is not None:
            yield from _column_batches(name, column)
        elif name == "-":
            yield from stdin_batches()
        else:
            refuse_bad_lines(Path(name))
            note_format(name, tabs)
            yield from _from_first_text(_detected_lines(Path(name)), name)


def _column_batches(name: str, column: str) -> Iterator[list[str]]:
    """The texts in a column of a table, some at a time. Says how many blank rows above the last text have none."""
    from kobert_pipeline.inference.table_fields import ROWS, column_texts  # lines need nothing of it

    count, last = 0, 0
    rows = column_texts(Path(name), column)
    while batch := list(islice(rows, ROWS)):
        yield [text for text, _ in batch]
        count, last = count + len(batch), batch[-1][1].get("row", 0)
    if last > count:
        note_blank_rows(name, last - count)


@cache  # once for a file that is read twice
def note_blank_rows(name: str, count: int) -> None:
    """Say how many rows of a table are left out, since none of their cells has a text."""
    print(f"note: {name}: blank rows left out: {count:,}, so the n-th text may be of a later row", file=sys.stderr)


def refuse_bad_lines(path: Path) -> None:
    """Raise one error about all lines of a text file that are in no Korean encoding, before any is answered."""
    for _ in readable(read_lines(path)):
        pass


@cache  # once for a file that is read twice
def note_format(name: str, tabs: bool = False) -> None:
    """Say what a file is where its lines are not texts alone, such as a chat log. With `tabs` a line may be several
    texts, so nothing is said of a table."""
    with open_lines(Path(name)) as lines:
        form = text_format("".join(islice(lines, HEAD_LINES)))
    if form and not (tabs and form.name == "csv"):
        what = form.description.partition(";")[0]
        advice = " (--column reads one column, in commands that have it)" if form.name == "csv" else ""
        print(f"note: {name} is {what}, but every line of it is read as a text{advice}", file=sys.stderr)


def refuse_missing(names: list[str], allowed: str = "text files with one text per line") -> None:
    """Raise UserError for a name that is not a file, or for standard input twice. `allowed`: the files to name."""
    if missing := next((name for name in names if name != "-" and not Path(name).is_file()), None):
        reason = ""
        if Path(missing).is_dir():
            reason = ", but a folder; a recipe's stage corpus reads whole files"
        elif set(missing) & set("*?["):
            reason = ", but a pattern that the shell left as it is: it is quoted, or no file matches it"
        raise UserError(f"{missing} is not a file{reason}; name {allowed}, or - for standard input")
    if names.count("-") > 1:
        raise UserError("- is given more than once, but standard input can be read only once; name it once")


def is_table(name: str) -> bool:
    """Whether a file is a table by its name: its lines are not texts, but rows with a header, keys or numbers."""
    return data_suffix(Path(name)) in PARSERS.keys() - {".txt"}


def refuse_tables(names: list[str], column: str | None = None, id_column: str | None = None) -> None:
    """Raise UserError for a table without a `column`, since every line of a file would be read as a text, for standard
    input with one, and for a column of ids without that of the texts."""
    if id_column and not column:
        raise UserError("--id-column names a column of a table; name that of its texts, too, with --column")
    if column is not None and "-" in names:
        raise UserError("- is standard input, whose lines are texts; name the table, or leave --column out")
    if column is None and (table := next(filter(is_table, names), None)):
        raise UserError(f"{table} is not one text per line; name the column of its texts with --column")


def count_texts(names: list[str], column: str | None = None) -> int | None:
    """The number of texts in all files, None with standard input, which can be read only once."""
    return None if "-" in names else sum(map(len, file_batches(names, column)))


def stdin_batches() -> Iterator[list[str]]:
    """The lines of standard input, as many at a time as are there already. Raises UserError for input that is empty or
    not UTF-8."""
    try:
        yield from line_batches(sys.stdin.buffer, "standard input")
    except UnicodeDecodeError as error:
        raise UserError(
            f"standard input is not UTF-8 ({error.reason}); convert it first (iconv -f cp949 -t utf-8 for CP949)"
        ) from None


def line_batches(stream: Any, name: str) -> Iterator[list[str]]:
    """The lines of a binary stream of UTF-8. One read of the system returns a block of a file, but of a pipe or
    terminal only what was written so far, so a program that writes a line gets its answer before it writes the next."""
    return _from_first_text(_decoded_blocks(stream), name)


def _decoded_blocks(stream: Any) -> Iterator[list[str]]:
    parts, count, ends_by_cr = list[bytes](), 0, None
    while True:
        block = stream.read1(READ_BYTES)
        parts.append(block)
        is_known = ends_by_cr is not None
        # decided once, by as many bytes as of a file (`open_text.HEAD`); without a \n so far, one may still come
        if not is_known:
            head = b"".join(parts)
            if b"\n" in head or len(head) >= READ_BYTES or not block:
                ends_by_cr = has_mac_line_ends(head[:READ_BYTES])
        # joined only where a line ends: a line of many blocks would be copied with each of them
        if is_known and block and b"\n" not in block and not (ends_by_cr and b"\r" in block):
            continue
        rest = b"".join(parts)
        rest = rest.replace(b"\r", b"\n") if ends_by_cr else rest
        # bytes are split, not text: a block may end inside a character. str.splitlines() would also split at form
        # feeds and Unicode line separators inside a text
        *complete, rest = rest.split(b"\n")
        if not block and rest:
            complete, rest = [*complete, rest], b""
        parts, lines = [rest], []
        for line in complete:
            count += 1
            try:
                # Windows editors begin a file with a byte order mark
                lines.append(line.decode("utf-8" if count > 1 else "utf-8-sig").rstrip("\r"))
            except UnicodeDecodeError as error:
                error.reason += f" in line {count}"
                raise
        yield lines
        if not block:
            return


def _detected_lines(path: Path) -> Iterator[list[str]]:
    """The lines of a file in UTF-8, CP949 or UTF-16, as many at a time as make `READ_BYTES` characters."""
    lines, characters = list[str](), 0
    for row in readable(read_lines(path)):
        lines.append(row.cells["line"])
        characters += len(lines[-1])
        if characters >= READ_BYTES:
            yield lines
            lines, characters = [], 0
    yield lines


def _from_first_text(batches: Iterable[list[str]], name: str) -> Iterator[list[str]]:
    """The lines, blank ones too, so that the n-th result belongs to the n-th line; only those before the first text
    wait for it, since alone they are no input. Raises UserError where no line has a text."""
    leading, has_text = list[str](), False
    for batch in batches:
        lines = [*leading, *batch]
        has_text = has_text or any(lines)
        leading = [] if has_text else lines
        if has_text and lines:
            yield lines
    if not has_text:
        raise UserError(f"{name} is empty; give one text per line")
