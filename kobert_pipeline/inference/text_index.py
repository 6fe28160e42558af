"""A folder with texts, their vectors and their BM25 index, which `kobert index` writes once, `kobert similar` opens for
every query, and `kobert serve` keeps open: nothing is embedded, segmented or read again but what is shown."""

import json
import mmap
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import files_below, json_text, read_json, write_json
from kobert_pipeline.inference.embed import LAST, Embedder, write_embeddings
from kobert_pipeline.inference.similar import Scores, TextEmbedder, normalized
from kobert_pipeline.progress import current_display
from kobert_pipeline.questions.bm25 import Bm25

VERSION = 3
"""2: pairs of characters are terms of BM25, too. 3: the sizes of its files are recorded."""
SAME = 0.98
"""Least cosine of two vectors of one text by one model; the file of weights may be int8."""
INDEX, TEXTS, STARTS, VECTORS, BM25 = "index.json", "texts.jsonl", "starts.npy", "vectors.npy", "bm25"
"""The files and the folder of an index: `starts` are the positions of the rows of `texts.jsonl`."""


class TextIndex:
    """An index that was written by `write_index`. Raises UserError for a folder that is none, or that lacks a part of
    one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / INDEX).is_file():
            raise UserError(f"{folder} is no index: it has no {INDEX}; make one with kobert index CHECKPOINT FILE")
        self.about = read_json(folder / INDEX)
        if self.about.get("version") != VERSION:
            raise UserError(f"{folder} is an index of another version; make it again with kobert index")
        # a copy that broke off would answer, but not from all texts
        for name, size in self.about["files"].items():
            if not (folder / name).is_file() or (folder / name).stat().st_size != size:
                raise UserError(f"{folder} is not whole: {name} is missing or cut off; copy it again, or make it again")
        self.starts = np.load(folder / STARTS)
        self.unit: str = self.about["unit"]
        self.pooling: str | None = self.about["pooling"]
        """That of its vectors; None where it has none."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, index: int) -> dict[str, Any]:
        """A text (`text`) and where it was read: `line`, or of a table `row` and `id` if it has one; `file` where
        there were several."""
        start, end = self.starts[index : index + 2].tolist()
        row: dict[str, Any] = json.loads(self._rows[start:end])
        return row

    @cached_property
    def _rows(self) -> mmap.mmap:
        # mapped, and not opened for each row, since another index may take the folder's place while a server runs
        with (self.folder / TEXTS).open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    @property
    def methods(self) -> list[str]:
        """How it can be searched, the default first: words and vectors together, for vectors alone find little with a
        model that was not trained to search (docs/results/retrieval.md)."""
        return ["hybrid", self.pooling, "bm25"] if self.pooling else ["bm25"]

    def open_files(self) -> None:
        """Open all files that searches read. Raises UserError for a damaged one, or where a library is missing."""
        try:
            self.row(0)
            self._bm25.scores(["준비"])  # which also loads the analyzer
            if self.pooling:
                _ = self.vectors
        except Exception as error:
            advice = "install it" if isinstance(error, ImportError) else "copy it again, or make it again"
            raise UserError(f"{self.folder} cannot be searched: {error}; {advice}") from error

    @cached_property
    def vectors(self) -> np.ndarray:
        """The vectors, (N, d) of length 1, which stay in their file."""
        return np.load(self.folder / VECTORS, mmap_mode="r")

    def cosines(self, embedder: TextEmbedder) -> Scores:
        """The cosine of the vectors of query and text. Raises UserError for a model with other vectors."""
        # not again where a server has the vectors of queries by a model that it has compared
        if isinstance(embedder, Embedder):
            self.refuse_other_vectors(embedder)
            if self.about["truncated"]:
                current_display().say(
                    f"vectors of {self.about['truncated']:,} texts are of their first {self.about['max_length']} "
                    "tokens; what is shown of a text is the part with most words of the query, wherever it is"
                )
        return lambda queries: normalized(embedder.embed(queries)) @ self.vectors.T

    def refuse_other_vectors(self, embedder: Embedder) -> None:
        """Raise UserError where the index has no vectors, or others than the embedder makes, by the first text."""
        if not self.pooling:
            raise UserError(
                f"{self.folder} has no vectors, for it was made with --by bm25; search it by bm25, or make it again "
                "without --by bm25"
            )
        if (embedder.pooling, embedder.layers) != (self.pooling, LAST):
            raise UserError(
                f"{self.folder} has vectors of the pooling {self.pooling} and the last layer, not of "
                f"{embedder.pooling}; give --by {self.pooling} and no --layers, or make the index again"
            )
        # a query is truncated; how the texts were read is in the record of the index
        (vector,) = normalized(embedder.reading(self.about["long"]).embed([self.row(0)["text"]]))
        if vector.shape != self.vectors[0].shape or vector @ self.vectors[0] < SAME:
            raise UserError(
                f"{self.folder} was made with another checkpoint, for its vectors are others; give that one, search "
                "with --by bm25, or make the index again (to serve any checkpoint with --by bm25)"
            )

    def bm25(self) -> Scores:
        """The scores of BM25."""
        return self._bm25.scores

    @cached_property
    def _bm25(self) -> Bm25:
        return Bm25.load(self.folder / BM25, len(self))


def write_index(
    out: Path, rows: Sequence[dict[str, Any]], unit: str, embedder: Embedder | None, long: str
) -> dict[str, Any]:
    """Write the index of texts (`rows` as `TextIndex.row` gives them) to the new folder `out`, which appears only when
    it is whole; until then its vectors are in parts in `out` with `.parts` added, from which an interrupted command
    resumes. Without an embedder there are no vectors. Returns what `index.json` says of it."""
    texts = [row["text"] for row in rows]
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    # next to `out`, because a folder can be renamed only within its file system
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}-") as temporary:
        folder = Path(temporary) / out.name
        folder.mkdir()
        starts = [0]
        with (folder / TEXTS).open("wb") as file:
            for row in rows:
                starts.append(starts[-1] + file.write(json_text(row).encode() + b"\n"))
        np.save(folder / STARTS, np.array(starts, np.int64))
        Bm25(texts).save(folder / BM25)
        about: dict[str, Any] = {"version": VERSION, "texts": len(texts), "unit": unit, "pooling": None}
        if embedder:
            write_embeddings(folder / VECTORS, embedder, texts, False, len(texts), out.with_name(f"{out.name}.parts"))
            np.save(folder / VECTORS, normalized(np.load(folder / VECTORS)).astype(np.float32))
            about |= {
                "pooling": embedder.pooling, "long": long, "max_length": embedder.max_length,
                "truncated": embedder.truncated,
            }  # fmt: skip
        files = {name: (folder / name).stat().st_size for name in files_below(folder)}
        write_json(folder / INDEX, about | {"files": files})
        folder.rename(out)
    return about
