"""Labelled texts of your own: any labels, one text or two, in any of the files that tasks read. No code is needed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, field_validator

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.labelled import LabelledTask, label_text
from kobert_pipeline.features.task import Example, refuse_empty


class Classification(LabelledTask):
    """Texts (or pairs of texts) with labels of your own. Known columns: text, sentence or document; label."""

    model_config = ConfigDict(coerce_numbers_to_str=True)  # labels: [0, 1]

    name: Literal["classification"] = "classification"
    # options here, constants of the class in every other task
    labels: list[str] | None = Field(None, min_length=2)  # type: ignore[misc, assignment]
    """The labels in the order of the model's outputs; null: those of the training files, sorted as text."""
    metric: Literal["accuracy", "macro_f1", "mcc"] = "accuracy"  # type: ignore[misc]
    """The score that picks a model on dev."""
    text_pair: str | None = None
    """Column of a second text; null: there is one text."""

    inference_options: ClassVar[tuple[str, ...]] = ("text_pair",)  # whether there are two texts
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "mcc")
    allowed_hint: ClassVar[str] = ", those of the training files unless the option labels of the task names all"
    known: ClassVar[dict[str, tuple[str, ...]]] = {"text": ("text", "sentence", "document"), "label": ("label",)}

    @field_validator("labels")
    @classmethod
    def _each_once(cls, labels: list[str] | None) -> list[str] | None:
        twice = next((label for label in labels or [] if (labels or []).count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"the label '{twice}' stands twice")
        return labels

    @property
    def paired(self) -> bool:
        """Two texts where `text_pair` says so."""
        return self.text_pair is not None

    def fit_labels(self, train: list[Path]) -> Self:
        """With the labels of the training files, unless they were given. Raises UserError for fewer than two."""
        if self.labels is not None:
            return self
        found = {example["label"] for path in train for example in LabelledTask.read(self, path)}
        refuse_empty("train", train, len(found))
        if len(found) < 2:
            raise UserError(
                f"{', '.join(map(str, train))}: a task needs two labels at least, found was only '{found.pop()}'"
            )
        return self.model_copy(update={"labels": sorted(found)})

    def read(self, path: Path) -> list[Example]:
        """Every row; without `labels` those of the file itself are taken."""
        return super().read(path) if self.labels is not None else self.fit_labels([path]).read(path)

    def label_indices(self) -> dict[str, int]:
        """By name alone, since a number may be a name."""
        return {label: i for i, label in enumerate(self.labels or [])}

    def label_parser(self) -> Callable[[Any, str], Any]:
        """As for every task; before the labels are known, the label itself."""
        return super().label_parser() if self.labels is not None else parse_label


def parse_label(value: Any, place: str) -> str:
    """A label as it is written. Raises UserError for what is none."""
    spelled = label_text(value)
    if not spelled:
        raise UserError(f"{place}: the label is {value!r:.60}; a text or a whole number was expected")
    return spelled
