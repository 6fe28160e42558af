"""KorQuAD 1.0 and everything in its (SQuAD 1.1) form: answers are spans of a paragraph."""

from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.readers.squad import paragraphs
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Example


class KorQuad(SpanTask):
    """JSON files in SQuAD 1.1 form. Silver questions whose article is in KorQuAD's dev set (`title_in_korquad1_dev`) are left out."""

    name: Literal["korquad"] = "korquad"

    def read(self, path: Path) -> list[Example]:
        """Every question. Raises UserError when an answer does not stand where `answer_start` says, or is missing, or an id comes twice."""
        examples = [
            self._example(path, paragraph["context"], question)
            for paragraph in paragraphs(path)
            for question in paragraph["qas"]
            if not question.get("title_in_korquad1_dev")
        ]
        seen: set[str] = set()
        for example in examples:
            if example["id"] in seen:
                raise UserError(f"{path}: two questions have the id {example['id']}; give each its own")
            seen.add(example["id"])
        return examples

    def _example(self, path: Path, context: str, question: dict[str, Any]) -> Example:
        try:
            answers = [[answer["text"], answer["answer_start"]] for answer in question["answers"]]
            identity, words = question["id"], question["question"]
        except (KeyError, TypeError) as error:
            raise UserError(f"{path}: a question lacks {error}; each needs id, question, answers (text, answer_start)") from None
        if not answers:
            raise UserError(
                f"{path}, question {identity}: it has no answer, and questions without answers are not learned yet; leave it out"
            )
        for text, start in answers:
            if not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
                found = context[start : start + len(text)] if isinstance(start, int) else None
                raise UserError(f"{path}, question {identity}: answer_start is {start}, where {found!r} stands, not the answer {text!r}")
        return {"id": identity, "group": context, "question": words, "context": context, "answers": answers}
