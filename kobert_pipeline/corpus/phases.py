"""What the tasks of the corpus stage do. A task reads and writes files named by its rank and nothing else, so tasks run
anywhere, in any order, and again after a crash.

    files -> Split -> raw/ -> Sift -> sifted/, digests/, signatures/ -> Buckets -> buckets/ -> Choose -> copies/
    -> Finish -> parts
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.decontaminate import Evaluation
from kobert_pipeline.corpus.deduplicate import EXACT, NEAR, digest, exact_copies, near_copies
from kobert_pipeline.corpus.document import (
    Document,
    DroppedDocument,
    read_documents,
    sound,
    within,
    write_documents,
    write_dropped,
)
from kobert_pipeline.corpus.filters import reason_to_drop
from kobert_pipeline.corpus.mojibake import repaired
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.pii import MASKS, redact
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Skipped
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, sha256, write_array, write_json

Item = TypeVar("Item")
TALLIES = ("raw", "skipped", "sifted", "finished")
"""Folders of counts, in the order of the phases."""
SAMPLES = 20
"""Contaminated paragraphs shown in the manifest, to be read by eye."""


@dataclass
class Tally:
    """Counts of a task, the SHA-256 of the parts it wrote, and what it skipped; stored as JSON, added up at the end."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: list[str] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def note(self, what: str, document: Document) -> None:
        """Count a document and its characters."""
        self.counts[f"documents_{what}"] += 1
        self.counts[f"characters_{what}"] += len(document.text)

    def write(self, path: Path, source: str) -> None:
        """Store beside what was counted."""
        told = {"samples": self.samples[:SAMPLES], "parts": self.parts, "skipped": self.skipped}
        write_json(path, {"source": source, "counts": dict(self.counts), **told})


@dataclass(frozen=True)
class Unit:
    """What one task of `Split` reads: a file of a source, several small ones, or all where a limit runs over them."""

    reader: Reader
    files: list[Path]
    source: str

    def documents(self, skipped: Skipped) -> Iterator[Document]:
        """The documents, up to the reader's limit, those that are too long without their text; what is not fit is
        refused or counted in `skipped`, as the reader says."""
        most = self.reader.max_document_bytes
        return (within(sound(document), most) for document in self.reader.read_files(self.files, skipped))


def units(options: CorpusOptions, data_dir: Path) -> list[Unit]:
    """The tasks of `Split`, in the corpus's order."""
    return [
        Unit(reader, group, reader.title())
        for reader in options.sources
        for group in group_small_files(reader.groups(data_dir), options.part_characters)
    ]


def group_small_files(groups: list[list[Path]], size: int) -> Iterator[list[Path]]:
    """Neighbouring files together until they have `size` bytes: a task for each of many small ones would cost more than
    its work."""
    if len(groups) < 2:
        yield from groups  # it may be no file at all, but a name on the Hub
        return
    for some in chunk_by_size(groups, lambda group: sum(path.stat().st_size for path in group), size):
        yield list(chain.from_iterable(some))


def chunks(work: Path) -> list[Path]:
    """What `Split` wrote, in the corpus's order."""
    return sorted((work / "raw").glob("*.parquet"))


@dataclass(frozen=True)
class ReadChunks:
    """Read a unit and write its documents in chunks of about `characters`. Files below `data_dir` are listed by their
    names there."""

    units: list[Unit]
    characters: int
    data_dir: Path
    work: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `raw/RANK-NUMBER.parquet` and, where something was skipped, `skipped/RANK.json`."""
        unit, skipped = self.units[rank], Skipped()
        for number, part in enumerate(
            chunk_by_size(unit.documents(skipped), lambda document: len(document.text), self.characters)
        ):
            path = self.work / "raw" / f"{rank:06d}-{number:06d}.parquet"
            write_documents(path, part)
            tally = Tally()
            for document in part:
                tally.note("read", document)
            tally.write(path.with_suffix(".json"), unit.source)
        if skipped.counts:
            listed = [sentence.replace(f"{self.data_dir}{os.sep}", "") for sentence in skipped.listed]
            Tally(skipped.counts, skipped=listed).write(self.work / "skipped" / f"{rank:06d}.json", unit.source)


@dataclass(frozen=True)
class CleanAndFilter:
    """Clean the documents of a chunk and drop, with a reason, those that are not to be learned from. Yields the others
    for signing."""

    options: CorpusOptions
    data_dir: Path
    work: Path
    dropped: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> Iterator[Any]:
        """Write `sifted/RANK.parquet`, `digests/RANK.npy` and, if wanted, dropped documents."""
        from datatrove.data import Document as TroveDocument

        chunk = chunks(self.work)[rank]
        tally, kept, dropped = Tally(), [], []
        for document in read_documents(chunk):
            cleaned, reason = self.sift(document, tally)
            if reason:
                tally.counts[f"documents_dropped_{reason}"] += 1
                hidden = redact(document.text, self.options.cleaning.mask)
                dropped.append(DroppedDocument(document.id, document.source, reason, hidden))
            else:
                kept.append(cleaned)
        write_documents(self.work / "sifted" / f"{rank:06d}.parquet", kept)
        write_array(self.work / "digests" / f"{rank:06d}.npy", np.frombuffer(b"".join(map(digest, kept)), np.uint8))
        if self.options.keep_dropped:
            write_dropped(self.dropped / f"sifted-{rank:06d}.parquet", dropped)
        tally.write(self.work / "sifted" / f"{rank:06d}.json", read_json(chunk.with_suffix(".json"))["source"])
        return (TroveDocument(text=document.text, id=document.id) for document in kept)

    def sift(self, document: Document, tally: Tally) -> tuple[Document, str | None]:
        """The clean document, and why it is dropped."""
        if document.dropped:
            return document, document.dropped
        text, mended, lost = repaired(document.text)
        tally.counts.update({"paragraphs_repaired": mended, "paragraphs_dropped_mojibake": lost})
        if document.text.strip() and not text.strip():
            return document, "mojibake"
        cleaned = replace(document, text=clean(text, self.options.cleaning))
        clear = without_contamination(cleaned, evaluation(self.options, self.data_dir), tally)
        if cleaned.text and not clear.text:
            return cleaned, "contaminated"
        kept = replace(clear, text=redact(clear.text, self.options.cleaning.mask))
        return kept, reason_to_drop(kept, self.options.filters)


@lru_cache(maxsize=1)
def _evaluation(options: str, data_dir: Path) -> Evaluation:
    read = CorpusOptions.model_validate_json(options)
    documents = (refuse_dropped(document) for reader in read.decontaminate for document in reader.read(data_dir))
    return Evaluation(clean(text, read.cleaning) for document in documents for text in texts_of(document))


def refuse_dropped(document: Document) -> Document:
    """The document. Raises UserError for one that was too long to be read: of an evaluation set nothing may be
    missing."""
    if document.dropped:
        raise UserError(
            f"corpus.decontaminate: {document.id} is longer than max_document_bytes allows; raise it for this source"
        )
    return document


def texts_of(document: Document) -> list[str]:
    """The texts that an evaluation set asks about: of gathered reviews each by itself, since a short one is only found
    as a whole."""
    return [document.text] if document.ordered else document.text.split("\n")


def evaluation(options: CorpusOptions, data_dir: Path) -> Evaluation:
    """Everything that must not be trained on; made once a process."""
    return _evaluation(options.model_dump_json(), data_dir)


def without_contamination(document: Document, held: Evaluation, tally: Tally) -> Document:
    """`document` less the paragraphs that an evaluation set holds."""
    lines = document.text.split("\n")
    clear = [line for line in lines if not held.holds(line)]
    if len(clear) == len(lines):
        return document
    tally.counts["paragraphs_contaminated"] += len(lines) - len(clear)
    tally.counts["characters_contaminated"] += sum(map(len, lines)) - sum(map(len, clear))
    kept = set(clear)
    found = [line for line in lines if line not in kept][: SAMPLES - len(tally.samples)]
    tally.samples += [redact(line, tuple(MASKS))[:100] for line in found]  # the manifest is for everyone's eyes
    return replace(document, text="\n".join(clear))


@dataclass(frozen=True)
class SelectDuplicates:
    """Say which rows of which chunk are copies of earlier ones."""

    options: CorpusOptions
    work: Path
    chunks: int

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `copies/RANK.json` for every chunk: {row: reason}."""
        digests = [
            np.load(self.work / "digests" / f"{number:06d}.npy").reshape(-1, 16) for number in range(self.chunks)
        ]
        nothing = [np.empty(0, np.int64)] * self.chunks
        exact = exact_copies(digests) if self.options.deduplicate.exact else nothing
        near = near_copies(self.work / "buckets", self.chunks) if self.options.deduplicate.minhash else nothing
        for number in range(self.chunks):
            reasons = {str(row): NEAR for row in near[number].tolist()} | {
                str(row): EXACT for row in exact[number].tolist()
            }
            write_json(self.work / "copies" / f"{number:06d}.json", reasons)


@dataclass(frozen=True)
class WriteParts:
    """Write the part of a chunk, without copies."""

    options: CorpusOptions
    work: Path
    out: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `part-RANK.parquet`, unless nothing is left."""
        copies = read_json(self.work / "copies" / f"{rank:06d}.json")
        tally, kept, dropped = Tally(), [], []
        for row, document in enumerate(read_documents(self.work / "sifted" / f"{rank:06d}.parquet")):
            if reason := copies.get(str(row)):
                tally.counts[f"documents_dropped_{reason}"] += 1
                dropped.append(DroppedDocument(document.id, document.source, reason, document.text))
            else:
                tally.note("kept", document)
                kept.append(document)
        path = self.out / f"part-{rank:05d}.parquet"
        if kept:
            write_documents(path, kept)
            tally.parts[path.name] = sha256(path)
        if self.options.keep_dropped:
            write_dropped(self.out / "dropped" / f"copies-{rank:06d}.parquet", dropped)
        tally.write(
            self.work / "finished" / f"{rank:06d}.json", read_json(self.work / "sifted" / f"{rank:06d}.json")["source"]
        )


def chunk_by_size(items: Iterable[Item], size_of: Callable[[Item], int], size: int) -> Iterator[list[Item]]:
    """Neighbouring items gathered until they have `size` together."""
    together: list[Item] = []
    total = 0
    for item in items:
        together.append(item)
        total += size_of(item)
        if total >= size:
            yield together
            together, total = [], 0
    if together:
        yield together


def tallies(work: Path) -> Iterator[dict[str, Any]]:
    """All counts that tasks wrote, in the corpus's order."""
    return (read_json(path) for path in chain.from_iterable(sorted((work / name).glob("*.json")) for name in TALLIES))
