"""Semantic textual similarity (KorSTS, KLUE-STS): regression of a score from 0 (unrelated) to 5 (equivalent) for two
texts.

Ham et al., *KorNLI and KorSTS*, Findings of EMNLP 2020; Park et al., *KLUE*, NeurIPS 2021.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.labelled import PairTask
from kobert_pipeline.features.metrics import pearson, spearman
from kobert_pipeline.features.task import Example
from kobert_pipeline.tables.columns import number_of

LARGEST = 5


class Sts(PairTask):
    """Two texts and a score from 0 to 5. Known columns: sentence1, sentence2, score (or labels.label)."""

    name: Literal["sts"] = "sts"
    labels: ClassVar[tuple[str, ...]] = ("score",)
    problem_type: ClassVar[str | None] = "regression"
    metric: ClassVar[str] = "spearman"
    sample: ClassVar[dict[str, Any]] = {"text": "아이가 공원에서 뛰논다.", "text_pair": "공원에서 아이들이 놀고 있다."}
    symmetric: ClassVar[bool] = True
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("sentence1", "text1"),
        "text_pair": ("sentence2", "text2"),
        "label": ("score", "labels.label", "label"),
    }

    def label_parser(self) -> Callable[[Any], int | float]:
        """A function from a score in the file to a number. It raises UserError outside 0 to 5."""
        return parse_score

    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[Any]:
        """The model's score per example; it is not clipped to 0 and 5."""
        return [float(row[0]) for row in logits["logits"]]

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """Pearson and Spearman correlation, in percent."""
        scores = [example["label"] for example in examples]
        return {"pearson": pearson(predictions, scores), "spearman": spearman(predictions, scores)}


def parse_score(value: Any) -> float:
    """The number of a score. Raises UserError outside 0 to 5."""
    score = number_of(value)
    if not 0 <= score <= LARGEST:  # also refuses nan
        raise UserError(f"the score is {value!r:.60}; allowed are numbers from 0 to {LARGEST}")
    return score
