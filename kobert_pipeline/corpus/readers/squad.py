"""JSON files in SQuAD 1.1 form (KorQuAD 1.0, TyDi QA GoldP): contexts are documents; tasks read the questions too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.open_text import LARGEST_JSON, bounded_lines, open_text, read_json_text
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Unfit, strict


class Squad(Reader):
    """Contexts of question answering data sets."""

    name: Literal["squad"] = "squad"

    def documents(self, path: Path) -> Iterator[Document | Unfit]:
        """One per context."""
        for number, paragraph in enumerate(_paragraphs(path)):
            if isinstance(paragraph, Unfit):
                yield paragraph
            else:
                yield Document(f"{path.name}#{number}", path.name, paragraph["context"])


def paragraphs(path: Path) -> Iterator[dict[str, Any]]:
    """The paragraphs (`context`, `qas`) of a file. Raises Unfit for another form."""
    return strict(_paragraphs(path))


def _paragraphs(path: Path) -> Iterator[dict[str, Any] | Unfit]:
    with open_text(path) as file:
        content = read_json_text(path, bounded_lines(file, LARGEST_JSON))
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise _other_form(f"{path}", "data")
    for number, article in enumerate(content["data"]):
        place = f"{path}, entry {number} of data,"
        try:
            article_paragraphs = list(article["paragraphs"])
        except (KeyError, TypeError) as error:
            yield _other_form(place, error)
            continue
        for paragraph in article_paragraphs:
            yield paragraph if _is_paragraph(paragraph) else _other_form(place, "context and qas")


def _is_paragraph(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("context"), str) and isinstance(value.get("qas"), list)


def _other_form(place: str, trouble: object) -> Unfit:
    return Unfit(
        "other_form", f"{place} is not in SQuAD form (data > paragraphs > context and qas; trouble with {trouble})"
    )
