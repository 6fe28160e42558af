"""Your own questions about your own contexts, in SQuAD form or in any table that tasks read. No code is needed."""

from pathlib import Path
from typing import Literal

from kobert_pipeline.features.span_examples import KNOWN, table_maker, with_distinct_ids
from kobert_pipeline.features.task import Example
from kobert_pipeline.features.unanswerable import UnanswerableTask
from kobert_pipeline.tables.rows import read_each


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
        columns = {name: getattr(self, name) for name in KNOWN}
        return read_each(path, lambda first: with_distinct_ids(table_maker(self.name, columns, first)))
