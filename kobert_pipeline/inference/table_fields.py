"""Predict for the texts in the columns of a table; the columns are named as in training files."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.span_examples import KNOWN as SPAN_COLUMNS
from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.inference.checkpoint import Checkpoint, question_list
from kobert_pipeline.tables.columns import IDS, RowField, cell, find_columns, has_column, text_cell
from kobert_pipeline.tables.rows import stream_each
from kobert_pipeline.tables.unreadable import Row

KNOWN = {**SPAN_COLUMNS, "text": ("text", "sentence", "document")}
"""Names of columns, for tasks that know none."""
ROWS = 1024
"""Rows of a table that are answered at once."""
BY_COLUMN = "with --column"


def predict_table(
    checkpoint: Checkpoint,
    path: Path,
    columns: list[str],
    question: str | Sequence[str] | None = None,
    pair: str | None = None,
    top_k: int = 5,
    long: str = "truncate",
    id_name: str | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """`predict` for the rows of a table, a few at a time, each with its `row` and `id`; `columns` and `id_name` as in
    `table_examples`."""
    questions = question_list(question)
    checkpoint.refuse_unused(questions[0], pair, long)
    task = None if checkpoint.fills_masks else checkpoint.task
    is_paired = checkpoint.takes_pairs and (pair is not None or len(columns) == 2)
    inputs = ("text", "text_pair") if is_paired else None
    rows = table_examples(checkpoint.folder, task, path, columns, questions[0], pair, inputs, id_name)
    remaining = ((names, example | ({"question": one_question} if one_question is not None else {}))
                 for names, example in rows for one_question in questions)  # fmt: skip
    while batch := list(islice(remaining, ROWS)):
        examples = [example for _, example in batch]
        if task:
            results = checkpoint.results(examples, long)
        else:
            results = checkpoint.fill_masks([example["text"] for example in examples], [top_k] * len(examples))
        yield [names | result for (names, _), result in zip(batch, results, strict=True)]


def table_examples(
    folder: Path,
    task: Task | None,
    path: Path,
    columns: list[str],
    question: str | None,
    pair: str | None,
    inputs: tuple[str, ...] | None = None,
    id_name: str | None = None,
) -> Iterator[tuple[dict[str, Any], Example]]:
    """The rows of a table, or the questions of a file in SQuAD form, as examples of the task (None: to fill masks)
    without answers, each after its `row_names`. `columns` are the columns of the `inputs` (None: the task's) in their
    order, but for what is given for all rows, and `id_name` that of ids; others are recognized as in training. Raises
    UserError for a table without rows, or without such a column, and for cells that are not text."""
    inputs = inputs or (task.inputs if task else ("text",))
    if "choices" in inputs:
        raise UserError(f"{folder} chooses between candidates; give each text with its candidates, separated by tabs")
    for_all = {name: text for name, text in {"question": question, "text_pair": pair}.items() if text is not None}
    fields = [input_field(task, name) for name in inputs if name not in for_all]
    if len(columns) > len(fields):
        names = " and ".join(field.name for field in fields)
        raise UserError(f"{folder} reads {names}; name no more columns than that with --column")
    fields[: len(columns)] = [field._replace(column=name) for field, name in zip(fields, columns, strict=False)]

    def maker(first: Row) -> Callable[[Row], tuple[dict[str, Any], Example]]:
        column_of = find_columns(first, fields, task.name if task else "fill-mask", BY_COLUMN)
        ids = id_column(first, getattr(task, "id", None), id_name)
        read = task.text_parser(first) if task else (lambda text, row: text)

        def example(row: Row) -> tuple[dict[str, Any], Example]:
            texts = for_all | {name: read(nullable_text(row, column), row) for name, column in column_of.items()}
            if task is None:
                return row_names(row, ids), texts
            # a classifier that names no task may label pairs, and its task knows no second text
            others = {name: texts[name] for name in inputs if name not in task.inputs}
            return row_names(row, ids), task.unlabelled([texts[name] for name in task.inputs]) | others

        return example

    return stream_each(path, maker)


def input_field(task: Task | None, name: str) -> RowField:
    """An input with the names that its column may have: the name in the training files first, then known names."""
    option, known = getattr(task, name, None), getattr(task, "known", {})
    return RowField(name, known=[*([option] if option else []), *known.get(name, KNOWN.get(name, ()))])


def id_column(first: Row, trained: str | None = None, named: str | None = None) -> str | None:
    """The column of ids: the one `named` by --id-column, that of the training files, or one with a name of published
    data sets; None where there is neither. Raises UserError where there is none with the name given."""
    if named:
        return find_columns(first, [RowField("name of a row", named)], "", "with --id-column")["name of a row"]
    names = ([trained] if trained else []) + list(IDS)
    return find_columns(first, [RowField("id", known=names, required=False)], "").get("id")


def row_names(row: Row, ids: str | None) -> dict[str, Any]:
    """The number of a `row`, which questions in SQuAD form do not have, and its `id` where it has the column `ids`."""
    names: dict[str, Any] = {"row": row.index} if row.index else {}
    if ids is not None and has_column(row.cells, ids):  # lines of JSON need not all have it
        value = cell(row, ids)
        # Parquet also has dates and more, which JSON cannot hold
        names["id"] = value if value is None or isinstance(value, (str, int)) else str(value)
    return names


def nullable_text(row: Row, column: str) -> str:
    """A cell; "" for the null of JSON and Parquet. Raises UserError for anything else than texts and numbers."""
    return "" if cell(row, column) is None else text_cell(row, column, numbers=True)


def column_texts(path: Path, column: str, id_name: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The text in a column of each row of a table, and the row's `row_names`; `id_name` as in `table_examples`.
    Raises UserError for a table without rows or without the columns, and for cells that are not text."""

    def maker(first: Row) -> Callable[[Row], tuple[str, dict[str, Any]]]:
        text_column = find_columns(first, [RowField("text", column)], "", BY_COLUMN)["text"]
        ids = id_column(first, named=id_name)
        return lambda row: (nullable_text(row, text_column), row_names(row, ids))

    return stream_each(path, maker)
