"""The noun of the analysis: an `AnalyzedDocument`, a document and its morphemes, and the Parquet parts it is stored
in."""

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
    """A document and its cut."""

    document: Document
    segmentation: Segmentation

    def words(self) -> list[str]:
        """The morphemes as the subword model sees them."""
        return self.segmentation.words(self.document.text)


def write_analysis(path: Path, documents: Iterable[AnalyzedDocument]) -> None:
    """Write one Parquet part: the text, and per morpheme the gap before it, its length, whether a sentence begins, and
    in the styles that replace the text its spelling, null where it is the text's after all."""
    import pyarrow
    import pyarrow.parquet

    rows = list(documents)
    cuts = [row.segmentation for row in rows]
    replaced = any(cut.spellings is not None for cut in cuts)
    columns = {
        "id": [row.document.id for row in rows],
        "source": [row.document.source for row in rows],
        "text": pyarrow.array([row.document.text for row in rows], pyarrow.large_string()),
        "ordered": [row.document.ordered for row in rows],
        # a span may begin before the last one ended where spellings are replaced, so a gap can be negative
        "gaps": _lists(
            [cut.starts - np.concatenate([[0], cut.ends[:-1]])[: len(cut)] for cut in cuts], pyarrow.int32()
        ),
        "lengths": _lists([cut.ends - cut.starts for cut in cuts], pyarrow.int32()),
        "sentence_starts": _lists([np.diff(cut.sentences, prepend=-1) for cut in cuts], pyarrow.int8()),
    }
    if replaced:
        columns["spellings"] = pyarrow.array([_replaced(row) for row in rows], pyarrow.list_(pyarrow.string()))
    with atomic_write(path) as part:
        pyarrow.parquet.write_table(pyarrow.table(columns), part, compression="zstd", dictionary_pagesize_limit=2**24)


def _replaced(row: AnalyzedDocument) -> list[str | None]:
    """The spelling of each morpheme, None where it is the text's."""
    text, cut = row.document.text, row.segmentation
    spans = zip(cut.starts.tolist(), cut.ends.tolist(), cut.spellings or [], strict=True)
    return [None if text[start:end] == spelling else spelling for start, end, spelling in spans]


def _lists(arrays: list[np.ndarray], kind: Any) -> Any:
    import pyarrow

    offsets = np.cumsum([0] + [len(array) for array in arrays])
    values = np.concatenate([np.empty(0, np.int64), *arrays])
    return pyarrow.ListArray.from_arrays(pyarrow.array(offsets, pyarrow.int32()), pyarrow.array(values, kind))


def read_analysis(path: Path) -> Iterator[AnalyzedDocument]:
    """The documents that `write_analysis` wrote, in order."""
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=500):
        columns = {name: batch.column(name).to_pylist() for name in ("id", "source", "text", "ordered")}
        spellings = batch.column("spellings").to_pylist() if "spellings" in batch.schema.names else [None] * len(batch)
        arrays = (_arrays(batch.column(name)) for name in ("gaps", "lengths", "sentence_starts"))
        for row in zip(*columns.values(), *arrays, spellings, strict=True):
            document = Document(*row[:4])
            yield AnalyzedDocument(document, _cut(document.text, *row[4:]))


def read_ids(path: Path) -> list[str]:
    """The ids of the documents in a part."""
    import pyarrow.parquet

    ids: list[str] = pyarrow.parquet.read_table(path, columns=["id"]).column("id").to_pylist()
    return ids


def _arrays(column: Any) -> list[np.ndarray]:
    offsets = column.offsets.to_numpy()
    return np.split(column.values.to_numpy()[: offsets[-1]], offsets[1:-1]) if len(offsets) > 1 else []


def _cut(
    text: str, gaps: np.ndarray, lengths: np.ndarray, sentence_starts: np.ndarray, replaced: list[str | None] | None
) -> Segmentation:
    ends = np.cumsum(gaps + lengths, dtype=np.int32)
    starts = (ends - lengths).astype(np.int32)
    sentences = np.cumsum(sentence_starts, dtype=np.int32) - np.int32(1)
    spellings = None
    if replaced is not None:
        spans = zip(starts.tolist(), ends.tolist(), replaced, strict=True)
        spellings = [text[start:end] if spelling is None else spelling for start, end, spelling in spans]
    return Segmentation(starts, ends, sentences, initials(text, starts, ends), spellings)


def analysis_parts(folder: Path) -> list[Path]:
    """The parts of an analysis in order."""
    return sorted(folder.glob("part-*.parquet"))
