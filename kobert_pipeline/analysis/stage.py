"""Documents -> documents with their morphemes, part by part; finished parts are kept when the stage is resumed."""

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from pydantic import Field

from kobert_pipeline.analysis.analyzed import AnalyzedDocument, write_analysis
from kobert_pipeline.analysis.analyzer import Analyzer
from kobert_pipeline.analysis.workers import FailedDocument, Workers
from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.document import Document, count_documents, document_parts, read_documents
from kobert_pipeline.corpus.executor import TASK_LOGS, Executor
from kobert_pipeline.corpus.executors.local import HERE, Local
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import counts_of_part, finish_part, finished_part, write_json
from kobert_pipeline.morphemes.morpheme import Segmentation
from kobert_pipeline.morphemes.segmenter import Segmenter
from kobert_pipeline.progress import report, track

VERSION = 4
ANALYZER_FILE = "analyzer.json"
"""The analyzer and its settings, which the tokenizer stage copies into the tokenizer."""
WRITES = ("part-*.parquet", ANALYZER_FILE, f"{TASK_LOGS}/**")
"""Patterns of every file that the stage writes to its folder."""
Segmented = tuple[Document, Segmentation | FailedDocument]
"""A document and what the analyzer made of it."""
COUNTED = ("documents", "characters", "morphemes", "eojeols", "sentences")


class AnalysisOptions(Options):
    """How to find morphemes."""

    analyzer: Analyzer = Analyzer.choose("kiwi")
    """The morpheme analyzer."""
    timeout: float = Field(300, gt=0)
    """Seconds after which the analyzer counts as hanging; the document it hangs on is left out and reported."""


def run(
    options: AnalysisOptions,
    corpus: Path,
    data_dir: Path,
    out: Path,
    num_workers: int | None = None,
    executor: Executor = HERE,
) -> dict[str, Any]:
    """Analyse the parts in `corpus` into parts of the same names in `out`, in `num_workers` processes of this machine
    (None: one per core), or part by part where another `executor` runs them. Returns counts. Raises UserError where no
    document could be analysed."""
    segmenter = options.analyzer.segmenter(data_dir)
    all_parts = document_parts(corpus)
    if not isinstance(executor, Local):
        sizes = [count_documents([path]) for path in all_parts]
        executor.run_parts(AnalysePart(segmenter, options.timeout, corpus, out), sizes, out, "analysing")
    elif todo := [path for path in all_parts if finished_part(out / path.name) is None]:
        with Workers(segmenter, executor.workers or num_workers or os.cpu_count() or 1, options.timeout) as workers:
            for path, analyzed in segmented_parts(todo, workers, count_documents(all_parts)):
                finish_part(out / path.name, write_part(out / path.name, analyzed))
    write_json(out / ANALYZER_FILE, {**vars(segmenter), "analyzer_version": segmenter.version})
    # from the marks of all parts, also of parts that an earlier run finished
    parts = [counts_of_part(out / path.name) for path in all_parts]
    counts = {key: sum(part[key] for part in parts) for key in COUNTED}
    failed = [document for part in parts for document in part["failed"]]
    if not counts["documents"]:
        raise UserError(f"analysis.analyzer: {options.analyzer.name} failed on every document; the first: {failed[0]}")
    return {**counts, "documents_failed": len(failed), "failed": failed}


@dataclass(frozen=True)
class AnalysePart:
    """Analyses one part, on a machine that has the analyzer. One worker, so that a text that crashes the analyzer does
    not end the task."""

    segmenter: Segmenter
    timeout: float
    corpus: Path
    out: Path

    def __call__(self, data: Any, rank: int, tasks: int) -> None:
        """Write the part of this number, unless it is finished."""
        path = document_parts(self.corpus)[rank]
        if finished_part(self.out / path.name) is not None:
            return
        documents = list(read_documents(path))
        with Workers(self.segmenter, 1, self.timeout) as workers:
            results = workers.segment(document.text for document in documents)
            counts = write_part(self.out / path.name, list(zip(documents, results, strict=True)))
        finish_part(self.out / path.name, counts)


def segmented_parts(parts: list[Path], workers: Workers, documents: int) -> Iterator[tuple[Path, list[Segmented]]]:
    """Each part with its documents and what the analyzer made of them, in order. `documents`: the number of documents
    in all parts of the corpus, finished parts included, for the progress."""
    # what was read and is with the workers; as much as they have ahead, never a whole corpus
    pending: deque[tuple[Path, Document]] = deque()

    def texts() -> Iterator[str]:
        report("loading the analyzer")  # until the first result: in each worker that takes seconds
        for path in parts:
            for document in read_documents(path):
                # before the yield: a result may come as soon as the last text of a task was taken
                pending.append((path, document))
                yield document.text

    # one stream over all parts, so that no worker waits at the end of a part
    finished = documents - count_documents(parts)
    segmentations = track(workers.segment(texts()), "analysing", documents, "documents", finished)
    results = ((*pending.popleft(), result) for result in segmentations)
    groups = groupby(results, key=itemgetter(0))
    path, rows = next(groups, (None, iter(())))
    for part in parts:
        if part != path:
            yield part, []  # a part without documents is written too, since later stages expect a file for each
            continue
        # a list, since `groupby` empties a group when the next one is taken
        yield part, [(document, result) for _, document, result in rows]
        path, rows = next(groups, (None, iter(())))


def write_part(target: Path, analyzed: list[Segmented]) -> dict[str, Any]:
    """Write one part; returns its counts, and the documents that were left out with the reason."""
    rows, failed = [], []
    for document, result in analyzed:
        if isinstance(result, FailedDocument):
            failed.append({"id": document.id, "reason": result.reason})
        else:
            rows.append(AnalyzedDocument(document, result))
    write_analysis(target, rows)
    return {
        "documents": len(rows),
        "characters": sum(len(row.document.text) for row in rows),
        "morphemes": sum(len(row.segmentation) for row in rows),
        "eojeols": sum(int(row.segmentation.initial.sum()) for row in rows),
        "sentences": sum(int(row.segmentation.sentences[-1]) + 1 for row in rows if len(row.segmentation)),
        "failed": failed,
    }
