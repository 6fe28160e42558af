"""JSON Lines, one document per line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from kobert_pipeline.corpus.document import TOO_LONG, Document
from kobert_pipeline.corpus.reader import Encoded, Ordered, other_columns
from kobert_pipeline.errors import did_you_mean
from kobert_pipeline.tables.columns import text_cell
from kobert_pipeline.tables.rows import Rows, read_json_lines
from kobert_pipeline.tables.unreadable import Row, UnreadableInput, tried

ROOM = 1_000_000
"""Bytes that a line may have besides its text: keys, quotes, other values. Its text may have twice its bytes, escaped
as ASCII."""


class JsonLines(Encoded, Ordered):
    """JSON Lines, plain or .gz .bz2 .xz .zst."""

    name: Literal["jsonl"] = "jsonl"
    text: str = "text"
    """Key of the text."""
    id: str | None = "id"
    """Key of the document's id. Each line must have a key that is named here; without the key `id`, the default, a
    document has the number of its line. null: all have their numbers."""

    def documents(self, path: Path) -> Iterator[Document | UnreadableInput]:
        """One per line that is not blank. Raises UnreadableInput for a file that has none."""
        for document in tried(self._rows(path), lambda first: self._document):
            if isinstance(document, UnreadableInput) and document.location and document.reason == TOO_LONG:
                yield Document(f"{path.name}#{document.location.value}", path.name, "", self.ordered, TOO_LONG)
            else:
                yield document

    def columns_left_out(self, path: Path) -> list[str]:
        """The keys of the first line that are not read."""
        return other_columns((self.text, self.id), self._rows(path))

    def _rows(self, path: Path) -> Rows:
        return read_json_lines(path, self.encoding, 2 * self.max_document_bytes + ROOM, lossy=True)

    def _document(self, row: Row) -> Document:
        for key in filter(None, (self.text, None if self.id == "id" else self.id)):
            if key not in row.cells:
                hint = "set id: null to number the documents" if key == self.id else "set the source's option text"
                guess = did_you_mean(key, row.cells, "found")
                raise UnreadableInput("missing_key", f"there is no key '{key}'{guess}; {hint}")
        identity = None if self.id is None else row.cells.get(self.id)
        name = row.location.path.name
        document_id = f"{name}#{row.location.value}" if identity is None else str(identity)
        text = "" if row.cells[self.text] is None else text_cell(row, self.text)  # null is an empty cell
        return Document(document_id, name, text, self.ordered)
