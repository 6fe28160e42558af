"""Several labels for a text (KOTE, K-MHaS, UnSmile, your own files): each label is a decision of its own, by the
sigmoid of its output and a threshold that is chosen on dev.

Jeon, Lee and Kim, *User Guide for KOTE*, 2022; Lee et al., *K-MHaS*, COLING 2022; Kang et al., *Korean UnSmile*, 2022.
"""

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr, field_validator

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.labelled import (
    FoundLabelsTask,
    LabelledTask,
    binary,
    binary_columns,
    list_among,
    read_label,
    unwrap_label,
)
from kobert_pipeline.features.metrics import f1_threshold, indicators, multilabel_report, multilabel_scores
from kobert_pipeline.features.task import Example
from kobert_pipeline.tables.columns import RowField, cell, cell_of, find_columns, has_column, label_value
from kobert_pipeline.tables.label_studio import with_choices
from kobert_pipeline.tables.rows import read_rows
from kobert_pipeline.tables.unreadable import Row, readable, tried

DEFAULT_THRESHOLD = 0.5


class Multilabel(FoundLabelsTask):
    """Texts with any number of labels: a list of them in one column (also as text, `2,4` or `['a', 'b']`), or a column
    of 0 and 1 for each label. Known columns: text, sentence, document or 문장; labels or label."""

    name: Literal["multilabel"] = "multilabel"
    # an option here, a class constant in most other tasks
    metric: Literal["macro_f1", "micro_f1", "subset_accuracy"] = "macro_f1"  # type: ignore[misc]
    """The score by which models are selected on dev."""
    labels: list[str] | None = Field(None, min_length=2)  # type: ignore[misc]
    """The labels in the order of the model's outputs, or the columns of 0 and 1; null: the labels in the training
    files, numbers by their value, other names as text, or all columns that hold nothing but 0 and 1."""
    separator: str = Field(",", min_length=1)
    """What separates labels in a cell of text."""
    thresholds: float | dict[str, float] | None = None
    """The least probability with which a text has a label, one for all or for each; null: for each label the one with
    the best F1 on dev. Stored with the model."""

    _lists_binary: bool = PrivateAttr(False)
    """Whether the file that is read lists 0 or 1 for each label."""

    problem_type: ClassVar[str | None] = "multi_label_classification"
    inference_options: ClassVar[tuple[str, ...]] = ("thresholds",)
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("text", "sentence", "document", "문장"),
        "label": ("labels", "label"),
    }

    @field_validator("thresholds")
    @classmethod
    def _are_probabilities(cls, thresholds: Any) -> Any:
        values = thresholds.values() if isinstance(thresholds, dict) else [thresholds]
        if any(value is not None and not 0 < value < 1 for value in values):
            raise ValueError(f"a threshold is a probability between 0 and 1, not {thresholds!r:.80}")
        return thresholds

    def fields(self, first: Row) -> list[RowField]:
        """What is read from a row, without the label where each label has a column."""
        is_listed = self.lists_labels(first)
        return [field for field in super().fields(first) if is_listed or field.name != "label"]

    def lists_labels(self, first: Row) -> bool:
        """Whether one column lists the labels, by the first row of a file."""
        if self.label:
            return True
        if self.labels is not None and all(has_column(first.cells, label) for label in self.labels):
            return False
        columns = [name for name in self.known["label"] if has_column(first.cells, name)]
        by_column = len(binary_columns(first, {self.text, self.id, *columns})) > 1
        # UnSmile by `datasets` has both
        return not by_column or (bool(columns) and not is_multi_hot(self.items(cell(first, columns[0]))))

    def read(self, path: Path) -> list[Example]:
        """Every row; without `labels`, the labels of this file are used."""
        task = self.model_copy()
        task._lists_binary = self._has_binary_lists(path)
        return super(Multilabel, task).read(path)

    def _has_binary_lists(self, path: Path) -> bool:
        """Whether every row of a file lists 0 or 1 for each of two labels, where a single [1, 0] could as well be the
        numbers of both."""
        if len(self.labels or ()) != 2:
            return False
        rows = [row for row in tried(read_rows(path), with_choices) if isinstance(row, Row)]
        if not rows or not self.lists_labels(rows[0]):
            return False
        column = find_columns(rows[0], self.fields(rows[0]), self.name)["label"]
        if {*rows[0].class_names.get(column, ())} & {*(self.labels or ())}:
            return False  # the file says that its numbers are labels
        lists = [self.items(cell_of(row, column)) for row in rows]
        return all(len(items) == 2 and None not in map(binary, items) for items in lists)

    def fit_labels(self, train: list[Path]) -> Self:
        """The task with the labels of the training files, unless they were given. Raises UserError for fewer than two,
        and for thresholds of other labels."""
        task = self
        if self.labels is None:
            columns = list[str]()
            for path in train:
                columns += [column for column in self._columns_of_labels(path) if column not in columns]
            has_columns = len(columns) > 1
            task = self.model_copy(update={"labels": columns}) if has_columns else super().fit_labels(train)
        if isinstance(task.thresholds, dict) and (unknown := task.thresholds.keys() - {*task.classes()}):
            raise UserError(
                f"task {self.name}: thresholds names {min(unknown)}, but the labels are {', '.join(task.classes())}"
            )
        return task

    def with_found_labels(self, labels: set[str]) -> Self:
        """The task with the labels of the training files, sorted, numbers by their value."""
        task = super().with_found_labels(labels)
        are_numbers = all(label.isdecimal() for label in labels)
        return task.model_copy(update={"labels": sorted(labels, key=int)}) if are_numbers else task

    def _columns_of_labels(self, path: Path) -> list[str]:
        """The columns of a file that hold 0 or 1 in every row; none where another column lists the labels. Raises
        UserError for a column that does so in most rows, which would be a label less."""
        rows = list(readable(read_rows(path)))
        if not rows or self.lists_labels(rows[0]):
            return []
        columns = list[str]()
        for column in dict.fromkeys(column for row in rows for column in binary_columns(row, {self.text, self.id})):
            others = [row for row in rows if binary(row.cells.get(column)) is None]
            blank = sum(not str(row.cells.get(column) or "").strip() for row in others)
            if not others:
                columns.append(column)
            elif 2 * (len(others) - blank) <= len(rows) - blank:  # other numbers, such as a score, are no label
                value = others[0].cells.get(column)
                raise UserError(
                    f"{others[0].location}: the column '{column}' holds {value!r:.40}, elsewhere 0 or 1; correct it, "
                    "or name the columns of the labels in the option labels"
                )
        return columns

    def labels_of(self, examples: list[Example]) -> set[str]:
        """The labels of all examples. Raises UserError where one is a list of others, by another separator."""
        labels = {label for example in examples for label in example["label"]}
        if listed := list_among(labels, self.separator, any):
            raise UserError(
                f"the label '{listed[0]:.60}' is a list of others; set the option separator to {listed[1]!r}"
            )
        return labels

    def label_reader(self, columns: dict[str, str]) -> Callable[[Row], Any]:
        """A function from a row to the indices of its labels, or to their names while `labels` is null."""
        if "label" in columns:
            return super().label_reader(columns)
        labels = self.labels or []
        return lambda row: [i for i, label in enumerate(labels) if is_one(row, label)]

    def named_label(self, value: Any, names: Sequence[str]) -> Any:
        """The list with names for its numbers, unless these are no and yes for each label."""
        is_answer = len(names) == 2 and not {*names} & {*(self.labels or names)}
        return value if is_answer and is_multi_hot(self.items(value)) else super().named_label(value, names)

    def label_parser(self) -> Callable[[Any], Any]:
        """A function from the cell of a list of labels to their indices, or to their names while `labels` is null."""
        if self.labels is None:
            return self.listed
        index, count = super().label_parser(), len(self.labels)

        def indices(value: Any) -> list[int]:
            items = self.items(value)
            if (self._lists_binary or is_multi_hot(items)) and len(items) == count:
                return [i for i, is_set in enumerate(map(binary, items)) if is_set]
            return sorted({index(label) for label in self.listed(value)})

        return indices

    def items(self, value: Any) -> list[Any]:
        """What is in a cell: the items of a list, or of one as text, or the cell itself."""
        items = unwrap_label(value)
        items = split_list(items, self.separator) if isinstance(items, str) else items
        if items == {}:  # of PostgreSQL, where it is a list without items
            return []
        return items if isinstance(items, list) else [items]

    def listed(self, value: Any) -> list[str]:
        """The labels in a cell: a list, or one as text. Raises UserError for anything else."""
        items = self.items(value)
        if is_multi_hot(items):
            raise UserError(
                f"the labels are {items!r:.60}, 0 or 1 for each of {len(items)} labels; name these in the option "
                "labels of the task"
            )
        labels = [read_label(item) for item in items]
        if None in labels or "" in labels:
            raise UserError(
                f"the labels are {value!r:.60}; a list of texts or whole numbers was expected, [] for none, or such a "
                f"list as text, separated by {self.separator!r}"
            )
        return [label_value(label, truth=False) for label in labels if label]

    def label_indices(self) -> dict[str, int]:
        """The index of each label by its name and, where the option names all labels and none is a number, by its
        number."""
        names = super().label_indices()
        if self._labels_found or any(name.isdecimal() for name in names):
            return names
        return LabelledTask.label_indices(self)

    def label_array(self, examples: list[Example]) -> np.ndarray:
        """1 for every label that an example has, else 0: float32 (n, labels)."""
        return indicators([example["label"] for example in examples], len(self.classes())).astype(np.float32)

    def unlabelled(self, texts: list[str]) -> Example:
        """The text without labels."""
        return super().unlabelled(texts) | {"label": []}

    def calibrate(self, logits: dict[str, list[np.ndarray]], features: Features) -> Self:
        """The task with the threshold of each label that has the best F1 on dev, unless they were given."""
        if self.thresholds is not None:
            return self
        right = self.label_array(features.examples).astype(bool)
        columns = zip(self.classes(), sigmoid(np.stack(logits["logits"])).T, right.T, strict=True)
        thresholds = {label: f1_threshold(probabilities, is_right) for label, probabilities, is_right in columns}
        return self.model_copy(update={"thresholds": thresholds})

    def with_names(self, names: Mapping[str, str]) -> Self:
        """The task with its thresholds under the new names."""
        if not isinstance(self.thresholds, dict):
            return self
        thresholds = {names.get(label, label): value for label, value in self.thresholds.items()}
        return self.model_copy(update={"thresholds": thresholds})

    def threshold_of(self, label: str) -> float:
        """The least probability with which a text has the label."""
        if isinstance(self.thresholds, dict):
            return self.thresholds.get(label, DEFAULT_THRESHOLD)
        return DEFAULT_THRESHOLD if self.thresholds is None else self.thresholds

    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """The indices of the labels of each example, perhaps none."""
        thresholds = np.array([self.threshold_of(label) for label in self.classes()])
        return [np.flatnonzero(sigmoid(row) >= thresholds).tolist() for row in logits["logits"]]

    def result(self, prediction: Any, logits: np.ndarray) -> dict[str, Any]:
        """The `labels` of a prediction, and the probability of every label, from (labels,) logits."""
        names, scores = self.classes(), [round(score, 4) for score in sigmoid(logits).tolist()]
        return {"labels": [names[i] for i in prediction], "scores": dict(zip(names, scores, strict=True))}

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """Micro and macro F1 and the share of texts with exactly the right labels, in percent."""
        return multilabel_scores(predictions, [example["label"] for example in examples], len(self.classes()))

    def classification_report(self, predictions: list[Any], examples: list[Example]) -> dict[str, Any]:
        """Scores of each label."""
        return multilabel_report(predictions, [example["label"] for example in examples], self.classes())

    def label_counts(self, examples: list[Example]) -> dict[str, int]:
        """The number of examples with each label."""
        counts = Counter(index for example in examples for index in example["label"])
        return {name: counts[index] for index, name in enumerate(self.classes())}

    def mistake(self, prediction: Any, example: Example, result: dict[str, Any]) -> dict[str, Any]:
        """The right and the predicted labels, and the `probability` that the model gives its surest wrong decision."""
        names, scores = self.classes(), result["scores"]
        wrong = set(prediction) ^ set(example["label"])
        surest = max(scores[names[i]] if i in prediction else 1 - scores[names[i]] for i in wrong)
        predicted = ", ".join(result["labels"])
        return {"label": self.label_name(example), "predicted": predicted, "probability": round(surest, 4)}

    def label_name(self, example: Example) -> str | None:
        """The names of the labels."""
        return ", ".join(self.classes()[i] for i in example["label"])


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """The probability of each logit on its own."""
    # tanh does not overflow where exp would
    return 0.5 * (1 + np.tanh(0.5 * logits.astype(np.float64)))


def is_one(row: Row, column: str) -> bool:
    """Whether the cell of a label's column is 1. Raises UserError for anything but 0 or 1."""
    value = binary(cell(row, column))
    if value is None:
        raise UserError(f"the column '{column}' holds {cell(row, column)!r:.40}, 0 or 1 was expected")
    return value


def is_multi_hot(items: list[Any]) -> bool:
    """Whether items say 0 or 1 for each label: 0 or 1 then occurs twice, while in a list of the numbers of labels no
    number does."""
    values = [binary(item) for item in items]
    return None not in values and len(set(values)) < len(values)


def split_list(text: str, separator: str) -> list[str]:
    """The items of a list as text: `2,4`, perhaps in brackets, or as PostgreSQL writes an array, `{2,4}`."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        return next(csv.reader([" ".join(text[1:-1].splitlines())], skipinitialspace=True), [])
    inside = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    # a list in brackets may be separated by blanks
    return (
        [item.strip() for item in inside.split(separator)] if inside == text or separator in inside else inside.split()
    )
