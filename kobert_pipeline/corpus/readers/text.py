"""Plain text: one paragraph per line, documents separated by blank lines (or one document per line or file)."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

from kobert_pipeline.corpus.document import TOO_LONG, Document
from kobert_pipeline.corpus.reader import Encoded, Ordered, read_head, refuse_format
from kobert_pipeline.tables.file_type import data_suffix
from kobert_pipeline.tables.open_text import TooLong, open_lines
from kobert_pipeline.tables.unreadable import UnreadableInput, only_blank_lines

DATA_FILES = {
    **dict.fromkeys((".jsonl", ".ndjson"), ("jsonl", "JSON Lines")),
    ".json": ("json", "JSON"),
    **dict.fromkeys((".csv", ".tsv", ".xlsx"), ("csv", "a table")),
}
"""Suffix -> the reader of such files, which is also the reason that is counted, and what they are."""


class Text(Encoded, Ordered):
    """Plain text files."""

    name: Literal["text"] = "text"
    documents_by: Literal["blank_line", "line", "file"] = "blank_line"
    """What ends a document."""

    def taken_for(self) -> str:
        """Its name, and where its documents end, since that is easily overlooked: files do not end them alone."""
        ends = {"blank_line": "up to each blank line", "line": "a line", "file": "a file"}[self.documents_by]
        return f"{self.name} with one document {ends} (documents_by)"

    @property
    def files_are_documents(self) -> bool:
        """As `documents_by` says."""
        return self.documents_by == "file"

    def documents(self, path: Path) -> Iterator[Document]:
        """One per block of lines. Raises UnreadableInput for a file that has only blank lines, or that another reader
        should read (subtitles, a chat log, HTML, CSV, ...)."""
        block: list[str] = []
        index = size = 0
        refuse_data_file(path)
        # + 2: a line end (\r\n) is read with the line, but is not part of the document
        with open_lines(path, self.encoding, self.max_document_bytes + 2) as file:
            head = list(read_head(file))
            refuse_format(path, "".join(head))
            for line in chain(head, file):
                if line.startswith("<doc "):  # further down, where files were joined
                    refuse_format(path, line)
                size += self.max_document_bytes + 3 if isinstance(line, TooLong) else len(line)
                if size > self.max_document_bytes + 2:
                    block = [TooLong("...")]  # the rest of the document is read, but not kept in memory
                elif line.strip():
                    block.append(line.rstrip("\r\n"))
                ends = self.documents_by == "line" or (self.documents_by == "blank_line" and not line.strip())
                if block and ends:
                    yield self._document(path, index, block)
                    block, index, size = [], index + 1, 0
                # blank lines between documents count for neither of them
                elif not block:
                    size = 0
        if block:
            yield self._document(path, index, block)
        elif not index:
            raise only_blank_lines(path)

    def _document(self, path: Path, index: int, block: list[str]) -> Document:
        dropped = TOO_LONG if isinstance(block[0], TooLong) else ""
        return Document(f"{path.name}#{index}", path.name, "" if dropped else "\n".join(block), self.ordered, dropped)


def refuse_data_file(path: Path) -> None:
    """Raise UnreadableInput for a file whose name says that its texts are in columns or under keys."""
    reader, what = DATA_FILES.get(data_suffix(path), ("", ""))
    if reader:
        sentence = f"{path} is {what} by its name, whose keys or columns are no text; use the reader {reader}"
        raise UnreadableInput(reader, sentence)
