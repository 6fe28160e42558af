"""JSON Lines, one document per line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import TOO_LONG, Document
from kobert_pipeline.corpus.open_text import TooLong, open_lines, refuse_too_long
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Unfit, only_blank_lines
from kobert_pipeline.errors import did_you_mean
from kobert_pipeline.files import parse_json

ROOM = 1_000_000
"""Bytes that a line may have besides its text: keys, quotes, other values."""


class JsonLines(Reader):
    """JSON Lines, plain or .gz .bz2 .xz .zst."""

    name: Literal["jsonl"] = "jsonl"
    text: str = "text"
    """Key of the text."""
    id: str | None = "id"
    """Key of the document's id; null: the line number."""
    encoding: str | None = None
    """Encoding of the files; null: detected among UTF-8, CP949 (EUC-KR) and UTF-16."""
    ordered: bool = True
    """Whether the order of paragraphs means anything."""

    def documents(self, path: Path) -> Iterator[Document | Unfit]:
        """One per non-empty line. Raises Unfit for a file that has none."""
        is_blank = True
        with open_lines(path, self.encoding, self.max_document_bytes + ROOM) as file:
            for number, line in enumerate(file, 1):
                is_blank = is_blank and not line.strip()
                if isinstance(line, TooLong):
                    yield Document(f"{path.name}#{number}", path.name, "", self.ordered, TOO_LONG)
                elif line.strip():
                    try:
                        yield self._document(path, number, line)
                    except Unfit as problem:
                        yield problem
        if is_blank:
            raise only_blank_lines(path)

    def _document(self, path: Path, number: int, line: str) -> Document:
        row = json_object(path, number, line)
        for key in filter(None, (self.text, self.id)):
            if key not in row:
                hint = "set id: null to number the documents" if key == self.id else "set the source's option text"
                guess = did_you_mean(key, row).replace("allowed", "found")
                raise Unfit("missing_key", f"{path}, line {number}: there is no key '{key}'{guess}; {hint}")
        if not isinstance(row[self.text], str):
            kind = type(row[self.text]).__name__
            raise Unfit("wrong_type", f"{path}, line {number}: the key '{self.text}' holds {kind}, text was expected")
        identity = None if self.id is None else row[self.id]
        name = f"{path.name}#{number}" if identity is None else str(identity)
        return Document(name, path.name, row[self.text], self.ordered)


def json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    """The JSON object in line `number` of `path`. Raises Unfit, with both, for anything else."""
    refuse_too_long(path, number, line)
    try:
        row = parse_json(line)
    except ValueError as error:
        raise Unfit("not_json", f"{path}, line {number}: not JSON ({getattr(error, 'msg', error)})") from None
    if not isinstance(row, dict):
        raise Unfit("wrong_type", f"{path}, line {number}: an object was expected, not {type(row).__name__}")
    return row
