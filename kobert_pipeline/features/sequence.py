"""The base of tasks that give a text or a pair of texts one label. Examples have `id, group, text, text_pair,
label`."""

from collections import Counter
from typing import Any, ClassVar

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features, flatten, row_starts
from kobert_pipeline.features.metrics import CLASSIFICATION, classification_report
from kobert_pipeline.features.task import Example, Task, exactly, label_config
from kobert_pipeline.morphemes.normalization import replace_surrogates
from kobert_pipeline.tokenizer.loading import token_types


class SequenceTask(Task):
    """Sequence classification. Subclasses implement `read` and set `labels` and the `metric` that selects models."""

    auto_class: ClassVar[str] = "AutoModelForSequenceClassification"
    labels: ClassVar[tuple[str, ...]]
    scores: ClassVar[tuple[str, ...]] = ("accuracy",)
    """The scores to report, of `metrics.CLASSIFICATION`."""
    problem_type: ClassVar[str | None] = None
    """`transformers`' name for what the outputs are, which chooses the loss: `regression` (the label is a number),
    `multi_label_classification` (the label is a list of indices); None: the label is an index."""

    def config(self) -> dict[str, Any]:
        """Number and names of the labels."""
        config = label_config(list(self.labels or ()))
        return config | ({"problem_type": self.problem_type} if self.problem_type else {})

    def featurize(self, examples: list[Example], tokenizer: Any, max_length: int) -> dict[str, np.ndarray]:
        """One window per example, truncated to `max_length`; of a pair the longer text is truncated first."""
        encoded = tokenizer(*input_texts(examples), truncation=True, max_length=max_length, return_token_type_ids=True)
        return {
            "windows": row_starts(encoded["input_ids"]),
            "input_ids": flatten(encoded["input_ids"], np.int32),
            "token_type_ids": flatten(token_types(tokenizer, encoded), np.uint8),
            "labels": self.label_array(examples),
        }

    def label_array(self, examples: list[Example]) -> np.ndarray:
        """The labels as `transformers` takes them: indices int64 (n,), or the numbers of a regression float32 (n,)."""
        return np.array([example["label"] for example in examples], np.float32 if self.problem_type else np.int64)

    @property
    def noisy_inputs(self) -> tuple[str, ...]:
        """The text, or both texts."""
        return self.inputs

    @property
    def takes_windows(self) -> bool:
        """True for single texts."""
        return not self.paired

    def unlabelled(self, texts: list[str]) -> Example:
        """The text or pair with a label that means nothing."""
        return {**exactly(texts, self.inputs), "label": 0}

    def results(
        self, predictions: list[Any], logits: dict[str, list[np.ndarray]], features: Features
    ) -> list[dict[str, Any]]:
        """The text or pair, with the `label` and the `scores` of all labels; of a regression with the `score`."""
        return [
            {key: example[key] for key in ("text", "text_pair") if key in example} | self.result(prediction, row)
            for example, prediction, row in zip(features.examples, predictions, logits["logits"], strict=True)
        ]

    def result(self, prediction: Any, logits: np.ndarray) -> dict[str, Any]:
        """A prediction from (num_labels,) logits as JSON values."""
        if not (labels := self.classes()):
            return {"score": round(prediction, 4)}
        return {"label": labels[prediction], "scores": dict(zip(labels, probabilities(logits), strict=True))}

    def windows(self, examples: list[Example]) -> list[Example]:
        """The text or pair of each window; here one per example."""
        return examples

    def refuse_inconsistent(self, examples: list[Example]) -> None:
        """Raise UserError where examples have different numbers of windows."""
        counts = {len(self.windows([example])) for example in examples}
        if len(counts) > 1:
            raise UserError(
                f"features: examples have {' and '.join(map(str, sorted(counts)))} texts (candidates, or a text, its "
                "pair and negatives); give files with the same number in each row"
            )

    def truncated(self, features: Features, tokenizer: Any, max_length: int) -> list[int]:
        """The numbers of the examples that were truncated."""
        # features do not mark truncated texts, but only full windows may be truncated, so only their texts are encoded
        # again, without a limit
        full = np.flatnonzero(np.diff(features.arrays["windows"]) == max_length)
        if not len(full):
            return []
        windows = self.windows(features.examples)
        whole = tokenizer(*input_texts([windows[i] for i in full]), verbose=False)["input_ids"]
        cut = {i // features.choices for i, ids in zip(full.tolist(), whole, strict=True) if len(ids) > max_length}
        return sorted(cut)

    def targets(self, features: Features) -> dict[str, np.ndarray]:
        """`labels` (n,)."""
        return {"labels": features.arrays["labels"]}

    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """The index of the largest logit, per example."""
        return [int(row.argmax()) for row in logits["logits"]]

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """The `scores`, in percent, the `metric` that selects models first."""
        labels = [example["label"] for example in examples]
        names = sorted(self.scores, key=lambda name: name != self.metric)
        return {name: CLASSIFICATION[name](predictions, labels) for name in names}

    def classification_report(self, predictions: list[Any], examples: list[Example]) -> dict[str, Any]:
        """Scores of each label, and the confusion matrix; {} where outputs are no labels."""
        names = self.classes()
        return classification_report(predictions, [example["label"] for example in examples], names) if names else {}

    def label_counts(self, examples: list[Example]) -> dict[str, int]:
        """The number of examples with each label."""
        if not (names := self.classes()):
            return {}
        counts = Counter(example["label"] for example in examples)
        return {name: counts[index] for index, name in enumerate(names)}

    def classes(self) -> list[str]:
        """The names of the labels; none where outputs are no classes."""
        # neither a regression's score nor the number of a choice is a class
        return [] if self.problem_type == "regression" else list(self.labels or ())

    def mistake(self, prediction: Any, example: Example, result: dict[str, Any]) -> dict[str, Any]:
        """What is wrong with a prediction: the `label` of the file, what was `predicted`, and its `probability`."""
        label = result["label"]
        return {"label": self.label_name(example), "predicted": label, "probability": result["scores"][label]}

    def label_name(self, example: Example) -> str | None:
        """The name of the label."""
        return names[example["label"]] if (names := self.classes()) else None

    def content(self, example: Example) -> str:
        """The text, or both texts."""
        return "\n".join(example[key] for key in ("text", "text_pair") if key in example)


def probabilities(logits: np.ndarray) -> list[float]:
    """The softmax of (n,) logits, rounded to four decimals."""
    return [round(score, 4) for score in softmax(logits).tolist()]


def softmax(logits: np.ndarray) -> np.ndarray:
    """The softmax of (n,) logits, float64."""
    scores = np.exp(logits.astype(np.float64) - logits.max())  # without the maximum, large logits would overflow
    return np.asarray(scores / scores.sum())


def input_texts(examples: list[Example]) -> tuple[list[str], list[str] | None]:
    """The texts, and the second texts (None where the examples are not pairs)."""
    texts = [replace_surrogates(example["text"]) for example in examples]
    if not any("text_pair" in example for example in examples):
        return texts, None
    return texts, [replace_surrogates(example["text_pair"]) for example in examples]


def labels_single_texts(task: Task) -> bool:
    """Whether the task gives a single text one of several classes, which distillation and n-grams need."""
    return (
        isinstance(task, SequenceTask)
        and not task.paired
        and task.auto_class == SequenceTask.auto_class
        and task.problem_type is None
        and not task.added_tokens
    )
