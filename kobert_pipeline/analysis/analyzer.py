"""The contract of an analyzer, and the noun it makes: an `AnalyzedDocument`. The cutting itself lies in `morphemes/`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.files import whole
from kobert_pipeline.morphemes.analysis import Borders, borders, cut_texts
from kobert_pipeline.morphemes.morpheme import Cut, Morpheme, marked
from kobert_pipeline.options import Plugin


class Analyzer(Plugin):
    """Cuts texts into morphemes. Its file in `morphemes/` gives the borders, so that the published tokenizer has them too."""

    family: ClassVar[str] = "analyzers"

    def borders(self) -> Borders:
        """The analyzer itself. Raises ImportError where its library is missing."""
        return borders(self.name)

    def cuts(self, texts: Iterable[str], num_workers: int | None = None) -> Iterator[Cut]:
        """The cut of each text, in order."""
        return cut_texts(self.borders(), texts, num_workers)


@dataclass(frozen=True, slots=True)
class AnalyzedDocument:
    """A document and its cut."""

    document: Document
    cut: Cut

    def pieces(self) -> list[str]:
        """The morphemes as the subword model sees them."""
        text = self.document.text
        return [marked(text, morpheme) for morpheme in self.cut]


def write_analysis(path: Path, documents: Iterable[AnalyzedDocument]) -> int:
    """Write one Parquet part: the text, and per morpheme the gap before it, its length and whether a sentence begins. Returns the
    number of morphemes."""
    import pyarrow
    import pyarrow.parquet

    rows = list(documents)
    cuts = [np.array(row.cut, np.int32).reshape(-1, 3) for row in rows]
    gaps = [np.diff(cut[:, 0], prepend=0) - np.concatenate([[0], (cut[:, 1] - cut[:, 0])[:-1]]) if len(cut) else cut[:, 0] for cut in cuts]
    table = pyarrow.table(
        {
            "id": [row.document.id for row in rows],
            "source": [row.document.source for row in rows],
            "text": pyarrow.array([row.document.text for row in rows], pyarrow.large_string()),
            "ordered": [row.document.ordered for row in rows],
            "gaps": pyarrow.array(gaps, pyarrow.list_(pyarrow.int32())),
            "lengths": pyarrow.array([cut[:, 1] - cut[:, 0] for cut in cuts], pyarrow.list_(pyarrow.int32())),
            "sentence_starts": pyarrow.array([np.diff(cut[:, 2], prepend=-1) for cut in cuts], pyarrow.list_(pyarrow.int8())),
        }
    )
    with whole(path) as part:
        pyarrow.parquet.write_table(table, part, compression="zstd")
    return sum(map(len, cuts))


def read_analysis(path: Path) -> Iterator[AnalyzedDocument]:
    """The documents that `write_analysis` wrote, in order."""
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=500):
        for row in batch.to_pylist():
            lengths = np.array(row["lengths"], np.int64)
            ends = np.cumsum(np.array(row["gaps"], np.int64) + lengths)
            sentences = np.cumsum(np.array(row["sentence_starts"], np.int64)) - 1
            cut = [Morpheme(*spans) for spans in zip((ends - lengths).tolist(), ends.tolist(), sentences.tolist(), strict=True)]
            yield AnalyzedDocument(Document(row["id"], row["source"], row["text"], row["ordered"]), cut)


def analysis_parts(folder: Path) -> list[Path]:
    """The parts of an analysis in order."""
    return sorted(folder.glob("part-*.parquet"))
