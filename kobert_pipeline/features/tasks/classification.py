"""Your own labelled texts: any labels, one text or two, in any table that tasks read. No code is needed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, field_validator

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.labelled import LabelledTask
from kobert_pipeline.features.task import Example, nfc, refuse_empty
from kobert_pipeline.tables.columns import label_text, label_value


class Classification(LabelledTask):
    """Texts (or pairs of texts) with any labels. Known columns: text, sentence or document; label."""

    model_config = ConfigDict(coerce_numbers_to_str=True)  # labels: [0, 1]

    name: Literal["classification"] = "classification"
    # options here, class constants in every other task
    labels: list[str] | None = Field(None, min_length=2)  # type: ignore[misc, assignment]
    """The labels in the order of the model's outputs; null: those of the training files, sorted as text."""
    metric: Literal["accuracy", "macro_f1", "mcc"] = "accuracy"  # type: ignore[misc]
    """The score by which models are selected on dev."""
    text_pair: str | None = None
    """Column of a second text; null: there is one text."""

    inference_options: ClassVar[tuple[str, ...]] = ("text_pair",)  # predictions need a second text where it is set
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "mcc")
    known: ClassVar[dict[str, tuple[str, ...]]] = {"text": ("text", "sentence", "document"), "label": ("label",)}

    @field_validator("labels")
    @classmethod
    def _each_once(cls, labels: list[str] | None) -> list[str] | None:
        labels = labels and [nfc(label) for label in labels]
        twice = next((label for label in labels or [] if (labels or []).count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"the label '{twice}' is listed twice")
        return labels

    @property
    def inputs(self) -> tuple[str, ...]:
        """The text, and the second one where `text_pair` names it."""
        return ("text",) if self.text_pair is None else ("text", "text_pair")

    def with_model_labels(self, labels: list[str]) -> Self:
        """The task with the labels of a model, unless they were given."""
        task = self if self.labels is not None else self.model_copy(update={"labels": labels})
        return super(Classification, task).with_model_labels(labels)

    def fit_labels(self, train: list[Path]) -> Self:
        """The task with the labels of the training files, unless they were given. Raises UserError for fewer than
        two."""
        if self.labels is not None:
            return self
        by_value: dict[str, set[str]] = {}
        for label in {example["label"] for path in train for example in LabelledTask.read(self, path)}:
            by_value.setdefault(label_value(label), set()).add(label)
        # 1, 1.0 and True of several files are one label
        labels = {value if len(spelled) > 1 else spelled.pop() for value, spelled in by_value.items()}
        refuse_empty("train", train, len(labels))
        if len(labels) < 2:
            raise UserError(
                f"{', '.join(map(str, train))}: a task requires at least two labels, found was only '{labels.pop()}'"
            )
        return self.with_found_labels(labels)

    def read(self, path: Path) -> list[Example]:
        """Every row; without `labels`, the labels of this file are used."""
        return super().read(path) if self.labels is not None else self.fit_labels([path]).read(path)

    def label_indices(self) -> dict[str, int]:
        """The index of each label by its name only, since a name may be a number."""
        return {label: i for i, label in enumerate(self.labels or [])}

    def label_parser(self) -> Callable[[Any], Any]:
        """As for every task; while `labels` is null, labels stay as they are."""
        return super().label_parser() if self.labels is not None else parse_label


def parse_label(value: Any) -> str:
    """A label as text. Raises UserError for anything but a text, a whole number, true or false."""
    if text := label_text(value):
        return label_value(text, truth=False)
    raise UserError(f"the label is {value!r:.60}; a text or a whole number was expected; correct it, or delete the row")
