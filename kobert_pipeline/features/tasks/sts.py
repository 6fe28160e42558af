"""Semantic textual similarity (KorSTS, KLUE-STS): regression of a score from 0 (unrelated) to 5 (equivalent) for two
texts.

Ham et al., *KorNLI and KorSTS*, Findings of EMNLP 2020; Park et al., *KLUE*, NeurIPS 2021.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.labelled import PairTask, ScoredTask, score_of
from kobert_pipeline.features.metrics import f1
from kobert_pipeline.features.task import Example

LARGEST = 5
SAME = 3
"""Two texts with at least this score mean the same (KLUE)."""


class Sts(PairTask, ScoredTask):
    """Two texts and a score from 0 to 5. Known columns: sentence1, sentence2, score (or labels.label)."""

    name: Literal["sts"] = "sts"
    sample: ClassVar[dict[str, Any]] = {"text": "아이가 공원에서 뛰논다.", "text_pair": "공원에서 아이들이 놀고 있다."}
    symmetric: ClassVar[bool] = True
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("sentence1", "text1", "text"),
        "text_pair": ("sentence2", "text2", "text_pair"),
        "label": ("score", "labels.label", "label"),
    }

    def label_parser(self) -> Callable[[Any], int | float]:
        """A function from a score in the file to a number. It raises UserError outside 0 to 5."""
        return parse_score

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """Pearson and Spearman correlation, and KLUE's F1 of the pairs that mean the same, in percent; no F1 where none
        do, as with scores up to 1."""
        sides = predictions, [example["label"] for example in examples]
        same = [[int(score >= SAME) for score in side] for side in sides]
        return super().score(predictions, examples) | ({"f1": f1(*same)} if any(same[1]) else {})


def parse_score(value: Any) -> float:
    """The number of a score. Raises UserError outside 0 to 5."""
    score = score_of(value)
    if not 0 <= score <= LARGEST:  # also refuses nan
        raise UserError(f"the score is {value!r:.60}; allowed are numbers from 0 to {LARGEST}")
    return score
