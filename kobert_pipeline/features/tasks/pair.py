"""Paraphrases: whether two texts mean the same (question pairs, PAWS-X, KLUE-STS by its binary label)."""

from typing import Any, ClassVar, Literal

from kobert_pipeline.features.labelled import PairTask


class Pair(PairTask):
    """Two texts, label 1 where they mean the same. Known columns: question1, question2, is_duplicate; sentence1,
    sentence2, label."""

    name: Literal["pair"] = "pair"
    labels: ClassVar[tuple[str, ...]] = ("different", "same")
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "f1")
    metric: ClassVar[str] = "accuracy"
    sample: ClassVar[dict[str, Any]] = {"text": "여권은 어디에서 만들어?", "text_pair": "여권 발급은 어디서 하나요?"}
    blank_texts: ClassVar[bool] = True  # PAWS-X has rows whose translation failed
    symmetric: ClassVar[bool] = True
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("question1", "sentence1", "text1", "text"),
        "text_pair": ("question2", "sentence2", "text2", "text_pair"),
        "label": ("is_duplicate", "label", "labels.binary-label", "gold_label"),
    }
