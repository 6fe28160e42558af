"""The noun that flows through the corpus: a `Document`, and the Parquet parts it is stored in."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kobert_pipeline.files import SURROGATES, whole


@dataclass(frozen=True, slots=True)
class Document:
    """One text. Its lines are paragraphs; `ordered` says whether their order means anything (reviews of a film: it does not)."""

    id: str
    source: str
    text: str
    ordered: bool = True


def sound(document: Document) -> Document:
    """The document without lone surrogates, so that it can be written."""
    id_, source, text = (SURROGATES.sub("", value) for value in (document.id, document.source, document.text))
    return Document(id_, source, text, document.ordered)


def write_documents(path: Path, documents: Iterable[Document]) -> None:
    """Write documents as one Parquet file (zstd)."""
    import pyarrow
    import pyarrow.parquet

    columns = list(documents)
    table = pyarrow.table(
        {
            "id": pyarrow.array([document.id for document in columns], pyarrow.string()),
            "source": pyarrow.array([document.source for document in columns], pyarrow.string()),
            "text": pyarrow.array([document.text for document in columns], pyarrow.large_string()),
            "ordered": pyarrow.array([document.ordered for document in columns], pyarrow.bool_()),
        }
    )
    with whole(path) as part:
        pyarrow.parquet.write_table(table, part, compression="zstd")


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
        columns = {name: [getattr(document, name) for document in documents] for name in ("id", "source", "reason", "text")}
        with whole(path) as part:
            pyarrow.parquet.write_table(pyarrow.table(columns), part, compression="zstd")


def document_parts(folder: Path) -> list[Path]:
    """The parts of a corpus in order."""
    return sorted(folder.glob("part-*.parquet"))
