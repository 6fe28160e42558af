"""Your own texts with a number each, such as a rating: one text or two, in any table that tasks read."""

from typing import ClassVar, Literal

from kobert_pipeline.features.labelled import ScoredTask


class Regression(ScoredTask):
    """Texts (or pairs of texts) with a number. Known columns: text, sentence or document; score, rating or label."""

    name: Literal["regression"] = "regression"
    text_pair: str | None = None
    """Column of a second text; null: there is one text."""

    inference_options: ClassVar[tuple[str, ...]] = ("text_pair",)  # predictions need a second text where it is set
    known: ClassVar[dict[str, tuple[str, ...]]] = {
        "text": ("text", "sentence", "document"),
        "label": ("score", "rating", "label"),
    }

    @property
    def inputs(self) -> tuple[str, ...]:
        """The text, and the second one where `text_pair` names it."""
        return ("text",) if self.text_pair is None else ("text", "text_pair")
