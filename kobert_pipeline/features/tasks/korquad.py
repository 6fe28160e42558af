"""KorQuAD 1.0 and other data sets in SQuAD 1.1 form: answers are spans of a paragraph."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.span_examples import TRUE, question_examples, question_rows
from kobert_pipeline.features.task import Example
from kobert_pipeline.tables.unreadable import Row

IN_DEV = "title_in_korquad1_dev"
"""Key of silver questions whose article is in KorQuAD's dev set."""


class KorQuad(SpanTask):
    """JSON files in SQuAD 1.1 form, or tables as `datasets` writes them. Silver questions whose article is in KorQuAD's
    dev set (`title_in_korquad1_dev`) are left out."""

    name: Literal["korquad"] = "korquad"
    sample: ClassVar[dict[str, Any]] = {
        "question": "한글은 누가 만들었는가?",
        "context": "한글은 세종대왕이 1443년에 만들었다.",
    }

    def read(self, path: Path) -> list[Example]:
        """Every question. Raises UserError where an answer is not at its `answer_start` or is missing, or an id occurs
        twice."""
        # a table has true and false as texts
        rows = (row for row in question_rows(path) if not isinstance(row, Row) or not is_true(row.cells.get(IN_DEV)))
        return question_examples(rows, self.name, require_answer)


def is_true(value: Any) -> bool:
    """Whether a value, or a text of a table, says true."""
    return str(value).strip().lower() in TRUE


def require_answer(example: Example) -> Example:
    """The example. Raises UserError for one without an answer."""
    if not example["answers"]:
        raise UserError("it has no answer; the task mrc learns from questions without one, or leave it out")
    return example
