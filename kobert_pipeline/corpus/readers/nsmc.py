"""The Naver sentiment movie corpus (NSMC): tab-separated `id document label`.

Documents with a double quote went through a CSV writer twice, which doubled their quotes and quoted them twice;
`unquoted` undoes that. A few documents are empty; `read_reviews` keeps them, since the official test set counts them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from kobert_pipeline.config.options import Seed
from kobert_pipeline.corpus.decontaminate import comparable
from kobert_pipeline.corpus.document import Document, in_split
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.tables.csv import read_csv
from kobert_pipeline.tables.excel import read_excel
from kobert_pipeline.tables.file_type import data_suffix
from kobert_pipeline.tables.rows import read_parquet
from kobert_pipeline.tables.unreadable import Row, UnreadableInput

COLUMNS = ("id", "document", "label")


class Nsmc(Reader):
    """NSMC files, every review a document; labels are not read into the corpus."""

    name: Literal["nsmc"] = "nsmc"
    dev_share: float | None = Field(None, gt=0, lt=0.5, exclude_if=lambda value: value is None)
    """Read only the reviews that the stage `features` with this `dev_share` and `dev_seed` puts into dev: listed under
    `decontaminate`, they keep the texts of dev out of pretraining. null: read all."""
    dev_seed: Seed = Field(1, exclude_if=lambda value: value == 1)
    """Seed of that split."""

    def documents(self, path: Path) -> Iterator[Document | UnreadableInput]:
        """A document for each review that is not empty."""
        for row in read_reviews(path):
            if isinstance(row, UnreadableInput):
                yield row
            elif row.cells["document"].strip() and self._is_read(row.cells["document"]):
                yield Document(f"{path.name}#{row.cells['id']}", path.name, row.cells["document"], ordered=False)

    def _is_read(self, document: str) -> bool:
        """Whether a review is to be read: all are, or with a `dev_share` only the reviews of that dev split."""
        return self.dev_share is None or in_split(f"{self.dev_seed}\n{comparable(document)}", self.dev_share)


def read_reviews(path: Path, advice: str = "") -> Iterator[Row | UnreadableInput]:
    """The rows of a file of reviews, each with the text as it was before it was quoted. Raises UnreadableInput, with
    the `advice`, for a file without the columns."""
    columns = dict.fromkeys(COLUMNS, advice)
    if data_suffix(path) == ".xlsx":
        yield from read_excel(path, columns)
        return
    if data_suffix(path) == ".parquet":  # as `datasets` has it: empty reviews are null, labels are numbers
        for row in read_parquet(path, columns):
            if isinstance(row, Row):
                row.cells.update({name: "" if row.cells[name] is None else str(row.cells[name]) for name in COLUMNS})
            yield row
        return
    for row in read_csv(path, "\t", quoted=False, columns=columns):
        if isinstance(row, Row):
            row.cells["document"] = unquoted(row.cells["document"])
        yield row


def unquoted(text: str) -> str:
    """`text` without up to two rounds of CSV quoting, in which it is in quotes and every quote inside is doubled."""
    for _ in range(2):
        inner = text[1:-1]
        # an unpaired quote inside is the reviewer's own, so the outer ones are, too
        if len(text) < 2 or text[0] != '"' or text[-1] != '"' or '"' in inner.replace('""', ""):
            break
        text = inner.replace('""', '"')
    return text
