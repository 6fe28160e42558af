"""Linguistic acceptability: would a Korean speaker accept the sentence? Scored by the Matthews correlation coefficient.

Warstadt, Singh and Bowman, *Neural Network Acceptability Judgments*, TACL 2019 (CoLA), which the Korean set follows.
"""

from typing import Any, ClassVar, Literal

from kobert_pipeline.features.labelled import LabelledTask


class Acceptability(LabelledTask):
    """One sentence, label 1 where it is acceptable. Known columns: sentence, acceptability_label (or label)."""

    name: Literal["acceptability"] = "acceptability"
    labels: ClassVar[tuple[str, ...]] = ("unacceptable", "acceptable")
    scores: ClassVar[tuple[str, ...]] = ("mcc", "accuracy")
    metric: ClassVar[str] = "mcc"
    sample: ClassVar[dict[str, Any]] = {"text": "동생은 어제 학교를 갔다 왔다."}
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("sentence", "text"),
        "label": ("acceptability_label", "label"),
    }
