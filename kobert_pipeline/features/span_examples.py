"""Rows with a question, a context and answers -> examples of span tasks, from tables and from files in SQuAD form."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from kobert_pipeline.corpus.cleaning import to_nfc
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Example, refuse_blank
from kobert_pipeline.morphemes.normalization import remove_invisible
from kobert_pipeline.tables.answers import ANSWERS, STARTS, answer_pairs, located
from kobert_pipeline.tables.columns import (
    BY_OPTION,
    IDS,
    RowField,
    cell,
    find_columns,
    has_column,
    late_columns,
    parse_container,
    text_of,
    values_of,
)
from kobert_pipeline.tables.file_type import data_suffix
from kobert_pipeline.tables.rows import PARSERS, read_rows
from kobert_pipeline.tables.squad import QUESTION, questions
from kobert_pipeline.tables.unreadable import Row, UnreadableInput, readable, tried

KNOWN: dict[str, tuple[str, ...]] = {
    "id": IDS, "question": ("question",), "context": ("context", "paragraph", "document"),
    "answer": ANSWERS, "start": STARTS,
}  # fmt: skip
IMPOSSIBLE = "is_impossible"
TRUE, FALSE = ("true", "1", "1.0"), ("false", "0", "0.0")


def squad_example(row: Row) -> Example:
    """The example of a question in SQuAD form. Raises UserError where something is missing or wrong."""
    required = ["id", "question", *([] if is_impossible(row) else ["answers"])]
    if missing := [name for name in required if name not in row.cells]:
        raise UserError(
            f"it lacks {', '.join(missing)}; each question needs id, question, answers (text, answer_start)"
        )
    return span_example(row, row.cells | {"answer": row.cells.get("answers")}, "answers")


def question_rows(path: Path) -> Iterator[Row | UnreadableInput]:
    """The questions of a file in SQuAD form, whatever its name, or of a table as `datasets` writes such files."""
    return read_rows(path) if data_suffix(path) in PARSERS else questions(path)


def question_examples(
    rows: Iterable[Row | UnreadableInput], task: str, check: Callable[[Example], Example] = lambda example: example
) -> list[Example]:
    """The examples of `question_rows`, each as `check` gives it. Raises one error about all wrong ones."""

    by = "by the option {field} of the task span (kobert evaluate: --task span --set {field}=NAME)"

    def maker(first: Row) -> Callable[[Row], Example]:
        make = table_maker(task, dict.fromkeys(KNOWN), first, by)
        return with_distinct_ids(lambda row: check(make(row)))

    return list(readable(tried(rows, maker)))


def table_maker(task: str, fields: dict[str, str | None], first: Row, by: str = BY_OPTION) -> Callable[[Row], Example]:
    """The function from a row of a table to its example, by the first row. `fields` are the columns that the options of
    the `task` name; errors say `by` what to name others."""
    if first.location.unit == QUESTION:
        return squad_example
    wanted = [RowField(name, fields[name], known, name not in ("id", "start")) for name, known in KNOWN.items()]
    columns = find_columns(first, wanted, task, by)
    refuse_late = late_columns(first, wanted, columns)

    def example(row: Row) -> Example:
        refuse_late(row)
        return span_example(row, {"id": row.index} | values_of(row, columns), columns["answer"])

    return example


def unquoted(answers: Any) -> Any:
    """Answers with their starts that a table has as text; other answers as they are."""
    value = parse_container(answers) if isinstance(answers, str) else answers
    has_starts = isinstance(value, list) and all(isinstance(item, (dict, list)) for item in value)
    return value if isinstance(value, dict) or has_starts else answers


def span_example(row: Row, values: dict[str, Any], column: str) -> Example:
    """An example for `SpanTask` from the values of a row, whose answers are in `column`. Raises UserError unless
    question and context are text and the context has every answer at its start."""
    values |= {name: text_of(values[name]) for name in ("question", "context")}
    for name in ("question", "context"):
        if not isinstance(values[name], str):
            raise UserError(f"the {name} holds {type(values[name]).__name__}, text was expected")
        refuse_blank(values[name], f"the {name}")
    impossible = is_impossible(row)
    try:
        # a question with is_impossible may still have `plausible_answers`, or even answers
        answers = [] if impossible else answer_pairs(unquoted(values["answer"]), values.get("start"))
    except (KeyError, TypeError):
        raise UserError(
            f"the column '{column}' holds {values['answer']!r:.60}; a text, and its start in the column of the "
            "option start, or answers with text and answer_start were expected"
        ) from None
    if not answers and impossible is False:
        raise UserError("is_impossible is false, but it has no answer; add one, or set is_impossible to true")
    answers = located(answers, values["context"])
    group = to_nfc(remove_invisible(values["context"])).strip()
    return {
        "id": str(values["id"]), "group": group, "question": values["question"], "context": values["context"],
        "answers": answers,
    }  # fmt: skip


def is_impossible(row: Row) -> bool | None:
    """Whether a row says that its question has no answer; None where it says nothing. Raises UserError for other
    words than true and false."""
    value = cell(row, IMPOSSIBLE) if has_column(row.cells, IMPOSSIBLE) else None
    word = "" if value is None else str(value).strip().lower()
    if word and word not in TRUE + FALSE:
        raise UserError(f"{IMPOSSIBLE} is {value!r:.60}; true, false, 1, 0 or nothing was expected")
    return word in TRUE if word else None


def with_distinct_ids(make: Callable[[Row], Example]) -> Callable[[Row], Example]:
    """`make`, with a UserError for an example whose id an earlier one has."""
    ids: set[str] = set()

    def example(row: Row) -> Example:
        result = make(row)
        if result["id"] in ids:
            raise UserError(f"an earlier question has the id {result['id']}, too; give each its own")
        ids.add(result["id"])
        return result

    return example
