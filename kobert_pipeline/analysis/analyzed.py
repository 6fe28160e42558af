"""The data type of the analysis, an `AnalyzedDocument`, and the Parquet parts that store it.

A part holds no positions but their differences (the gap before a morpheme, its length), which are small numbers and
compress well; which morphemes start an eojeol is recomputed from the text.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.files import atomic_write
from kobert_pipeline.morphemes.morpheme import Segmentation
from kobert_pipeline.morphemes.segmentation import initials


@dataclass(frozen=True, slots=True)
class AnalyzedDocument:
    """A document and the segmentation of its text."""

    document: Document
    segmentation: Segmentation

    @property
    def id(self) -> str:
        """The document's id."""
        return self.document.id

    def words(self) -> list[str]:
        """The morphemes as the subword model gets them."""
        return self.segmentation.words(self.document.text)


def write_analysis(path: Path, documents: Iterable[AnalyzedDocument]) -> None:
    """Write one Parquet part atomically.

    Per document: the text, and per morpheme the gap before it, its length, and whether a sentence starts at it. In
    styles that replace the text also its spelling, null where that equals the text.
    """
    import pyarrow
    import pyarrow.parquet

    rows = list(documents)
    segmentations = [row.segmentation for row in rows]
    replaced = any(segmentation.spellings is not None for segmentation in segmentations)
    columns = {
        "id": [row.document.id for row in rows],
        "source": [row.document.source for row in rows],
        "text": pyarrow.array([row.document.text for row in rows], pyarrow.large_string()),
        "ordered": [row.document.ordered for row in rows],
        # signed, since replaced spellings may have overlapping spans and so negative gaps
        "gaps": _lists([_gaps(segmentation) for segmentation in segmentations], pyarrow.int32()),
        "lengths": _lists([segmentation.ends - segmentation.starts for segmentation in segmentations], pyarrow.int32()),
        "sentence_starts": _lists(
            [np.diff(segmentation.sentences, prepend=-1) for segmentation in segmentations], pyarrow.int8()
        ),
    }
    if replaced:
        columns["spellings"] = pyarrow.array([_replaced(row) for row in rows], pyarrow.list_(pyarrow.string()))
    # a dictionary page beyond the default limit of 1 MiB would make Parquet fall back to plain encoding
    with atomic_write(path) as part:
        pyarrow.parquet.write_table(pyarrow.table(columns), part, compression="zstd", dictionary_pagesize_limit=2**24)


def _gaps(segmentation: Segmentation) -> np.ndarray:
    """Characters between each morpheme and the end of the one before it, (N,)."""
    # cut to (N,), since without morphemes the 0 would be one element too many
    previous_ends = np.concatenate([[0], segmentation.ends[:-1]])[: len(segmentation)]
    return segmentation.starts - previous_ends


def _replaced(row: AnalyzedDocument) -> list[str | None]:
    """The spelling of each morpheme, None where it is the text's."""
    text, segmentation = row.document.text, row.segmentation
    spans = zip(segmentation.starts.tolist(), segmentation.ends.tolist(), segmentation.spellings or [], strict=True)
    return [None if text[start:end] == spelling else spelling for start, end, spelling in spans]


def _lists(arrays: list[np.ndarray], kind: Any) -> Any:
    """A Parquet column with one list per array."""
    import pyarrow

    offsets = np.cumsum([0] + [len(array) for array in arrays])
    values = np.concatenate([np.empty(0, np.int64), *arrays])
    return pyarrow.ListArray.from_arrays(pyarrow.array(offsets, pyarrow.int32()), pyarrow.array(values, kind))


def read_analysis(path: Path) -> Iterator[AnalyzedDocument]:
    """The documents that `write_analysis` wrote, in order."""
    import pyarrow.parquet

    # in batches, so that memory stays small whatever the size of a part
    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=500):
        columns = {name: batch.column(name).to_pylist() for name in ("id", "source", "text", "ordered")}
        spellings = batch.column("spellings").to_pylist() if "spellings" in batch.schema.names else [None] * len(batch)
        arrays = (_arrays(batch.column(name)) for name in ("gaps", "lengths", "sentence_starts"))
        for row in zip(*columns.values(), *arrays, spellings, strict=True):
            document = Document(*row[:4])
            yield AnalyzedDocument(document, _segmentation(document.text, *row[4:]))


def read_texts(path: Path) -> Iterator[str]:
    """The texts of the documents in a part, in order, without their segmentation."""
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=500, columns=["text"]):
        yield from batch.column("text").to_pylist()


def _arrays(column: Any) -> list[np.ndarray]:
    """The lists of a Parquet column as arrays, without a Python object per number."""
    offsets = column.offsets.to_numpy()
    # batches that are read from a file have offsets from 0 on; a slice would not
    return np.split(column.values.to_numpy()[: offsets[-1]], offsets[1:-1]) if len(offsets) > 1 else []


def _segmentation(
    text: str, gaps: np.ndarray, lengths: np.ndarray, sentence_starts: np.ndarray, replaced: list[str | None] | None
) -> Segmentation:
    # a gap counts from the end before it, so an end is the sum of all gaps and lengths up to it: (N,)
    ends = np.cumsum(gaps + lengths, dtype=np.int32)
    starts = (ends - lengths).astype(np.int32)
    sentences = np.cumsum(sentence_starts, dtype=np.int32) - np.int32(1)
    spellings = None
    if replaced is not None:
        spans = zip(starts.tolist(), ends.tolist(), replaced, strict=True)
        spellings = [text[start:end] if spelling is None else spelling for start, end, spelling in spans]
    return Segmentation(starts, ends, sentences, initials(text, starts, ends), spellings)
