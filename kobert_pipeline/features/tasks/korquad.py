"""KorQuAD 1.0 and other data sets in SQuAD 1.1 form: answers are spans of a paragraph."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.questions import refuse_repeated_ids, squad_example, squad_questions
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Example


class KorQuad(SpanTask):
    """JSON files in SQuAD 1.1 form. Silver questions whose article is in KorQuAD's dev set (`title_in_korquad1_dev`)
    are left out."""

    name: Literal["korquad"] = "korquad"
    sample: ClassVar[dict[str, Any]] = {
        "question": "한글은 누가 만들었는가?",
        "context": "한글은 세종대왕이 1443년에 만들었다.",
    }

    def read(self, path: Path) -> list[Example]:
        """Every question. Raises UserError where an answer is not at its `answer_start` or is missing, or an id occurs
        twice."""
        examples = [
            squad_example(path, context, question)
            for context, question in squad_questions(path)
            if not question.get("title_in_korquad1_dev")
        ]
        without = next((example["id"] for example in examples if not example["answers"]), None)
        if without is not None:
            raise UserError(
                f"{path}, question {without}: it has no answer; the task mrc learns from questions without one, or "
                "leave it out"
            )
        return refuse_repeated_ids(path, examples)
