"""NSMC: sentiment of Naver movie reviews, positive or negative."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

from kobert_pipeline.corpus.decontaminate import comparable
from kobert_pipeline.corpus.readers.nsmc import COLUMNS, read_reviews, unquoted
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.task import Example
from kobert_pipeline.tables.columns import label_value
from kobert_pipeline.tables.file_type import data_suffix
from kobert_pipeline.tables.unreadable import Row, readable, tried


class Nsmc(SequenceTask):
    """Tab-separated files with `id document label`; a dev split does not separate equal reviews."""

    name: Literal["nsmc"] = "nsmc"
    labels: ClassVar[tuple[str, ...]] = ("negative", "positive")
    metric: ClassVar[str] = "accuracy"
    sample: ClassVar[dict[str, Any]] = {"text": "배우들 연기가 정말 좋았다"}

    def read(self, path: Path) -> list[Example]:
        """Every review, also empty ones, since the official test set counts them."""
        # the columns of this task have no options, but its checkpoints are given tables of other people too
        advice = (
            "; the task classification reads other tables: in a recipe as {name: classification, text: COLUMN, label: "
            "COLUMN}, in kobert evaluate by --task classification --set text=COLUMN --set label=COLUMN once the file "
            f"calls its labels {' and '.join(self.labels)}"
        )
        return list(readable(tried(read_reviews(path, advice), lambda first: _example)))

    def text_parser(self, first: Row) -> Callable[[str, Row], str]:
        """A text is its cell; in the form of NSMC's own files it is the cell without the quotes that training leaves
        out."""
        is_nsmc = tuple(first.cells) == COLUMNS and data_suffix(first.location.path) in (".tsv", ".txt")
        return (lambda text, row: unquoted(text)) if is_nsmc else super().text_parser(first)


def _example(row: Row) -> Example:
    document, label = row.cells["document"], label_value(row.cells["label"])
    if label not in ("0", "1"):
        raise UserError(f"the label is {row.cells['label']!r}; allowed are 0 (negative) and 1 (positive)")
    return {"id": row.cells["id"], "group": comparable(document), "text": document, "label": int(label)}
