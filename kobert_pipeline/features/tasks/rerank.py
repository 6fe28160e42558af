"""Rerankers: whether a text is relevant to a query, read together by one model (Nogueira and Cho, *Passage Re-ranking
with BERT*, 2019)."""

from typing import Any, ClassVar, Literal

from kobert_pipeline.features.labelled import PairTask
from kobert_pipeline.features.task import Example


class Rerank(PairTask):
    """A query and a text, label 1 where the text is relevant. Known columns: query or question; passage, document or
    context; label or relevance."""

    name: Literal["rerank"] = "rerank"
    labels: ClassVar[tuple[str, ...]] = ("other", "relevant")
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "f1")
    metric: ClassVar[str] = "f1"
    sample: ClassVar[dict[str, Any]] = {
        "text": "여권은 어디에서 만들어?", "text_pair": "여권은 구청이나 시청에서 발급합니다.",
    }  # fmt: skip
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("query", "question", "text"),
        "text_pair": ("passage", "document", "context", "text_pair"),
        "label": ("label", "relevance"),
    }

    def of_pairs(self, pairs: list[Example]) -> list[Example]:
        """An example per text: the one that belongs to the query, and each that does not."""
        return [
            {
                "id": f"{pair['id']}-{index}", "group": pair["group"], "text": pair["text"], "text_pair": text,
                "label": int(index == 0),
            }
            for pair in pairs
            for index, text in enumerate([pair["text_pair"], *pair["negatives"]])
        ]  # fmt: skip
