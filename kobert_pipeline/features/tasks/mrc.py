"""Machine reading comprehension where the paragraph need not hold the answer: KLUE-MRC, SQuAD 2.0 and what has their
form.

Park et al., *KLUE*, NeurIPS 2021 (whose own scores are exact match and ROUGE-W; here it is KorQuAD's F1 over
characters).
"""

from pathlib import Path
from typing import Literal

from kobert_pipeline.features.questions import refuse_repeated_ids, squad_example, squad_questions
from kobert_pipeline.features.task import Example
from kobert_pipeline.features.unanswerable import UnanswerableTask


class Mrc(UnanswerableTask):
    """JSON files in SQuAD 2.0 form: `is_impossible`, or no answers, for a question without one; `guid` or `id`."""

    name: Literal["mrc"] = "mrc"

    def read(self, path: Path) -> list[Example]:
        """Every question. Raises UserError when an answer does not stand where `answer_start` says, or an id comes
        twice."""
        return refuse_repeated_ids(
            path, [squad_example(path, context, question) for context, question in squad_questions(path)]
        )
