"""Plain text: one paragraph a line, documents separated by blank lines (or one document per line or file)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.opening import open_lines
from kobert_pipeline.corpus.reader import Reader


class Text(Reader):
    """Plain text files."""

    name: Literal["text"] = "text"
    encoding: str | None = None
    """Encoding of the files; null finds out: UTF-8, CP949 (EUC-KR) or UTF-16."""
    documents_by: Literal["blank_line", "line", "file"] = "blank_line"
    """What ends a document."""
    ordered: bool = True
    """Whether the order of paragraphs means anything."""

    def documents(self, path: Path) -> Iterator[Document]:
        """Blocks of lines."""
        block: list[str] = []
        number = 0
        with open_lines(path, self.encoding) as file:
            for line in file:
                if line.strip():
                    block.append(line.rstrip("\r\n"))
                if block and (self.documents_by == "line" or (self.documents_by == "blank_line" and not line.strip())):
                    yield self._document(path, number, block)
                    block, number = [], number + 1
        if block:
            yield self._document(path, number, block)

    def _document(self, path: Path, number: int, block: list[str]) -> Document:
        return Document(f"{path.name}#{number}", path.name, "\n".join(block), self.ordered)
