"""The noun that flows through the corpus: a `Document`, and the Parquet parts it is stored in."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kobert_pipeline.files import SURROGATES, atomic_write

TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True)
class Document:
    """One text. Its lines are paragraphs; `ordered` says whether their order means anything (reviews of a film: it does
    not)."""

    id: str
    source: str
    text: str
    ordered: bool = True
    dropped: str = ""
    """Why it was left out in reading, before all of its text was in memory; there is no text then."""


def limit_size(document: Document, most: int) -> Document:
    """The document, or of one whose text has more than `most` bytes in UTF-8 a dropped one."""
    if document.dropped or len(document.text) * 4 <= most or len(document.text.encode("utf-8", "replace")) <= most:
        return document
    return Document(document.id, document.source, "", document.ordered, TOO_LONG)


def remove_surrogates(document: Document) -> Document:
    """The document without lone surrogates, so that it can be written."""
    id_, source, text = (SURROGATES.sub("", value) for value in (document.id, document.source, document.text))
    return Document(id_, source, text, document.ordered, document.dropped)


def write_documents(path: Path, documents: Iterable[Document]) -> None:
    """Write documents as one Parquet file (zstd)."""
    import pyarrow
    import pyarrow.parquet

    rows = list(documents)
    columns = {
        "id": pyarrow.array([document.id for document in rows], pyarrow.string()),
        "source": pyarrow.array([document.source for document in rows], pyarrow.string()),
        "text": pyarrow.array([document.text for document in rows], pyarrow.large_string()),
        "ordered": pyarrow.array([document.ordered for document in rows], pyarrow.bool_()),
    }
    if any(document.dropped for document in rows):
        columns["dropped"] = pyarrow.array([document.dropped for document in rows], pyarrow.string())
    with atomic_write(path) as part:
        pyarrow.parquet.write_table(pyarrow.table(columns), part, compression="zstd")


def read_documents(path: Path) -> Iterator[Document]:
    """The documents that `write_documents` wrote, in order."""
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=1000):
        for row in batch.to_pylist():
            yield Document(**row)


@dataclass(frozen=True, slots=True)
class DroppedDocument:
    """A document that was not kept, as it was read or cleaned, and why."""

    id: str
    source: str
    reason: str
    text: str


def write_dropped(path: Path, documents: list[DroppedDocument]) -> None:
    """Write dropped documents as one Parquet file, if there are any."""
    import pyarrow
    import pyarrow.parquet

    if documents:
        columns = {
            name: [getattr(document, name) for document in documents] for name in ("id", "source", "reason", "text")
        }
        with atomic_write(path) as part:
            pyarrow.parquet.write_table(pyarrow.table(columns), part, compression="zstd")


def document_parts(folder: Path) -> list[Path]:
    """The parts of a corpus in order."""
    return sorted(folder.glob("part-*.parquet"))
