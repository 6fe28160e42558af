"""Parquet files with any column names; rows may be grouped into one document (all reviews of a film)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Ordered, gathered, other_columns
from kobert_pipeline.tables.columns import text_cell
from kobert_pipeline.tables.rows import read_parquet
from kobert_pipeline.tables.unreadable import Row, UnreadableInput, tried


class Parquet(Ordered):
    """Parquet files."""

    name: Literal["parquet"] = "parquet"
    text: str = "text"
    """Column of the text."""
    id: str | None = None
    """Column of the document's id; null: the row number."""
    group_by: str | None = None
    """Column by which neighbouring rows with equal values are joined to one document, each row a paragraph. Such
    documents are never `ordered`."""

    def documents(self, path: Path) -> Iterator[Document | UnreadableInput]:
        """One per row, or one per group of rows."""
        options = (("text", self.text), ("id", self.id), ("group_by", self.group_by))
        required = {column: f"; the source's option {option} names the column" for option, column in options if column}
        rows = read_parquet(path, required)
        if self.group_by is None:
            yield from tried(rows, lambda first: self._document)
        else:
            yield from gathered(path, tried(rows, lambda first: self._with_text), self.group_by, [self.text])

    def columns_left_out(self, path: Path) -> list[str]:
        """The columns that are not read."""
        return other_columns((self.text, self.id, self.group_by), read_parquet(path))

    def _document(self, row: Row) -> Document:
        identity, name = row.cells[self.id] if self.id else None, row.location.path.name
        document_id = f"{name}#{row.index - 1}" if identity is None else str(identity)
        return Document(document_id, name, self._with_text(row).cells[self.text] or "", self.ordered)

    def _with_text(self, row: Row) -> Row:
        if row.cells[self.text] is not None:  # null is an empty cell
            text_cell(row, self.text)
        return row
