"""Read and check questions about contexts, in SQuAD form or from the rows of a table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kobert_pipeline.corpus.open_text import COMPRESSED, LARGEST_JSON, open_lines
from kobert_pipeline.corpus.readers.squad import paragraphs
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Example, refuse_blank


def squad_questions(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each (context, question) of a file in SQuAD form. Raises UserError for another form."""
    for paragraph in paragraphs(path):
        for question in paragraph["qas"]:
            if not isinstance(question, dict):
                raise UserError(
                    f"{path}: a question is {question!r:.60}; an object with id, question and answers was expected"
                )
            yield paragraph["context"], question


def squad_examples(path: Path) -> list[Example]:
    """The examples of a file in SQuAD form, with or without answers. Raises UserError for wrong ones, and where an id
    occurs twice."""
    examples = [squad_example(path, context, question) for context, question in squad_questions(path)]
    return refuse_repeated_ids(path, examples)


def squad_example(path: Path, context: str, question: dict[str, Any]) -> Example:
    """The example of a question in SQuAD form, without answers where `is_impossible` is true. Raises UserError where
    something is missing, including the answer of a question with `is_impossible` false."""
    try:
        identity = question_id(question)
        # a question with is_impossible may still have `plausible_answers`, or even answers
        answers = [] if question.get("is_impossible") else answer_pairs(question["answers"])
        words = question["question"]
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path}: a question lacks {error}; each needs id, question, answers (text, answer_start)"
        ) from None
    place = f"{path}, question {identity}"
    if not answers and question.get("is_impossible") is False:
        raise UserError(f"{place}: is_impossible is false, but it has no answer; add one, or set is_impossible to true")
    return span_example(place, str(identity), words, context, answers)


def question_id(question: dict[str, Any]) -> Any:
    """The id of a question in SQuAD form. Raises KeyError where it has none."""
    # KLUE-MRC has guid, SQuAD and KorQuAD have id
    return question["guid"] if "guid" in question and "id" not in question else question["id"]


def answer_pairs(answers: Any, start: Any = None) -> list[list[Any]]:
    """[text, start] of each answer, without empty texts. `answers` are objects (`text`, `answer_start`), or one object
    with a list of each, or a text (or list) with its `start` (or list). Raises KeyError or TypeError for anything
    else."""
    if isinstance(answers, dict):
        answers, start = answers["text"], answers["answer_start"]
    elif isinstance(answers, list) and all(isinstance(answer, dict) for answer in answers):
        answers, start = [answer["text"] for answer in answers], [answer["answer_start"] for answer in answers]
    # a cell without an answer is None in Parquet and JSON, and "" in CSV and TSV
    if answers is None or isinstance(answers, str):
        answers, start = [answers or ""], [start]
    if not isinstance(answers, list) or not isinstance(start, list) or len(answers) != len(start):
        raise TypeError("a start for each answer")
    return [[text, begin] for text, begin in zip(answers, start, strict=True) if text != ""]


def span_example(place: str, identity: str, question: Any, context: Any, answers: list[list[Any]]) -> Example:
    """An example for `SpanTask`. Raises UserError unless question and context are text and the context has every answer
    at its start."""
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str):
            raise UserError(f"{place}: the {name} holds {type(text).__name__}, text was expected")
        refuse_blank(text, place, f"the {name}")
    for text, start in answers:
        if not isinstance(text, str):
            raise UserError(f"{place}: an answer holds {type(text).__name__}, text was expected")
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise UserError(
                f"{place}: answer_start is {start!r:.60}; the character, counted from 0, where the answer {text!r} "
                "begins was expected"
            )
        if (there := context[start : start + len(text)]) != text:
            raise UserError(
                f"{place}: answer_start is {start}, where the context has {there!r}, not the answer {text!r}"
            )
    return {"id": identity, "group": context, "question": question, "context": context, "answers": answers}


def refuse_repeated_ids(path: Path, examples: list[Example]) -> list[Example]:
    """The examples. Raises UserError where two have the same id."""
    seen: set[str] = set()
    for example in examples:
        if example["id"] in seen:
            raise UserError(f"{path}: two questions have the id {example['id']}; give each its own")
        seen.add(example["id"])
    return examples


def is_squad_file(path: Path) -> bool:
    """Whether a file is JSON with an object at the top, which is SQuAD form, and not a table."""
    name = path.with_suffix("") if path.suffix in COMPRESSED else path
    if name.suffix != ".json":
        return False
    with open_lines(path, longest=LARGEST_JSON) as lines:
        return next((line.lstrip()[0] for line in lines if line.strip()), "") == "{"
