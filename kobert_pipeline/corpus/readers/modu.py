"""The Modu corpora of the National Institute of Korean Language: written, newspaper and web texts by paragraphs, spoken and messenger texts
by utterances."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json

LINES = ("paragraph", "utterance", "sentence")


class Modu(Reader):
    """JSON files of the Modu corpora."""

    name: Literal["modu"] = "modu"
    form: str = "form"
    """Key of a line's text; `original_form` in spoken corpora is what was said before it was tidied."""

    def documents(self, path: Path) -> Iterator[Document]:
        """One per entry of `document`."""
        content = read_json(path)
        try:
            for document in content["document"]:
                lines = self._lines(document)
                yield Document(str(document["id"]), path.name, "\n".join(" ".join(line.splitlines()) for line in lines))
        except (KeyError, TypeError, AttributeError) as error:
            form = f"document > id and {' or '.join(LINES)} > {self.form}"
            raise UserError(f"{path} is not in the form of the Modu corpora ({form}; trouble with {error})") from None

    def _lines(self, document: dict[str, Any]) -> list[str]:
        kind = next((kind for kind in LINES if kind in document), None)
        if kind is None:
            raise KeyError(LINES[0])
        return [line[self.form] for line in document[kind]]
