"""Predict for the texts in the columns of a table, which are named like those of training files."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.questions import is_squad_file, question_id, squad_questions
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.tables import IDS, Row, cell, column_of, has_column, rows
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.features.tasks.choice import Choice
from kobert_pipeline.features.tasks.nsmc import Nsmc, document_reader
from kobert_pipeline.features.tasks.span import KNOWN as SPAN_COLUMNS
from kobert_pipeline.inference.checkpoint import Checkpoint

KNOWN = {**SPAN_COLUMNS, "text": ("text", "sentence", "document")}
"""Names of columns, for tasks that know none."""
ROWS = 1024
"""Rows of a table that are read, and answered, at once."""


def predict_table(
    checkpoint: Checkpoint,
    path: Path,
    columns: list[str],
    question: str | None = None,
    pair: str | None = None,
    top_k: int = 5,
    long: str = "truncate",
) -> Iterator[list[dict[str, Any]]]:
    """`predict` for the rows of a table, a few at a time, each with its `row` and `id`; `columns` as in
    `table_examples`."""
    checkpoint.refuse_unused(question, pair, long)
    task = None if checkpoint.fills_masks else checkpoint.task
    remaining = table_examples(checkpoint.folder, task, path, columns, question, pair)
    while batch := list(islice(remaining, ROWS)):
        examples = [example for _, example in batch]
        if task:
            results = checkpoint.results(examples, long)
        else:
            results = checkpoint.fill_masks([example["text"] for example in examples], [top_k] * len(examples))
        yield [place | without_label(result) for (place, _), result in zip(batch, results, strict=True)]


def table_examples(
    folder: Path, task: Task | None, path: Path, columns: list[str], question: str | None, pair: str | None
) -> Iterator[tuple[dict[str, Any], Example]]:
    """The rows of a table as examples of the task (None: to fill masks), with dummy labels, each after its place: the
    number of the `row` from 1, and its `id` where the table has one. For questions also those of a file in SQuAD form,
    with their `id`. `columns` are those of the text and of what belongs to it, in this order; others are
    recognized as in training. Raises UserError for a table without rows, or without such a column, and for a cell that
    is not a text."""
    fields = fields_of(folder, task, question, pair)
    if columns[len(fields) :]:
        raise UserError(f"{folder} reads {' and '.join(fields)}; name no more columns than that with --column")
    if isinstance(task, SpanTask) and question is None and not columns and is_squad_file(path):
        for context, asked in squad_questions(path):
            place = {"id": as_json(question_id(asked))} if asked.keys() & set(IDS) else {}
            yield place, {"context": context, "question": question_text(path, asked), "answers": []}
        return
    table = rows(path)
    first = first_row(path, table)
    names = {field: column(path, first, task, field, columns[i : i + 1]) for i, field in enumerate(fields)}
    read = document_reader(path, first.cells) if isinstance(task, Nsmc) else str
    ids = id_column(path, first, getattr(task, "id", None))
    for row in chain([first], table):
        values = {field: read(text(row, name)) for field, name in names.items()}
        yield place_of(row, ids), given(task, question, pair) | values


def id_column(path: Path, first: Row, own: str | None = None) -> str | None:
    """The column of ids: that of the training files (`own`), or one with a name of published data sets; None where
    there is neither."""
    given = own if own and has_column(first.cells, own) else None
    return column_of("id", path, first, "", given, IDS, needed=False)


def place_of(row: Row, ids: str | None) -> dict[str, Any]:
    """The number of a `row`, and its `id` where it has the column `ids`."""
    if ids is None or not has_column(row.cells, ids):  # lines of JSON need not all have it
        return {"row": row.number}
    return {"row": row.number, "id": as_json(cell(row, ids))}


def as_json(value: Any) -> str | int | None:
    """An id as JSON can hold it; Parquet also has dates and more, which become texts."""
    return value if value is None or isinstance(value, (str, int)) else str(value)


def without_label(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a row, with None for its label and scores where a text is blank: what the model gives for an empty
    cell would be counted as a label."""
    if all(result[field].strip() for field in ("text", "text_pair") if field in result):
        return result
    return {name: None if name in ("label", "score", "scores") else value for name, value in result.items()}


def first_row(path: Path, table: Iterator[Row]) -> Row:
    """The first row of a table. Raises UserError where it has none."""
    first = next(table, None)
    if first is None:
        raise UserError(f"{path} has no rows; add some below its first line")
    return first


def question_text(path: Path, asked: dict[str, Any]) -> str:
    """The question of an entry in SQuAD form. Raises UserError where it has none."""
    if not isinstance(asked.get("question"), str):
        raise UserError(f"{path}: the question with id {asked.get('id')!r:.60} has no text; add it as question")
    return str(asked["question"])


def fields_of(folder: Path, task: Task | None, question: str | None, pair: str | None) -> list[str]:
    """What is read from each row. Raises UserError for a task with candidates, whose number varies."""
    if isinstance(task, Choice):
        raise UserError(f"{folder} chooses between candidates; give each text with its candidates, separated by tabs")
    if isinstance(task, SpanTask):
        return ["context"] if question is not None else ["context", "question"]
    return ["text", "text_pair"] if task and task.paired and pair is None else ["text"]


def column(path: Path, first: Row, task: Task | None, field: str, named: list[str]) -> str:
    """The column of a field: the `named` one, else that of the training files, else a known one."""
    option, of_task = getattr(task, field, None), getattr(task, "known", {})
    known = [*([option] if option else []), *of_task.get(field, KNOWN.get(field, ()))]
    task_name = task.name if task else "fill-mask"
    return str(column_of(field, path, first, task_name, next(iter(named), None), known, by="with --column"))


def given(task: Task | None, question: str | None, pair: str | None) -> dict[str, Any]:
    """What every example has besides its cells."""
    if isinstance(task, SpanTask):
        return {"question": question, "answers": []}
    if isinstance(task, TaggingTask):
        return {"entities": []}
    return {"label": 0} if pair is None else {"text_pair": pair, "label": 0}


def text(row: Row, column: str) -> str:
    """A cell; "" for the null of JSON and Parquet. Raises UserError for anything else that is not a text."""
    value = cell(row, column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{row.place}: the column '{column}' holds {type(value).__name__}, text was expected")
    return value


def rows_with(path: Path, name: str) -> Iterator[Row]:
    """The rows of a table that has this column of texts. Raises UserError for a table without rows or without the
    column."""
    table = rows(path)
    first = first_row(path, table)
    column_of("text", path, first, "", name, (), by="with --column")
    yield from chain([first], table)


def placed_texts(path: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The text in a column of each row of a table, and the row's place. Raises UserError as `rows_with`, and for a cell
    that is not a text."""
    table = rows_with(path, name)
    first = next(table)  # there is one, or it has raised
    ids = id_column(path, first)
    for row in chain([first], table):
        yield text(row, name), place_of(row, ids)


def column_texts(path: Path, name: str) -> Iterator[list[str]]:
    """The texts in a column of a table, some at a time. Raises UserError as `placed_texts`."""
    texts = (text(row, name) for row in rows_with(path, name))
    while batch := list(islice(texts, ROWS)):
        yield batch
