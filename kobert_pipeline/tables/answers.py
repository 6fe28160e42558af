"""The answers of questions in the forms that published data sets have, and where they are in their contexts."""

import re
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.columns import text_of, whole_number

ANSWERS = ("answers", "answer", "answer_text")
"""Names of the column or key of the answers."""
STARTS = ("answer_start", "start", "start_offset", "answer_begin", "begin")
"""Names of the column or key of the character where an answer begins."""


def answer_pairs(answers: Any, start: Any = None) -> list[list[Any]]:
    """[text, start] of each answer, without empty texts. `answers` are objects (`text`, `answer_start`), or one object
    with a list of each, or a list of such pairs, as in our own examples, or a text (or list) with its `start` (or
    list), which is None where none is given. Raises KeyError or TypeError for anything else."""
    if isinstance(answers, dict):
        answers, start = _text_and_start(answers)
    elif isinstance(answers, list) and all(isinstance(answer, dict) for answer in answers):
        pairs = [_text_and_start(answer) for answer in answers]
        answers, start = [text for text, _ in pairs], [begin for _, begin in pairs]
    elif start is None and isinstance(answers, list) and all(map(_is_pair, answers)):
        answers, start = [text for text, _ in answers], [begin for _, begin in answers]
    # a cell without an answer is None in Parquet and JSON, and "" in CSV and TSV
    answers = text_of(answers)
    if answers is None or isinstance(answers, str):
        answers, start = [answers or ""], [start]
    elif isinstance(answers, list) and start is None:
        start = [None] * len(answers)
    if not isinstance(answers, list) or not isinstance(start, list) or len(answers) != len(start):
        raise TypeError("a start for each answer")
    return [[text_of(text), _parse_start(begin)] for text, begin in zip(answers, start, strict=True) if text != ""]


def located(answers: list[list[Any]], context: str) -> list[list[Any]]:
    """[text, start] of each of the `answer_pairs`, with the start that a context gives where none is given. Raises
    UserError unless the context has each answer at its start."""
    pairs = [[text, only_start(text, context) if start in (None, "") else start] for text, start in answers]
    for text, start in pairs:
        refuse_wrong_answer(text, start, context)
    return pairs


def only_start(answer: Any, context: str) -> int | None:
    """Where an answer starts in its context; None for what is no text. Raises UserError unless it has it once."""
    if not isinstance(answer, str):
        return None
    # as a whole number: 5 is neither in 15명 nor in 1.5배
    first, last = (r"(?<!\d)(?<!\d[.,])" * answer[0].isdigit(), r"(?![.,]?\d)" * answer[-1].isdigit())
    # a lookahead, so that places that overlap count, too: 아아 is twice in 아아아
    places = [match.start() for match in re.finditer(rf"{first}(?={re.escape(answer)}{last})", context)]
    if not places:
        raise UserError(f"the context does not have the answer {answer!r:.60}; copy it from there, spaces included")
    if len(places) > 1:
        raise UserError(
            f"the context has the answer {answer!r:.60} in several places; add a column start, with the character, "
            "counted from 0, where the right one begins"
        )
    return places[0]


def _is_pair(answer: Any) -> bool:
    """Whether an answer is a text and its start."""
    return isinstance(answer, list) and [type(part) for part in answer] == [str, int]


def _text_and_start(answer: dict[str, Any]) -> tuple[Any, Any]:
    """Text and start of an answer, or of all, by their names in published data sets; None for a start that is not
    given. Raises KeyError without a text."""
    names = ("text", *ANSWERS), STARTS
    text, start = (next((name for name in known if name in answer), known[0]) for known in names)
    return answer[text], answer.get(start)


def _parse_start(start: Any) -> Any:
    """A start as a number where a table has it as 4.0, or as text of up to 18 digits; other values are refused
    later."""
    if isinstance(start, str) and re.fullmatch(r"[0-9]{1,18}(\.0+)?", start.strip()):
        return int(start.partition(".")[0])
    return start if (whole := whole_number(start)) is None else whole


def refuse_wrong_answer(text: Any, start: Any, context: str) -> None:
    """Raise UserError unless the context has the answer at its start."""
    if not isinstance(text, str):
        raise UserError(f"an answer holds {type(text).__name__}, text was expected")
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        raise UserError(
            f"answer_start is {start!r:.60}; the character, counted from 0, where the answer {text!r} begins was "
            "expected"
        )
    if (excerpt := context[start : start + len(text)]) != text:
        raise UserError(f"answer_start is {start}, where the context has {excerpt!r}, not the answer {text!r}")
