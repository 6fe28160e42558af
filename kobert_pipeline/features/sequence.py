"""The shape of tasks that give one label to a text (or a pair of texts). Examples: `id, group, text, text_pair,
label`."""

from typing import Any, ClassVar

import numpy as np

from kobert_pipeline.features.format import Features, flatten, row_starts
from kobert_pipeline.features.metrics import CLASSIFICATION
from kobert_pipeline.features.task import Example, Task


class SequenceTask(Task):
    """Classification of sequences. Subclasses say how to read, which `labels` there are and by which `metric` models
    are picked."""

    auto_class: ClassVar[str] = "AutoModelForSequenceClassification"
    labels: ClassVar[tuple[str, ...]]
    scores: ClassVar[tuple[str, ...]] = ("accuracy",)
    """What is measured, of `metrics.CLASSIFICATION`."""
    label_type: ClassVar[Any] = np.int64
    """Of the array of labels: indices."""

    def config(self) -> dict[str, Any]:
        """Names of the labels."""
        return {
            "num_labels": len(self.labels),
            "id2label": dict(enumerate(self.labels)),
            "label2id": {label: i for i, label in enumerate(self.labels)},
        }

    def featurize(self, examples: list[Example], tokenizer: Any, max_length: int) -> dict[str, np.ndarray]:
        """One window per example, cut at `max_length`; of a pair the longer text is cut first."""
        encoded = tokenizer(*_texts(examples), truncation=True, max_length=max_length, return_token_type_ids=True)
        return {
            "windows": row_starts(encoded["input_ids"]),
            "input_ids": flatten(encoded["input_ids"], np.int32),
            "token_type_ids": flatten(encoded["token_type_ids"], np.uint8),
            "labels": np.array([example["label"] for example in examples], self.label_type),
        }

    def windows(self, examples: list[Example]) -> list[Example]:
        """An example for each window."""
        return examples

    def truncated(self, features: Features, tokenizer: Any, max_length: int) -> int:
        """Examples of which a part was cut off: windows that are full are encoded once more, whole."""
        full = np.flatnonzero(np.diff(features.arrays["windows"]) == max_length)
        if not len(full):
            return 0
        windows = self.windows(features.examples)
        whole = tokenizer(*_texts([windows[i] for i in full]), verbose=False)["input_ids"]
        cut = [i // features.choices for i, ids in zip(full.tolist(), whole, strict=True) if len(ids) > max_length]
        return len(set(cut))

    def targets(self, features: Features) -> dict[str, np.ndarray]:
        """`labels` (n,)."""
        return {"labels": features.arrays["labels"]}

    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """The largest logit's index per example."""
        return [int(row.argmax()) for row in logits["logits"]]

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """`scores` in percent."""
        labels = [example["label"] for example in examples]
        return {name: CLASSIFICATION[name](predictions, labels) for name in self.scores}

    def content(self, example: Example) -> str:
        """The text, or both."""
        return "\n".join(example[key] for key in ("text", "text_pair") if key in example)


def _texts(examples: list[Example]) -> tuple[list[str], list[str] | None]:
    """The texts, and the second texts where these are pairs."""
    pairs = (
        [example["text_pair"] for example in examples] if any("text_pair" in example for example in examples) else None
    )
    return [example["text"] for example in examples], pairs
