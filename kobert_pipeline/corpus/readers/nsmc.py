"""The Naver sentiment movie corpus (NSMC): tab-separated `id document label`.

Documents with a double quote went through a CSV writer twice, which doubled their quotes and quoted them twice;
`unquoted` undoes that. A few documents are empty; `read_reviews` keeps them, since the official test set counts them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.open_text import LONGEST_LINE, bounded_lines, open_text, refuse_too_long
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Unfit, strict
from kobert_pipeline.errors import did_you_mean

HEADER = ("id", "document", "label")


class Review(NamedTuple):
    """One line of an NSMC file; `label` is as written in the file."""

    id: str
    document: str
    label: str


class Nsmc(Reader):
    """NSMC files, every review a document; labels are not read into the corpus."""

    name: Literal["nsmc"] = "nsmc"

    def documents(self, path: Path) -> Iterator[Document | Unfit]:
        """One per review that is not empty."""
        for review in _reviews(path, HEADER):
            if isinstance(review, Unfit):
                yield review
            elif review.document.strip():
                yield Document(f"{path.name}#{review.id}", path.name, review.document, ordered=False)


class OtherColumns(Unfit):
    """The first line of a file does not name the columns of a review."""


def read_reviews(path: Path, columns: tuple[str, str, str] = HEADER) -> Iterator[Review]:
    """The rows of a tab-separated file with these column names. Raises Unfit for a file of another form."""
    return strict(_reviews(path, columns))


def _reviews(path: Path, columns: tuple[str, str, str]) -> Iterator[Review | Unfit]:
    with open_text(path) as file:
        lines = bounded_lines(file, LONGEST_LINE)
        header = next(lines, "").rstrip("\r\n").split("\t")
        for column in columns:
            if column not in header:
                guess = did_you_mean(column, header).replace("allowed", "found")
                raise OtherColumns("columns", f"{path}: its first line, split at tabs, has no column '{column}'{guess}")
        places = [header.index(column) for column in columns]
        for number, line in enumerate(lines, 2):
            refuse_too_long(path, number, line)
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) != len(header):
                yield Unfit(
                    "columns", f"{path}, line {number}: {len(cells)} tab separated columns, {len(header)} were expected"
                )
                continue
            id_, document, label = (cells[place] for place in places)
            yield Review(id_, unquoted(document), label)


def unquoted(text: str) -> str:
    """`text` without up to two rounds of CSV quoting, in which it is in quotes and every quote inside is doubled."""
    for _ in range(2):
        inner = text[1:-1]
        # an unpaired quote inside is the reviewer's own, so the outer ones are, too
        if len(text) < 2 or text[0] != '"' or text[-1] != '"' or '"' in inner.replace('""', ""):
            break
        text = inner.replace('""', '"')
    return text
