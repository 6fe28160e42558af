"""The Modu corpora of the National Institute of Korean Language: written, newspaper and web texts by paragraphs, spoken and messenger texts
by utterances."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.opening import open_lines, read_json_text
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.errors import UserError

LINES = ("paragraph", "utterance", "sentence")


class Modu(Reader):
    """JSON files of the Modu corpora."""

    name: Literal["modu"] = "modu"
    form: str = "form"
    """Key of a line's text; `original_form` in spoken corpora is what was said before it was tidied."""
    encoding: str | None = None
    """Encoding of the files; null finds out: UTF-8, CP949 (EUC-KR) or UTF-16."""

    def documents(self, path: Path) -> Iterator[Document]:
        """One per entry of `document`."""
        with open_lines(path, self.encoding) as lines:
            content = read_json_text(path, lines)
        read = 0
        try:
            for document in content["document"]:
                read += 1
                paragraphs = [" ".join(line.splitlines()) for line in self._lines(document)]
                yield Document(str(document["id"]), path.name, "\n".join(paragraphs))
        except (KeyError, TypeError, AttributeError) as error:
            form = f"document > id and {' or '.join(LINES)} > {self.form}"
            raise UserError(f"{path}, document {read}, is not in the form of the Modu corpora ({form}; trouble with {error})") from None

    def _lines(self, document: dict[str, Any]) -> list[str]:
        kind = next((kind for kind in LINES if kind in document), None)
        if kind is None:
            raise KeyError(LINES[0])
        return [line[self.form] or "" for line in document[kind]]
