"""CSV, TSV and Excel files with column names in the first line. Texts may be in several columns, rows may be
grouped."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import field_validator

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Encoded, Ordered, gathered, other_columns
from kobert_pipeline.tables.csv import read_csv
from kobert_pipeline.tables.excel import read_excel
from kobert_pipeline.tables.file_type import data_suffix
from kobert_pipeline.tables.rows import Rows
from kobert_pipeline.tables.unreadable import UnreadableInput


class Csv(Encoded, Ordered):
    """CSV and TSV files, plain or .gz .bz2 .xz .zst, and Excel files (.xlsx; extra `xlsx`)."""

    name: Literal["csv"] = "csv"
    text: str | list[str] = "text"
    """Column of the text, or a list of columns, such as [sentence1, sentence2]; each cell becomes its own document."""
    id: str | None = None
    """Column of the document's id; null: the number of the row below the column names, from 1."""
    group_by: str | None = None
    """Column by which neighbouring rows with equal values are joined to one document, each cell a paragraph. Such
    documents are never `ordered`."""
    delimiter: str | None = None
    """Character that separates cells; null: a comma in .csv files (a semicolon where their first line has semicolons
    and no commas), a tab in .tsv and .txt files."""
    quoted: bool | None = None
    """Whether cells in double quotes may contain delimiters, line ends and doubled quotes; null: yes, unless the
    delimiter is a tab."""

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

    def documents(self, path: Path) -> Iterator[Document | UnreadableInput]:
        """One per text cell, or one per group of rows."""
        rows, columns = self._rows(path), self._text_columns()
        if self.group_by is not None:
            yield from gathered(path, rows, self.group_by, columns)
            return
        for row in rows:
            if isinstance(row, UnreadableInput):
                yield row
                continue
            identity = (row.cells[self.id] if self.id else "") or f"{path.name}#{row.index}"
            for column in columns:
                column_id = identity if len(columns) == 1 else f"{identity}:{column}"
                yield Document(column_id, path.name, row.cells[column], self.ordered)

    def columns_left_out(self, path: Path) -> list[str]:
        """The columns that are not read."""
        return other_columns((*self._text_columns(), self.id, self.group_by), self._rows(path))

    def _text_columns(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text

    def _rows(self, path: Path) -> Rows:
        options = [*(("text", column) for column in self._text_columns()), ("id", self.id), ("group_by", self.group_by)]
        required = {column: f"; the source's option {option} names the column" for option, column in options if column}
        if data_suffix(path) == ".xlsx":
            return read_excel(path, required)
        return read_csv(path, self.delimiter, self.quoted, self.encoding, required, lossy=True)
