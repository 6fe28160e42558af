"""Natural language inference (KorNLI, KLUE-NLI): does the premise entail the hypothesis, contradict it, or neither?

Ham et al., *KorNLI and KorSTS*, Findings of EMNLP 2020; Park et al., *KLUE*, NeurIPS 2021, whose order of labels this
is.
"""

from typing import ClassVar, Literal

from kobert_pipeline.features.labelled import PairTask


class Nli(PairTask):
    """Premise and hypothesis. Known columns: premise, hypothesis, gold_label (or label); sentence1, sentence2,
    gold_label."""

    name: Literal["nli"] = "nli"
    labels: ClassVar[tuple[str, ...]] = ("entailment", "neutral", "contradiction")
    metric: ClassVar[str] = "accuracy"
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("premise", "sentence1"),
        "text_pair": ("hypothesis", "sentence2"),
        "label": ("gold_label", "label"),
    }
