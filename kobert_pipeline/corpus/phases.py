"""The steps of the phases of the corpus stage. A task reads and writes only files named by its rank, so tasks can
run on any machine, in any order, and again after a crash.

    files -> ReadChunks -> raw/ -> CleanAndFilter -> sifted/, digests/, signatures/ -> Buckets -> buckets/
    -> SelectDuplicates -> copies/ -> WriteParts -> parts

Where recurring lines are dropped, raw/ -> CountLines -> lines/ -> SelectLines -> lines/recurring.npy come before
`CleanAndFilter`.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.deduplicate import DIGEST, EXACT, NEAR, Place, digest, exact_copies, near_copies
from kobert_pipeline.corpus.document import (
    Document,
    DroppedDocument,
    chunks,
    document_ids,
    limit_size,
    read_documents,
    remove_surrogates,
    write_documents,
    write_dropped,
)
from kobert_pipeline.corpus.evaluation_texts import evaluation_texts, remove_contamination
from kobert_pipeline.corpus.filters import reason_to_drop
from kobert_pipeline.corpus.mojibake import repair
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.pii import redact
from kobert_pipeline.corpus.reader import Reader, Skipped
from kobert_pipeline.corpus.recurring_lines import recurring_lines, remove_recurring
from kobert_pipeline.corpus.tags import has_markup, has_tags, without_tags
from kobert_pipeline.corpus.task_report import TaskReport
from kobert_pipeline.files import read_json, sha256, write_array, write_json
from kobert_pipeline.tables.data_files import distinct_labels

Item = TypeVar("Item")
NO_LINES = np.empty(0, np.uint64)


@dataclass(frozen=True)
class TaskInput:
    """What one `ReadChunks` task reads: one file of a source, several small files, or all files of a source that has a
    limit. `labels` are names of files whose own names are not unique in the corpus."""

    reader: Reader
    files: list[Path]
    source: str
    labels: dict[Path, str]

    def documents(self, skipped: Skipped) -> Iterator[Document]:
        """The documents up to the reader's limit. Documents over the maximum size come marked as dropped, without text.
        Unreadable input is counted in `skipped`, or raised as a UserError, depending on the reader's `on_error`."""
        max_bytes = self.reader.max_document_bytes
        documents = self.reader.read_files(self.files, skipped, self.labels)
        # surrogates first: UTF-8 cannot encode them, so neither the size nor the Parquet file could be made
        return (limit_size(remove_surrogates(document), max_bytes) for document in documents)


def task_inputs(options: CorpusOptions, data_dir: Path) -> list[TaskInput]:
    """The inputs of the `ReadChunks` tasks, in corpus order."""
    by_reader = [(reader, reader.groups(data_dir)) for reader in options.sources]
    labels = distinct_labels((path for _, groups in by_reader for path in chain.from_iterable(groups)), data_dir)
    return [
        TaskInput(reader, group, reader.title(), {path: labels[path] for path in group if path in labels})
        for reader, groups in by_reader
        for group in group_small_files(groups, options.part_characters)
    ]


def group_small_files(groups: list[list[Path]], size: int) -> Iterator[list[Path]]:
    """Join neighbouring groups of files until each has `size` bytes, since starting a task costs more than reading a
    small file."""
    if len(groups) < 2:
        yield from groups  # a single group may be a name on the Hub, which has no file size
        return
    for chunk in chunk_by_size(groups, lambda group: sum(path.stat().st_size for path in group), size):
        yield list(chain.from_iterable(chunk))


@dataclass(frozen=True)
class ReadChunks:
    """Reads one task input and writes its documents in chunks of about `characters`. Skipped files are reported by
    their path relative to `data_dir`."""

    inputs: list[TaskInput]
    characters: int
    data_dir: Path
    work: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `raw/RANK-NUMBER.parquet` and, where something was skipped, `skipped/RANK.json`."""
        task_input, skipped = self.inputs[rank], Skipped()
        documents = task_input.documents(skipped)
        parts = chunk_by_size(documents, lambda document: len(document.text), self.characters)
        for index, part in enumerate(parts):
            # zero-padded, so that the sorted names of all chunks are in corpus order
            path = self.work / "raw" / f"{rank:06d}-{index:06d}.parquet"
            write_documents(path, part)
            report = TaskReport()
            for document in part:
                report.count_read(document)
            report.write(path.with_suffix(".json"), task_input.source)
        if skipped.counts:
            # relative paths, so that the manifest does not depend on where the data is
            listed = [sentence.replace(f"{self.data_dir}{os.sep}", "") for sentence in skipped.listed]
            report = TaskReport(skipped.counts, skipped=listed)
            report.write(self.work / "skipped" / f"{rank:06d}.json", task_input.source)


@dataclass(frozen=True)
class CleanAndFilter:
    """Cleans the documents of a chunk and drops, with a reason, every document that must not be used for training.
    Yields the kept ones to datatrove's signature step."""

    options: CorpusOptions
    data_dir: Path
    work: Path
    dropped: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> Iterator[Any]:
        """Write `sifted/RANK.parquet`, `digests/RANK.npy` and, with `keep_dropped`, the dropped documents."""
        from datatrove.data import Document as TroveDocument

        chunk = chunks(self.work)[rank]
        report, remaining, dropped = TaskReport(), [], []
        recurring = recurring_lines(self.work) if self.options.deduplicate.max_documents_per_line else NO_LINES
        for document in read_documents(chunk):
            cleaned, reason = self.process(document, recurring, report)
            if reason:
                report.counts[f"documents_dropped_{reason}"] += 1
                # what is dropped is redacted, too, because `keep_dropped` writes it to disk
                hidden = redact(document.text, self.options.cleaning.mask)
                dropped.append(DroppedDocument(document.id, document.source, reason, hidden))
            else:
                remaining.append(cleaned)
        write_documents(self.work / "sifted" / f"{rank:06d}.parquet", remaining)
        # sifted, digests and the signatures of what is returned have the same rows, by which copies are named
        digests = b"".join(digest(document.text) for document in remaining)
        write_array(self.work / "digests" / f"{rank:06d}.npy", np.frombuffer(digests, np.uint8))
        if self.options.keep_dropped:
            write_dropped(self.dropped / f"sifted-{rank:06d}.parquet", dropped)
        report.write(self.work / "sifted" / f"{rank:06d}.json", read_json(chunk.with_suffix(".json"))["source"])
        return (TroveDocument(text=document.text, id=document.id) for document in remaining)

    def process(self, document: Document, recurring: np.ndarray, report: TaskReport) -> tuple[Document, str | None]:
        """The cleaned document without the `recurring` lines, and the reason to drop it, or None."""
        if document.dropped:
            return document, document.dropped
        without_recurring = remove_recurring(document, recurring, report)
        # here as below, a text that was empty before has lost nothing: the filters drop it, with their own reason
        if document.text.strip() and not without_recurring.text.strip():
            return document, "recurring_lines"
        document = without_recurring
        # repair before cleaning, which would remove the control characters that mojibake is recognized by
        text, repaired, lost = repair(document.text)
        report.counts.update({"paragraphs_repaired": repaired, "paragraphs_dropped_mojibake": lost})
        if document.text.strip() and not text.strip():
            return document, "mojibake"
        # in gathered reviews a line is a review, which must not become two
        line_end = "\n" if document.ordered else " "
        text, removed = without_tags(clean(text, self.options.cleaning), self.options.cleaning, line_end)
        report.counts["documents_with_markup"] += has_markup(text)
        if self.options.cleaning.tags == "keep":
            report.counts["documents_with_tags"] += has_tags(text)
        else:
            report.counts["tags_removed"] += removed
        cleaned = replace(document, text=text)
        # before redaction: evaluation texts are cleaned but not redacted, so they would no longer match
        clear = remove_contamination(cleaned, evaluation_texts(self.options, self.data_dir), report)
        if cleaned.text and not clear.text:
            return cleaned, "contaminated"
        redacted = replace(clear, text=redact(clear.text, self.options.cleaning.mask, report.counts))
        return redacted, reason_to_drop(redacted, self.options.filters)


@dataclass(frozen=True)
class SelectDuplicates:
    """Lists the rows of each chunk that are copies of earlier documents."""

    options: CorpusOptions
    work: Path
    chunks: int

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `copies/CHUNK.json` for every chunk: {row: [reason, chunk, row of the document that is kept]}."""
        paths = [self.work / "digests" / f"{chunk:06d}.npy" for chunk in range(self.chunks)]
        digests = [np.load(path).reshape(-1, DIGEST) for path in paths]
        none: list[dict[int, Place]] = [{} for _ in range(self.chunks)]
        exact = exact_copies(digests) if self.options.deduplicate.exact else none
        near = near_copies(self.work / "buckets", self.chunks) if self.options.deduplicate.minhash else none
        for chunk in range(self.chunks):
            # exact copies are near copies too: the more specific reason wins, but the first of a near copy's cluster is
            # what is kept
            firsts = exact[chunk] | near[chunk]
            copies = {str(row): [EXACT if row in exact[chunk] else NEAR, *first] for row, first in firsts.items()}
            write_json(self.work / "copies" / f"{chunk:06d}.json", copies)


@dataclass(frozen=True)
class WriteParts:
    """Writes one part of the corpus: the documents of a chunk without copies."""

    options: CorpusOptions
    work: Path
    out: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write `part-RANK.parquet`, unless no document is left."""
        copies = read_json(self.work / "copies" / f"{rank:06d}.json")
        sifted = self._sifted(rank)
        report, remaining, dropped = TaskReport(), [], []
        for row_index, document in enumerate(read_documents(sifted)):
            if copy := copies.get(str(row_index)):
                reason, *first = copy
                report.counts[f"documents_dropped_{reason}"] += 1
                dropped.append((document, reason, first))
            else:
                report.count("kept", document)
                remaining.append(document)
        path = self.out / f"part-{rank:05d}.parquet"
        if remaining:
            write_documents(path, remaining)
            report.parts[path.name] = sha256(path)  # a part that is changed before the manifest is then noticed
        if self.options.keep_dropped:
            # of this call only: after --redo other documents have the same paths
            ids_of = lru_cache(maxsize=16)(document_ids)
            rows = [
                DroppedDocument(
                    document.id, document.source, reason, document.text, copy_of=ids_of(self._sifted(chunk))[row]
                )
                for document, reason, (chunk, row) in dropped
            ]
            write_dropped(self.out / "dropped" / f"copies-{rank:06d}.parquet", rows)
        report.write(self.work / "finished" / f"{rank:06d}.json", read_json(sifted.with_suffix(".json"))["source"])

    def _sifted(self, chunk: int) -> Path:
        return self.work / "sifted" / f"{chunk:06d}.parquet"


def chunk_by_size(items: Iterable[Item], size_of: Callable[[Item], int], size: int) -> Iterator[list[Item]]:
    """Chunks of neighbouring items, each closed as soon as its items have `size` in total."""
    chunk: list[Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size_of(item)
        if total >= size:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk
