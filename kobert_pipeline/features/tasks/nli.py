"""Natural language inference (KorNLI, KLUE-NLI): does the premise entail the hypothesis, contradict it, or neither?

Ham et al., *KorNLI and KorSTS*, Findings of EMNLP 2020; Park et al., *KLUE*, NeurIPS 2021, whose order of labels this
is.
"""

from typing import Any, ClassVar, Literal

from kobert_pipeline.features.labelled import PairTask


class Nli(PairTask):
    """Premise and hypothesis. Known columns: premise, hypothesis, gold_label (or label); sentence1, sentence2,
    gold_label."""

    name: Literal["nli"] = "nli"
    labels: ClassVar[tuple[str, ...]] = ("entailment", "neutral", "contradiction")
    metric: ClassVar[str] = "accuracy"
    sample: ClassVar[dict[str, Any]] = {"text": "한 남자가 기타를 친다.", "text_pair": "누군가 악기를 연주한다."}
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("premise", "sentence1", "text"),
        "text_pair": ("hypothesis", "sentence2", "text_pair"),
        "label": ("gold_label", "label"),
    }
