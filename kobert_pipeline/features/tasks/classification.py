"""Your own labelled texts: any labels, one text or two, in any table that tasks read. No code is needed."""

from typing import ClassVar, Literal

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.labelled import FoundLabelsTask, list_among
from kobert_pipeline.features.task import Example


class Classification(FoundLabelsTask):
    """Texts (or pairs of texts) with any labels. Known columns: text, sentence or document; label."""

    name: Literal["classification"] = "classification"
    # an option here, a class constant in most other tasks
    metric: Literal["accuracy", "macro_f1", "mcc"] = "accuracy"  # type: ignore[misc]
    """The score by which models are selected on dev."""
    text_pair: str | None = None
    """Column of a second text; null: there is one text."""

    inference_options: ClassVar[tuple[str, ...]] = ("text_pair",)  # predictions need a second text where it is set
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "mcc")
    known: ClassVar[dict[str, tuple[str, ...]]] = {"text": ("text", "sentence", "document"), "label": ("label",)}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The text, and the second one where `text_pair` names it."""
        return ("text",) if self.text_pair is None else ("text", "text_pair")

    def labels_of(self, examples: list[Example]) -> set[str]:
        """The labels. Raises UserError where one is a list of others."""
        labels = super().labels_of(examples)
        if listed := list_among(labels):
            raise UserError(
                f"the label '{listed[0]:.60}' is a list of labels that other rows have, too; the task multilabel gives "
                "a text several labels; if each list is one label, name all in the option labels of the task"
            )
        return labels
