"""The contract of a task: files -> examples -> features, and logits -> predictions -> scores. It knows no training
loop, no folder."""

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features

Example = dict[str, Any]
"""A JSON object with at least `id` and `group`; examples of one group never lie on two sides of a dev split."""


class Task(Plugin):
    """What to learn. Three shapes (sequence, span, tagging) implement most of it."""

    family: ClassVar[str] = "tasks"

    auto_class: ClassVar[str]
    """The `transformers` class with the task's head, such as AutoModelForSequenceClassification."""
    metric: ClassVar[str]
    """The score that selects a model on dev; larger is better."""
    clean_training: ClassVar[bool] = False
    """Whether training examples that share text with the test set are dropped."""
    inference_options: ClassVar[tuple[str, ...]] = ()
    """The options that predicting depends on, for texts of any file; `inference_state` keeps them with the model."""

    @abstractmethod
    def read(self, path: Path) -> list[Example]:
        """The examples of a file. Raises UserError for a file of another form."""

    @abstractmethod
    def featurize(self, examples: list[Example], tokenizer: Any, max_length: int) -> dict[str, np.ndarray]:
        """The arrays of `Features` for these examples."""

    @abstractmethod
    def targets(self, features: Features) -> dict[str, np.ndarray]:
        """The arrays, one value per row or one per token, that the model takes as labels, under their `transformers`
        names."""

    @abstractmethod
    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """A prediction per example from the model's logits: for each output a list with one array per row."""

    @abstractmethod
    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """Scores in percent."""

    def fit_labels(self, train: list[Path]) -> Self:
        """The task with what it learns from its training files filled in (the labels, where they were not said). It is
        kept beside the features. Raises UserError for files of another form."""
        return self

    def refuse_inconsistent(self, examples: list[Example]) -> None:
        """Raise UserError where the examples of a split, maybe of several files, do not go together."""

    def calibrate(self, logits: dict[str, list[np.ndarray]], features: Features) -> Self:
        """The task with what the model's logits for the dev set determine, such as a threshold. It is one of the
        `inference_options`."""
        return self

    def inference_state(self) -> dict[str, Any]:
        """What predicting with the model needs to know of the task; it is saved in the model's config. Defaults are
        left out."""
        return self.model_dump(include=set(self.inference_options), exclude_defaults=True)

    def with_inference_state(self, state: dict[str, Any]) -> Self:
        """The task with the options that an `inference_state` holds."""
        return self.model_copy(update={name: state[name] for name in self.inference_options if name in state})

    def counts(self, features: Features) -> dict[str, Any]:
        """What the manifest tells of a split besides examples, windows and tokens."""
        return {}

    def truncated(self, features: Features, tokenizer: Any, max_length: int) -> int:
        """Examples of which a part was cut off at `max_length`: none, where long texts are read in several windows."""
        return 0

    @property
    def paired(self) -> bool:
        """Whether it labels pairs of texts."""
        return False

    def content(self, example: Example) -> str:
        """What must not be in training when this is a test example."""
        return str(example["group"])

    def config(self) -> dict[str, Any]:
        """What the head's config needs (num_labels, id2label)."""
        return {}


def refuse_empty(split: str, paths: list[Path], number: int) -> None:
    """Raise UserError where the files of a split hold no example, as those that have a header and nothing below it."""
    if not number:
        what = ", ".join(map(str, paths))
        raise UserError(
            f"features: the {split} split is empty: {what} holds no examples, no row below a header; write some into it"
        )
