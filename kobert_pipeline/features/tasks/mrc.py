"""Machine reading comprehension with unanswerable questions: KLUE-MRC, SQuAD 2.0 and files in their form.

Scored as in SQuAD 2.0, over KorQuAD's characters, and as in Park et al., *KLUE*, NeurIPS 2021.
"""

from pathlib import Path
from typing import Any, ClassVar, Literal

from kobert_pipeline.features.metrics import klue_scores
from kobert_pipeline.features.span_examples import question_examples, question_rows
from kobert_pipeline.features.task import Example
from kobert_pipeline.features.unanswerable import UnanswerableTask


class Mrc(UnanswerableTask):
    """JSON files in SQuAD 2.0 form, or tables as `datasets` writes them: `is_impossible`, or no answers, for a question
    without one; `guid` or `id`."""

    name: Literal["mrc"] = "mrc"
    sample: ClassVar[dict[str, Any]] = {
        "question": "한글은 누가 만들었는가?",
        "context": "한글은 세종대왕이 1443년에 만들었다.",
    }

    def read(self, path: Path) -> list[Example]:
        """Every question. Raises UserError where an answer is not at its `answer_start`, or an id occurs twice."""
        return question_examples(question_rows(path), self.name)

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """The scores of every task with unanswerable questions, and KLUE's exact match and ROUGE-W, in percent."""
        answers = [[text for text, _ in example["answers"]] for example in examples]
        return super().score(predictions, examples) | klue_scores(predictions, answers)
