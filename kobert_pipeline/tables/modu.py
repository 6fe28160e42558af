"""JSON files of the Modu corpora of the National Institute of Korean Language: document > sentence > form."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput

SENTENCE = "sentence"
"""The unit of the locations of sentences."""
LINES = ("paragraph", "utterance", SENTENCE)
"""Keys of a document's lines; annotated corpora have sentences, or utterances where they are spoken."""


def sentences_of(path: Path, documents: list[Any]) -> Iterator[Row | UnreadableInput]:
    """The lines of documents as rows with their own keys; the key `form` holds the text."""
    index = 0
    for document_number, document in enumerate(documents, 1):
        lines = [value for key in LINES if isinstance(document, dict) and isinstance(value := document.get(key), list)]
        if not lines:
            problem = f"it has none of {', '.join(LINES)}, one of which was expected as in the Modu corpora"
            yield UnreadableInput("other_form", problem, Location(path, "entry", document_number, " of document"))
        # the last of LINES that the document has: annotations are of sentences, or of utterances
        for line in next(filter(None, reversed(lines)), ()):
            index += 1
            location = Location(path, SENTENCE, str(line.get("id", index)) if isinstance(line, dict) else index)
            if isinstance(line, dict) and "form" in line:
                yield Row(line, location, index)
            else:
                yield UnreadableInput("other_form", f"it is {line!r:.60}; an object with form was expected", location)
