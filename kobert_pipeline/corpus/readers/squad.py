"""SQuAD 1.1 form (KorQuAD 1.0, TyDi QA GoldP): the contexts as documents, and the questions for whoever needs them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.opening import open_text, read_json_text
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.errors import UserError


class Squad(Reader):
    """Contexts of question answering sets."""

    name: Literal["squad"] = "squad"

    def documents(self, path: Path) -> Iterator[Document]:
        """One per context."""
        for number, paragraph in enumerate(paragraphs(path)):
            yield Document(f"{path.name}#{number}", path.name, paragraph["context"])


def paragraphs(path: Path) -> Iterator[dict[str, Any]]:
    """The paragraphs (`context`, `qas`) of a file. Raises UserError for another form."""
    with open_text(path) as file:
        content = read_json_text(path, file)
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                if not isinstance(paragraph["context"], str) or not isinstance(paragraph["qas"], list):
                    raise TypeError("context and qas")
                yield paragraph
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} is not in SQuAD form (data > paragraphs > context and qas; trouble with {error})") from None
