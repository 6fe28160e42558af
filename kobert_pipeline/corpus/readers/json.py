"""JSON files of any structure (such as AI-Hub's): one path of keys leads to the documents, another from each document
to its texts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import Encoded, Ordered, read_head, refuse_format
from kobert_pipeline.errors import did_you_mean
from kobert_pipeline.tables.open_text import open_lines, read_json_file
from kobert_pipeline.tables.unreadable import UnreadableInput


class Json(Encoded, Ordered):
    """JSON files of any structure, read by paths of keys (`data.*.paragraphs.*.context`; * is every entry of a list or
    object)."""

    name: Literal["json"] = "json"
    documents_at: str = ""
    """Path from the file to its documents, such as data.*; empty: the file is one document."""
    text: str
    """Path from a document to its texts, such as paragraphs.*.context; their lines become paragraphs."""
    id: str | None = None
    """Path from a document to its id; null: the document's number."""

    @property
    def files_are_documents(self) -> bool:
        """As `documents_at` says."""
        return not self.documents_at

    def documents(self, path: Path) -> Iterator[Document | UnreadableInput]:
        """One per value that `documents_at` leads to."""
        for index, document in enumerate(follow(self._content(path), self.documents_at, str(path))):
            try:
                yield self._document(path, index, document)
            except UnreadableInput as problem:
                yield problem

    def _content(self, path: Path) -> Any:
        try:
            return read_json_file(path, self.encoding, lossy=True)
        except UnreadableInput as problem:
            if problem.reason == "not_json":  # what else is it?
                with open_lines(path, self.encoding) as lines:
                    refuse_format(path, "".join(read_head(lines)), "json")
            raise

    def _document(self, path: Path, index: int, document: Any) -> Document:
        location = f"{path}, document {index}"
        texts = list(follow(document, self.text, location))
        for text in texts:
            if not isinstance(text, str):
                raise UnreadableInput(
                    "wrong_type", f"{location}: {self.text} leads to {type(text).__name__}, text was expected"
                )
        identity = f"{path.name}#{index}"
        if self.id and (value := next(follow(document, self.id, location), None)) not in (None, ""):
            identity = str(value)
        if not self.ordered and "*" in self.text.split("."):  # a line is then a unit of its own, such as a review
            texts = [" ".join(text.splitlines()) for text in texts]
        return Document(identity, path.name, "\n".join(texts), self.ordered, characters_in=count_characters(document))


def count_characters(value: Any) -> int:
    """The characters of all texts in a value of JSON, without keys; each with a line end."""
    if isinstance(value, str):
        return len(value) + 1
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(count_characters, entries))


def follow(content: Any, keys: str, location: str) -> Iterator[Any]:
    """Every value that a path of keys leads to. Raises UnreadableInput, with `location`, for a key that does not
    exist."""
    if not keys:
        yield content
        return
    key, _, rest = keys.partition(".")
    if key == "*" and isinstance(content, (list, dict)):
        for value in content.values() if isinstance(content, dict) else content:
            yield from follow(value, rest, location)
    elif isinstance(content, dict) and key in content:
        yield from follow(content[key], rest, location)
    elif isinstance(content, dict):
        guess = did_you_mean(key, content, "found")
        raise UnreadableInput("missing_key", f"{location}: there is no key '{key}'{guess}")
    else:
        raise UnreadableInput(
            "wrong_type",
            f"{location}: '{key}' was looked for in {type(content).__name__}; * goes through a list, a key through an "
            "object",
        )
