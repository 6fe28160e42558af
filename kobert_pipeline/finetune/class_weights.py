"""Weights of the labels in the loss, so that a rare label counts as much as a frequent one."""

from typing import Literal

import numpy as np

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

ClassWeights = Literal["balanced"] | dict[str, float]
"""What the option says: the weights of scikit-learn's `balanced`, or the weight of each label by its name."""


def learns_one_label(task: Task) -> bool:
    """Whether the loss is the cross-entropy of one label for each text or token, which alone has class weights."""
    one_of_several = isinstance(task, SequenceTask) and task.problem_type is None
    return isinstance(task, TaggingTask) or (one_of_several and task.auto_class == SequenceTask.auto_class)


def label_weights(class_weights: ClassWeights, labels: np.ndarray, names: list[str]) -> np.ndarray:
    """The weight of each label, (names,) float32, given all training labels, which are indices or IGNORE_INDEX.

    `balanced`: n / (classes * n of the label), with 1 for labels that do not occur (King and Zeng 2001, as in
    scikit-learn); by name: 1 for labels that are not named. Raises UserError for a name that is no label.
    """
    if isinstance(class_weights, dict):
        if unknown := [name for name in class_weights if name not in names]:
            raise UserError(
                f"class_weights names '{unknown[0]}', which is not a label of the task{did_you_mean(unknown[0], names)}"
            )
        return np.array([class_weights.get(name, 1.0) for name in names], np.float32)
    counts = np.bincount(labels[labels != IGNORE_INDEX], minlength=len(names))
    balanced = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return np.where(counts > 0, balanced, 1.0).astype(np.float32)


def weights_of(labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weight of each of these labels, 0 for IGNORE_INDEX; in their shape."""
    # clamped, because `np.where` evaluates both sides and IGNORE_INDEX is no index of a label
    return np.where(labels == IGNORE_INDEX, 0.0, weights[np.maximum(labels, 0)])
