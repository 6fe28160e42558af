"""JSON files in SQuAD form (KorQuAD 1.0, KLUE-MRC, SQuAD 2.0, TyDi QA GoldP): data > paragraphs > context and qas."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kobert_pipeline.tables.columns import IDS
from kobert_pipeline.tables.open_text import read_json_file
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput

QUESTION = "question"
"""The unit of the locations of questions."""


def paragraphs(path: Path) -> Iterator[dict[str, Any] | UnreadableInput]:
    """The paragraphs (`context`, `qas`) of a file. Raises UnreadableInput for another form."""
    yield from paragraphs_of(path, read_json_file(path))


def paragraphs_of(path: Path, content: Any) -> Iterator[dict[str, Any] | UnreadableInput]:
    """The paragraphs of a file with this content."""
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise _other_form(f"{path} is", "data")
    for article_index, article in enumerate(content["data"], 1):
        location = Location(path, "entry", article_index, " of data")
        try:
            entries = list(article["paragraphs"])
        except (KeyError, TypeError) as error:
            yield _other_form("it is", error, location)
            continue
        for entry in entries:
            yield entry if _is_paragraph(entry) else _other_form("it is", "context and qas", location)


def _is_paragraph(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("context"), str) and isinstance(value.get("qas"), list)


def _other_form(subject: str, trouble: object, location: Location | None = None) -> UnreadableInput:
    form = "data > paragraphs > context and qas"
    return UnreadableInput("other_form", f"{subject} not in SQuAD form ({form}; trouble with {trouble})", location)


def questions(path: Path) -> Iterator[Row | UnreadableInput]:
    """The questions of a file as rows: their own keys and `context`. Raises UnreadableInput for another form."""
    yield from questions_of(path, read_json_file(path))


def questions_of(path: Path, content: Any) -> Iterator[Row | UnreadableInput]:
    """The questions of a file with this content."""
    for paragraph in paragraphs_of(path, content):
        if isinstance(paragraph, UnreadableInput):
            yield paragraph
            continue
        for question_number, question in enumerate(paragraph["qas"], 1):
            if not isinstance(question, dict):
                problem = f"it is {question!r:.60}; an object with id, question and answers was expected"
                location = Location(path, QUESTION, question_number, f" of the context {paragraph['context'][:20]!r}")
                yield UnreadableInput("other_form", problem, location)
                continue
            cells = {**question, "context": paragraph["context"]}
            for name in IDS:  # guid in KLUE-MRC, question_id in AI-Hub's sets; SQuAD and KorQuAD have id
                if name != "id" and name in cells:
                    cells.setdefault("id", cells.pop(name))
            yield Row(cells, Location(path, QUESTION, str(cells.get("id", question_number))), 0)
