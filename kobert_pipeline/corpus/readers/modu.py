"""The Modu corpora of the National Institute of Korean Language: written, newspaper and web texts in paragraphs, spoken
and messenger texts in utterances."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Encoded
from kobert_pipeline.tables.modu import LINES
from kobert_pipeline.tables.open_text import read_json_file
from kobert_pipeline.tables.unreadable import UnreadableInput


class Modu(Encoded):
    """JSON files of the Modu corpora."""

    name: Literal["modu"] = "modu"
    form: str = "form"
    """Key of a line's text; spoken corpora have the unedited transcript as `original_form`."""

    def documents(self, path: Path) -> Iterator[Document | UnreadableInput]:
        """One per entry of `document`."""
        content = read_json_file(path, self.encoding, lossy=True)
        if not isinstance(content, dict) or not isinstance(content.get("document"), list):
            raise self._other_form(f"{path}", "document")
        for position, document in enumerate(content["document"], 1):
            try:
                yield Document(str(document["id"]), path.name, "\n".join(self._lines(document)))
            except (KeyError, TypeError, AttributeError) as error:
                yield self._other_form(f"{path}, document {position},", error)

    def _other_form(self, location: str, trouble: object) -> UnreadableInput:
        form = f"document > id and {' or '.join(LINES)} > {self.form}"
        return UnreadableInput(
            "other_form", f"{location} is not in the form of the Modu corpora ({form}; trouble with {trouble})"
        )

    def _lines(self, document: dict[str, Any]) -> list[str]:
        kind = next((kind for kind in LINES if kind in document), None)
        if kind is None:
            raise KeyError(LINES[0])
        return [line[self.form] or "" for line in document[kind]]
