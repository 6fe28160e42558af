"""Lines that many documents have, such as menus, letterheads and copyright notices: found by counting documents per
line, and dropped before anything else happens to a document.

Counting is on the text as it was read, so that cleaning, filters and near copies see documents without these lines.
Lines of documents without an order are texts of their own (reviews), and may recur.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.corpus.decontaminate import remove_whitespace
from kobert_pipeline.corpus.document import Document, read_documents
from kobert_pipeline.corpus.pii import MASKS, redact
from kobert_pipeline.corpus.task_report import QUOTED, SAMPLES, TaskReport
from kobert_pipeline.files import write_array

DIGEST = 8
"""Bytes of a line's hash: of a hundred corpora with a billion different lines, three have two lines with one hash."""
RECURRING = "recurring.npy"


@dataclass(frozen=True)
class CountLines:
    """Counts, for each line of a chunk, the documents that have it."""

    chunks: list[Path]
    work: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `lines/RANK.npy`: (N, 2) uint64, the hash of each different line and its number of documents."""
        found = [line_hashes(document) for document in read_documents(self.chunks[rank])]
        hashes, counts = np.unique(np.concatenate([np.empty(0, np.uint64), *found]), return_counts=True)
        write_array(self.work / "lines" / f"{rank:06d}.npy", np.stack([hashes, counts.astype(np.uint64)], 1))


@dataclass(frozen=True)
class SelectLines:
    """Lists the lines that more than `limit` documents have."""

    limit: int
    work: Path
    chunks: int

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `lines/recurring.npy`, the sorted hashes (N,) uint64."""
        paths = [self.work / "lines" / f"{number:06d}.npy" for number in range(self.chunks)]
        rows = np.concatenate([np.load(path) for path in paths])
        hashes, number = np.unique(rows[:, 0], return_inverse=True)
        counts = np.zeros(len(hashes), np.uint64)
        np.add.at(counts, number, rows[:, 1])
        write_array(self.work / "lines" / RECURRING, hashes[counts > self.limit])


def line_hashes(document: Document) -> np.ndarray:
    """The hashes (N,) uint64 of the different lines of a document; none for lines without an order."""
    if document.dropped or not document.ordered:
        return np.empty(0, np.uint64)
    return np.array(sorted({line_hash(line) for line in document.text.split("\n")} - {line_hash("")}), np.uint64)


def line_hash(line: str) -> int:
    """A hash of the line without white space, by which lines count as equal."""
    return int.from_bytes(hashlib.blake2b(remove_whitespace(line).encode(), digest_size=DIGEST).digest(), "big")


def recurring_lines(work: Path) -> frozenset[int]:
    """The hashes that `SelectLines` wrote."""
    return frozenset(np.load(work / "lines" / RECURRING).tolist())


def remove_recurring(document: Document, recurring: frozenset[int], report: TaskReport) -> Document:
    """`document` without the lines whose hashes are in `recurring`, which are counted and, the first ones, quoted."""
    if document.dropped or not document.ordered:
        return document
    lines = document.text.split("\n")
    kept = [line for line in lines if line_hash(line) not in recurring]
    if len(kept) == len(lines):
        return document
    removed = [line for line in lines if line_hash(line) in recurring]
    report.counts["paragraphs_dropped_recurring"] += len(removed)
    report.counts["characters_dropped_recurring"] += sum(map(len, removed))
    # redacted whatever the options say, like contaminated paragraphs
    quoted = dict.fromkeys(redact(line.strip(), tuple(MASKS))[:QUOTED] for line in removed)
    report.recurring_samples += [line for line in quoted if line not in report.recurring_samples]
    del report.recurring_samples[SAMPLES:]
    return replace(document, text="\n".join(kept))
