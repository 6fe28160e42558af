"""Sequence tasks whose examples are the rows of a table. Columns are recognized by the names that published data sets
use, or named by options."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import ConfigDict, Field, PrivateAttr, field_validator

from kobert_pipeline.corpus.decontaminate import comparable
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.metrics import pearson, spearman
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.task import Example, nfc, refuse_blank, refuse_empty, refuse_rejected
from kobert_pipeline.morphemes.normalization import remove_invisible
from kobert_pipeline.tables.columns import (
    IDS,
    RowField,
    cell,
    find_columns,
    label_text,
    label_value,
    named_classes,
    number_of,
    parse_container,
    text_cell,
)
from kobert_pipeline.tables.label_studio import OWN_COLUMNS, with_choices
from kobert_pipeline.tables.rows import read_rows
from kobert_pipeline.tables.unreadable import Row, readable, tried

NUMBER = re.compile(r"[+-]?\d+")
LIST_MARKS = ",;|\n，、"
"""What nearly always separates labels in a cell that lists several."""


class LabelledTask(SequenceTask):
    """Rows with a text and a label. Subclasses list the `known` column names."""

    known: ClassVar[dict[str, tuple[str, ...]]]
    """Names of the columns `text`, `text_pair` and `label` in published data sets; the first that a file has is
    used."""
    blank_texts: ClassVar[bool] = False
    """Whether rows without text are read, since published data sets have some; they are not trained on."""
    symmetric: ClassVar[bool] = False
    """Whether (a, b) and (b, a) are the same question, so that a dev split must not separate them."""

    id: str | None = None
    """Column of an example's id; null: guid or id where there is one, else the row number, from 1."""
    text: str | None = None
    """Column of the text (of a pair, the first); null: recognized by its name. A dot leads into an object, as in
    labels.label."""
    label: str | None = None
    """Column of the label; null: recognized by its name."""

    def read(self, path: Path) -> list[Example]:
        """An example per row. Raises UserError for rows with a missing or blank text or a label that is not
        allowed."""
        rows = tried(read_rows(path), with_choices)
        return list(readable(tried(rows, self._maker)))

    def fields(self, first: Row) -> list[RowField]:
        """What is read from a row, by the first one."""
        known = {"id": IDS, **self.known}
        names = ("id", "text", "text_pair", "label")
        return [RowField(name, getattr(self, name, None), known.get(name, ()), name != "id") for name in names]

    def _maker(self, first: Row) -> Callable[[Row], Example]:
        columns = find_columns(first, self.fields(first), self.name)
        read_label = self.label_reader(columns)
        label = columns.get("label", "")
        names = self._names_of_classes(first.class_names.get(label, ()))

        def named(row: Row) -> Row:
            return replace(row, cells=row.cells | {label: self.named_label(row.cells[label], names)}) if names else row

        return lambda row: self._example(named(row), columns, read_label)

    def named_label(self, value: Any, names: Sequence[str]) -> Any:
        """The value of a label's cell, with the `names` that the file has for numbers."""
        return named_classes(value, names)

    def _names_of_classes(self, names: Sequence[str]) -> Sequence[str]:
        """The names that a file has for numbers; none where no name is a label of the task, which is noted."""
        parse_label = self.label_parser()

        def is_label(name: str) -> bool:
            try:
                parse_label([name])
            except UserError:
                return False
            return True

        if not names or any(map(is_label, names)):
            return names
        task_labels = ", ".join(self.labels or ())
        self.note(f"the file calls its labels {', '.join(names):.100}; their numbers are read as {task_labels:.100}")
        return ()

    def label_reader(self, columns: dict[str, str]) -> Callable[[Row], Any]:
        """A function from a row to the training target; `columns` are the columns of the `fields`."""
        parse_label, column = self.label_parser(), columns["label"]
        return lambda row: parse_label(cell(row, column))

    def label_parser(self) -> Callable[[Any], Any]:
        """A function from a label in the file to the training target. It raises UserError for labels that are not
        allowed."""
        allowed = self.label_indices()
        truth = len(self.labels) == 2  # of three labels none is True
        # `allowed` last: a label as it is written goes before the value of another one
        by_value = {label_value(name, truth): i for name, i in allowed.items()} | allowed
        folded = [name.casefold() for name in by_value]
        # where no other label differs by case alone
        without_case = {name.casefold(): i for name, i in by_value.items() if folded.count(name.casefold()) == 1}

        def index(value: Any) -> int:
            text = read_label(value) or ""
            key = text if text in by_value else label_value(text, truth)
            label_index = by_value.get(key, without_case.get(key.casefold()))
            if label_index is None:
                names = [
                    name if name == self.labels[i] else f"{name} ({self.labels[i]})" for name, i in allowed.items()
                ]
                hint = f"allowed are {', '.join(names[:20])}{self.allowed_hint()}"
                raise UserError(f"the label is {value!r:.60}; {hint}")
            normalized = label_value(text, truth)
            if normalized.isdecimal() and label_value(self.labels[label_index], truth) != normalized:
                self.note_numbers()
            return label_index

        return index

    def note_numbers(self) -> None:
        """A file has numbers in place of names of labels."""

    def label_indices(self) -> dict[str, int]:
        """The index of each label by how files write it, as a number or a name."""
        return {str(i): i for i in range(len(self.labels))} | {label: i for i, label in enumerate(self.labels)}

    def _example(self, row: Row, columns: dict[str, str], read_label: Callable[[Row], Any]) -> Example:
        refuse_rejected(row.cells)
        texts: dict[str, str] = {}
        for name in ("text", "text_pair"):
            if name in columns:
                texts[name] = text_cell(row, columns[name], numbers=True)
                if not self.blank_texts:
                    refuse_blank(texts[name], f"the column '{columns[name]}'")
        # so that copies of a text with other spaces, or in another form of Unicode, are on the same side of a dev split
        parts = [comparable(text) for text in texts.values()]
        group = " ".join(filter(None, sorted(parts) if self.symmetric else parts))
        identity = str(cell(row, columns["id"]) if "id" in columns else row.index)
        return {"id": identity, "group": group, **texts, "label": read_label(row)}


class FoundLabelsTask(LabelledTask):
    """Rows whose labels an option lists, or else the training files have."""

    model_config = ConfigDict(coerce_numbers_to_str=True)  # labels: [0, 1]

    # an option here, a class constant in every other task
    labels: list[str] | None = Field(None, min_length=2)  # type: ignore[misc, assignment]
    """The labels in the order of the model's outputs; null: the labels in the training files, sorted as text."""

    _labels_of_model: bool = PrivateAttr(False)
    """Whether `labels` are a model's."""

    @field_validator("labels")
    @classmethod
    def _each_once(cls, labels: list[str] | None) -> list[str] | None:
        labels = labels and [nfc(label) for label in labels]
        twice = next((label for label in labels or [] if (labels or []).count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"the label '{twice}' is listed twice")
        return labels

    def with_model_labels(self, labels: list[str]) -> Self:
        """The task with the labels of a model, unless they were given."""
        task = self
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise UserError(
                f"the checkpoint calls two of its outputs '{twice}'; name each, as in --labels NAME=0,OTHER=1"
            )
        if self.labels is None:
            task = self.model_copy(update={"labels": labels})
            task._labels_found = task._labels_of_model = True
        # not `super()`, which is bound to `self`, without the labels
        return super(FoundLabelsTask, task).with_model_labels(labels)

    def allowed_hint(self) -> str:
        """Added to the error about a label that is not allowed: where the allowed labels come from."""
        if not self._labels_of_model:
            return super().allowed_hint()
        return ", those of the checkpoint; say what the file calls its outputs, as in --labels NAME=0,OTHER=1"

    def note_numbers(self) -> None:
        """Note that numbers of a file are taken for the outputs of the model."""
        listed = ", ".join(f"{output} is {label}" for output, label in enumerate(self.labels or []))
        self.note(f"numbers in the file are taken for the outputs of the checkpoint: {listed:.200}")

    def fit_labels(self, train: list[Path]) -> Self:
        """The task with the labels of the training files, unless they were given. Raises UserError for fewer than
        two."""
        if self.labels is not None:
            return self
        # not `self.read`, which calls this function while there are no labels
        examples_of = {path: LabelledTask.read(self, path) for path in train}
        examples = [example for examples in examples_of.values() for example in examples]
        refuse_empty("train", train, len(examples))
        refuse_names_and_numbers({path: self.labels_of(examples) for path, examples in examples_of.items()})
        by_value: dict[str, set[str]] = {}
        for label in self.labels_of(examples):
            by_value.setdefault(label_value(label), set()).add(label)
        # 1, 1.0 and True of several files are one label
        labels = {value if len(spelled) > 1 else spelled.pop() for value, spelled in by_value.items()}
        if len(labels) < 2:
            raise UserError(
                f"{', '.join(map(str, train))}: a task requires at least two labels, found was only '{''.join(labels)}'"
            )
        folded = Counter(map(str.casefold, labels))
        if twins := sorted(label for label in labels if folded[label.casefold()] > 1):
            self.note(f"labels that differ by case alone are read as different ones: {', '.join(twins):.100}")
        return self.with_found_labels(labels)

    def labels_of(self, examples: list[Example]) -> set[str]:
        """The labels of examples that were read while `labels` is null."""
        return {example["label"] for example in examples}

    def read(self, path: Path) -> list[Example]:
        """Every row; without `labels`, the labels of this file are used."""
        return super().read(path) if self.labels is not None else self.fit_labels([path]).read(path)

    def label_indices(self) -> dict[str, int]:
        """The index of each label by its name and, where the labels are a model's and none is a number, by its
        number."""
        names = {label: i for i, label in enumerate(self.labels or [])}
        by_number = self._labels_of_model and not any(label.isdecimal() for label in names)
        return {str(i): i for i in names.values()} | names if by_number else names

    def label_parser(self) -> Callable[[Any], Any]:
        """A function from a label in the file to the training target; while `labels` is null, labels stay as they
        are."""
        return super().label_parser() if self.labels is not None else parse_label


class ScoredTask(LabelledTask):
    """Rows with a number in the place of a label: the model has one output, trained by the mean squared error."""

    labels: ClassVar[tuple[str, ...]] = ("score",)
    problem_type: ClassVar[str | None] = "regression"
    metric: ClassVar[str] = "spearman"

    def label_parser(self) -> Callable[[Any], int | float]:
        """A function from a score in the file to a number. It raises UserError for anything else."""
        return parse_score

    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """The model's score per example; it is not clipped to the range of the files' scores."""
        return [float(row[0]) for row in logits["logits"]]

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """Pearson and Spearman correlation, in percent."""
        scores = [example["label"] for example in examples]
        return {"pearson": pearson(predictions, scores), "spearman": spearman(predictions, scores)}


class PairTask(LabelledTask):
    """Rows with two texts and a label."""

    text_pair: str | None = None
    """Column of the second text; null: recognized by its name."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Both texts."""
        return "text", "text_pair"


def unwrap_label(value: Any) -> Any:
    """A label, or a list of labels, without what exports put around it: a list as text, Label Studio's `choices`."""
    value = parse_container(value) if isinstance(value, str) else value
    return value["choices"] if isinstance(value, dict) and value.keys() == {"choices"} else value


def read_label(value: Any) -> str | None:
    """A label as `label_text`, without characters that nobody sees."""
    text = label_text(unwrap_label(value))
    return text and remove_invisible(text).strip()


def parse_label(value: Any) -> str:
    """A label as text. Raises UserError for anything but a text, a whole number, true or false."""
    if text := read_label(value):
        return label_value(text, truth=False)
    several = "; several labels for a text are read by the task multilabel"
    several = several if isinstance(unwrap_label(value), list) else ""
    raise UserError(
        f"the label is {value!r:.60}; a text or a whole number was expected; correct it, or delete the row{several}"
    )


def score_of(value: Any) -> float:
    """The number of a score, also where it is alone in a list; nan for any other value."""
    return number_of(value[0] if isinstance(value, list) and len(value) == 1 else value)


def parse_score(value: Any) -> float:
    """The number of a score. Raises UserError for anything else."""
    score = score_of(value)
    if not isfinite(score):
        raise UserError(f"the score is {value!r:.60}; a number was expected; correct it, or delete the row")
    return score


def refuse_names_and_numbers(labels_of: dict[Path, set[str]]) -> None:
    """Raise UserError where one training file calls its labels by names and another by numbers, since each label would
    be two."""
    values = {path: {label_value(label) for label in labels} for path, labels in labels_of.items()}
    numbered = next((path for path, labels in values.items() if labels and all(map(NUMBER.fullmatch, labels))), None)
    # a single name may be a label beside numbers
    named = next(
        (path for path, labels in values.items() if len(labels) > 1 and not any(map(NUMBER.fullmatch, labels))), None
    )
    if numbered and named:
        numbers, names = (", ".join(sorted(labels_of[path])) for path in (numbered, named))
        raise UserError(
            f"{numbered} has the labels {numbers:.60}, and {named} has {names:.60}; write the labels of both files "
            "alike"
        )


def binary_columns(row: Row, others: Collection[str | None]) -> list[str]:
    """The columns in which a row has 0 or 1, however they are written, but for ids and the `others`."""
    excluded = {*IDS, *OWN_COLUMNS, *(name.casefold() for name in others if name)}
    return [
        column for column, value in row.cells.items() if column.casefold() not in excluded and binary(value) is not None
    ]


def binary(value: Any) -> bool | None:
    """Whether a cell of 0 or 1 is 1; None for any other value."""
    return {"0": False, "1": True}.get(label_value(label_text(value) or ""))


def list_among(
    labels: set[str], separator: str = "", enough: Callable[[Iterable[bool]], bool] = all
) -> tuple[str, str] | None:
    """The first label that lists others, by another mark than the `separator`, and this mark; None where none does.
    `enough` (all, or any) parts of it are labels of other rows, alone or in other lists; by a mark that may be a part
    of a name, as in 여성/가족, all parts must be labels alone."""
    marks = {character for label in labels for character in label if not character.isalnum()}
    for mark in [*LIST_MARKS, *sorted(marks - {*LIST_MARKS})]:
        # sorted, so that the error names the same label in every process
        parts_of = {label: [part.strip() for part in label.split(mark)] for label in sorted(labels)}
        counts = Counter(part for parts in parts_of.values() for part in parts)
        for label, parts in parts_of.items() if mark != separator else ():
            if mark in LIST_MARKS:
                is_list = enough(counts[part] > 1 for part in parts)
            else:
                is_list = all(part in labels for part in parts)
            if len(parts) > 1 and all(parts) and is_list:
                return label, mark
    return None
