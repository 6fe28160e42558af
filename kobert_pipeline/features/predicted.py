"""What a model predicts for features: its logits, and what the task makes of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.rows import Logits
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Task


@dataclass(frozen=True)
class Predicted:
    """The result of `predict`: the model's `logits` per row, and the task's prediction per example."""

    task: Task
    features: Features
    logits: Logits
    predictions: list[Any]
    network: "Predicted | None" = None
    """What the network alone predicts, where a model without one took part."""

    @classmethod
    def of(cls, task: Task, features: Features, logits: Logits, network: "Predicted | None" = None) -> "Predicted":
        """What the task makes of the logits, which have a column for each of its labels."""
        return cls(task, features, logits, task.predict(logits, features), network)

    @cached_property
    def scores(self) -> dict[str, float]:
        """The task's metrics, predictions against examples, in percent."""
        return self.task.score(self.predictions, self.features.examples)

    @cached_property
    def results(self) -> list[dict[str, Any]]:
        """The predictions as JSON objects, each with its scores."""
        return self.task.results(self.predictions, self.logits, self.features)

    @property
    def classification_report(self) -> dict[str, Any]:
        """The task's scores by class, {} for tasks without classes."""
        return self.task.classification_report(self.predictions, self.features.examples)

    @cached_property
    def spans(self) -> dict[int, tuple[int, int]]:
        """For a task with answer spans: {number of the example: (start, end)}, in characters of the context; examples
        without an answer are left out. {} for other tasks."""
        answers = self.task.answer_spans(self.logits, self.features) if isinstance(self.task, SpanTask) else {}
        return {index: (start, end) for index, (_, start, end) in answers.items()}
