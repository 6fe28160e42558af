"""Lines that many documents have, such as menus, letterheads and copyright notices: found by counting documents per
line, and dropped before anything else happens to a document.

Counting is on the text as it was read, so that cleaning, filters and near copies see documents without these lines.
Copies of a document count as one, so that an article which was printed often keeps its lines. Lines of documents
without an order are texts of their own (reviews), and may recur.
"""

from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.corpus.deduplicate import digest
from kobert_pipeline.corpus.document import Document, chunks, read_documents
from kobert_pipeline.corpus.task_report import SAMPLES, TaskReport, quoted
from kobert_pipeline.files import write_array

DIGEST = 8
"""Bytes of a line's hash: of a hundred corpora with a billion different lines, three have two lines with one hash."""
RECURRING = "recurring.npy"
PASSES = 16
"""Parts of all hashes, by their first bits, that are counted one after the other, to need a sixteenth of the memory."""


@dataclass(frozen=True)
class CountLines:
    """Hashes the documents and lines of a chunk."""

    work: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `lines/RANK.hashes.npy`, (N,) uint64, the different lines of each document, and
        `lines/RANK.documents.npy`, (D, 2) uint64, the hash of each document and its number of lines."""
        documents, hashes = [], [np.empty(0, np.uint64)]  # `concatenate` needs at least one array
        for document in read_documents(chunks(self.work)[rank]):
            if not document.dropped and document.ordered:
                hashes.append(np.unique(line_hashes([line for line in document.text.split("\n") if line.strip()])))
                documents.append((line_hash(document.text), len(hashes[-1])))
        write_array(hashes_path(self.work, rank), np.concatenate(hashes))
        write_array(documents_path(self.work, rank), np.array(documents, np.uint64).reshape(-1, 2))


@dataclass(frozen=True)
class SelectLines:
    """Lists the lines that more than `limit` different documents have."""

    limit: int
    work: Path
    chunks: int

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `lines/recurring.npy`, the sorted hashes (N,) uint64."""
        documents = [np.load(documents_path(self.work, chunk)) for chunk in range(self.chunks)]
        is_first = np.zeros(sum(map(len, documents)), bool)
        # of documents with the same text only the first counts
        is_first[np.unique(np.concatenate(documents)[:, 0], return_index=True)[1]] = True
        starts = np.cumsum([0, *map(len, documents)])
        # part by part of the range of hashes, in ascending order, so that what is joined below is sorted
        recurring = []
        for part in range(PASSES):
            hashes = [
                self.hashes_of(chunk, rows[:, 1], is_first[start : start + len(rows)], part)
                for chunk, (rows, start) in enumerate(zip(documents, starts, strict=False))
            ]
            distinct, counts = np.unique(np.concatenate(hashes), return_counts=True)
            recurring.append(distinct[counts > self.limit])
        write_array(self.work / "lines" / RECURRING, np.concatenate(recurring))

    def hashes_of(self, chunk: int, lengths: np.ndarray, chosen: np.ndarray, part: int) -> np.ndarray:
        """The hashes of a chunk's `chosen` documents, (D,) bool, with numbers of lines `lengths`, that are in a part of
        the range of hashes."""
        # mapped, since each pass reads the files of all chunks and keeps a part of them in memory
        hashes = np.load(hashes_path(self.work, chunk), mmap_mode="r")
        # (D,) bool -repeat by lengths-> (N,) bool; lines of one document are next to each other
        inside = np.repeat(chosen, lengths.astype(np.int64)) & (hashes // np.uint64(2**64 // PASSES) == part)
        return np.asarray(hashes[inside])


def hashes_path(work: Path, chunk: int) -> Path:
    """The file with the hashes of the lines of a chunk."""
    return work / "lines" / f"{chunk:06d}.hashes.npy"


def documents_path(work: Path, chunk: int) -> Path:
    """The file with the hashes of the documents of a chunk."""
    return work / "lines" / f"{chunk:06d}.documents.npy"


def line_hash(text: str) -> int:
    """A hash of the text without white space, by which lines, and documents, count as equal."""
    return int.from_bytes(digest(text, DIGEST), "big")


def line_hashes(lines: list[str]) -> np.ndarray:
    """The hash of each line, (N,) uint64."""
    return np.array([line_hash(line) for line in lines], np.uint64)


def recurring_lines(work: Path) -> np.ndarray:
    """The sorted hashes that `SelectLines` wrote, (N,) uint64."""
    hashes: np.ndarray = np.load(work / "lines" / RECURRING)
    return hashes


def remove_recurring(document: Document, recurring: np.ndarray, report: TaskReport) -> Document:
    """`document` without the lines whose hashes are in `recurring`, sorted, which are counted and, the first ones,
    quoted."""
    if document.dropped or not document.ordered or not len(recurring):
        return document
    lines = document.text.split("\n")
    hashes = line_hashes(lines)
    # a hash above all of them is inserted after the last; blank lines were not counted, so their hash is never equal
    nearest = recurring[np.minimum(np.searchsorted(recurring, hashes), len(recurring) - 1)]
    recurs = nearest == hashes
    if not recurs.any():
        return document
    removed = list(compress(lines, recurs))
    report.counts["paragraphs_dropped_recurring"] += len(removed)
    report.counts["characters_dropped_recurring"] += sum(map(len, removed))
    for line in removed:
        if len(report.recurring_samples) == SAMPLES:
            break
        if (sample := quoted(line.strip())) not in report.recurring_samples:
            report.recurring_samples.append(sample)
    return replace(document, text="\n".join(compress(lines, ~recurs)))
