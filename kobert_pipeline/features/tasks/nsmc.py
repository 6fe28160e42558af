"""NSMC: sentiment of Naver movie reviews, positive or negative."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal

from kobert_pipeline.corpus.decontaminate import remove_whitespace
from kobert_pipeline.corpus.readers.nsmc import HEADER, OtherColumns, read_reviews, unquoted
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.task import Example


class Nsmc(SequenceTask):
    """Tab-separated files with `id document label`; a dev split does not separate equal reviews."""

    name: Literal["nsmc"] = "nsmc"
    labels: ClassVar[tuple[str, ...]] = ("negative", "positive")
    metric: ClassVar[str] = "accuracy"
    sample: ClassVar[dict[str, Any]] = {"text": "배우들 연기가 정말 좋았다"}

    def read(self, path: Path) -> list[Example]:
        """Every review, also empty ones, since the official test set counts them."""
        try:
            return [self._example(path, number, *review) for number, review in enumerate(read_reviews(path), 2)]
        except OtherColumns as error:
            # the columns of this task have no options, but its checkpoints are given tables of other people too
            raise UserError(
                f"{error}; the task classification reads other tables: in a recipe as {{name: classification, text: "
                "COLUMN, label: COLUMN}, in kobert evaluate by --task classification --set text=COLUMN --set "
                f"label=COLUMN once the file calls its labels {' and '.join(self.labels)}"
            ) from None

    def _example(self, path: Path, number: int, id_: str, document: str, label: str) -> Example:
        if label not in ("0", "1"):
            raise UserError(f"{path}, line {number}: the label is {label!r}; allowed are 0 (negative) and 1 (positive)")
        return {"id": id_, "group": remove_whitespace(document), "text": document, "label": int(label)}


def document_reader(path: Path, columns: Iterable[str]) -> Callable[[str], str]:
    """What makes the text of a document from its cell in a table with these columns: in the form of NSMC's own files,
    without the quotes that training leaves out."""
    return unquoted if tuple(columns) == HEADER and {".tsv", ".txt"} & set(path.suffixes) else str
