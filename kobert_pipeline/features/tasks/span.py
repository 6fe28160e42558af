"""Your own questions about your own contexts, in SQuAD form or in any table that tasks read. No code is needed."""

import re
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.questions import (
    answer_pairs,
    is_squad_file,
    refuse_repeated_ids,
    span_example,
    squad_examples,
)
from kobert_pipeline.features.tables import IDS, Row, cell, column_of, each_row, has_column, rows
from kobert_pipeline.features.task import Example
from kobert_pipeline.features.unanswerable import UnanswerableTask

KNOWN: dict[str, tuple[str, ...]] = {
    "id": IDS, "question": ("question",), "context": ("context", "paragraph", "document"),
    "answer": ("answers", "answer", "answer_text"), "start": ("answer_start", "start"),
}  # fmt: skip
IMPOSSIBLE = "is_impossible"
TRUE, FALSE = ("true", "1", "1.0"), ("false", "0", "0.0", "")


class Span(UnanswerableTask):
    """Rows with a question, a context, the answer and the character (from 0) where it begins; an empty answer means
    that there is none. Known columns: question, context, answer and answer_start, or answers with both; is_impossible.
    Or JSON in SQuAD form."""

    name: Literal["span"] = "span"

    id: str | None = None
    """Column of a question's id; null: guid or id where there is one, else the row number, from 1."""
    question: str | None = None
    """Column of the question; null: question."""
    context: str | None = None
    """Column of the context; null: context, paragraph or document."""
    answer: str | None = None
    """Column of the answer, or of all answers with their starts; null: answers, answer or answer_text."""
    start: str | None = None
    """Column of the character, counted from 0, where the answer begins in the context; null: answer_start or start."""

    def read(self, path: Path) -> list[Example]:
        """Every question. Raises UserError for a missing column, and where the context does not have an answer at its
        start."""
        if is_squad_file(path):
            return squad_examples(path)
        table = list(rows(path))
        columns = self._columns(path, table[0]) if table else {}
        return refuse_repeated_ids(path, each_row(table, lambda row: _example(row, columns)))

    def _columns(self, path: Path, first: Row) -> dict[str, str | None]:
        """The column of each role, by the first row."""
        columns: dict[str, str | None] = {}
        for role, known in KNOWN.items():
            # answers that are not text contain their starts, so they need no column
            needed = role != "id" and (role != "start" or isinstance(cell(first, str(columns["answer"])), str))
            columns[role] = column_of(role, path, first, self.name, getattr(self, role), known, needed)
        return columns


def _example(row: Row, columns: dict[str, str | None]) -> Example:
    values: dict[str, Any] = {role: cell(row, column) for role, column in columns.items() if column}
    impossible = has_column(row.cells, IMPOSSIBLE) and _truth(cell(row, IMPOSSIBLE), row.place)
    try:
        answers = [] if impossible else answer_pairs(values["answer"], values.get("start"))
    except (KeyError, TypeError):
        raise UserError(
            f"{row.place}: the column '{columns['answer']}' holds {values['answer']!r:.60}; a text, with its start in "
            "a column that the option start names, or answers with text and answer_start were expected"
        ) from None
    answers = [[text, _parse_start(start)] for text, start in answers]
    return span_example(row.place, str(values.get("id", row.number)), values["question"], values["context"], answers)


def _truth(value: Any, place: str) -> bool:
    """The truth value of a cell; empty is false. Raises UserError for other words."""
    word = "" if value is None else str(value).strip().lower()
    if word not in TRUE + FALSE:
        raise UserError(f"{place}: {IMPOSSIBLE} is {value!r:.60}; true, false, 1, 0 or nothing was expected")
    return word in TRUE


def _parse_start(start: Any) -> Any:
    """A start as a number where a table has it as text of up to 18 digits; other values are refused later."""
    return int(start) if isinstance(start, str) and re.fullmatch(r"[0-9]{1,18}", start.strip()) else start
