"""Documents -> documents with their morphemes, part by part; finished parts are kept when the stage is resumed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from kobert_pipeline.analysis.analyzed import AnalyzedDocument, write_analysis
from kobert_pipeline.analysis.analyzer import Analyzer
from kobert_pipeline.analysis.workers import FailedDocument, Workers
from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.document import document_parts, read_documents
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import finish_part, finished_part, write_json
from kobert_pipeline.morphemes.morpheme import Segmentation
from kobert_pipeline.morphemes.segmenter import Segmenter

VERSION = 3
ANALYZER_FILE = "analyzer.json"
"""The analyzer and its settings, which the tokenizer stage copies into the tokenizer."""
WRITES = ("part-*.parquet", ANALYZER_FILE)
"""Patterns of every file that the stage writes to its folder."""
COUNTED = ("documents", "characters", "morphemes", "eojeols", "sentences")


class AnalysisOptions(Options):
    """How to find morphemes."""

    analyzer: Analyzer = Analyzer.choose("kiwi")
    """The morpheme analyzer."""
    timeout: float = Field(300, gt=0)
    """Seconds after which the analyzer counts as hanging; the document it hangs on is left out and reported."""


def run(
    options: AnalysisOptions, corpus: Path, data_dir: Path, out: Path, num_workers: int | None = None
) -> dict[str, Any]:
    """Analyse the parts in `corpus` into parts of the same names in `out`, in `num_workers` processes (None: one per
    core). Returns counts. Raises UserError where no document could be analysed."""
    segmenter = options.analyzer.segmenter(data_dir)
    if segmenter.user_words:
        check_user_words(segmenter)
    todo = [path for path in document_parts(corpus) if finished_part(out / path.name) is None]
    if todo:
        with Workers(segmenter, num_workers or os.cpu_count() or 1, options.timeout) as workers:
            # one stream over all parts, so that no worker waits at the end of a part
            segmentations = workers.segment(document.text for path in todo for document in read_documents(path))
            for path in todo:
                finish_part(out / path.name, write_part(path, out / path.name, segmentations))
    write_json(out / ANALYZER_FILE, {**vars(segmenter), "analyzer_version": segmenter.version})
    # from the marks of all parts, also those that an earlier run finished
    parts = [finished_part(out / path.name) or {} for path in document_parts(corpus)]
    counts = {key: sum(part[key] for part in parts) for key in COUNTED}
    failed = [document for part in parts for document in part["failed"]]
    if not counts["documents"]:
        raise UserError(f"analysis.analyzer: {options.analyzer.name} failed on every document; the first: {failed[0]}")
    return {**counts, "documents_failed": len(failed), "failed": failed}


def check_user_words(segmenter: Segmenter) -> None:
    """Load the analyzer with its user dictionary. Raises UserError for a word that it refuses."""
    # before the workers do, whose failure to start would not name the dictionary
    try:
        list(segmenter.segment([segmenter.user_words[0][0]], 1))
    except ValueError as error:
        raise UserError(
            f"analysis.analyzer.user_dictionary: {segmenter.analyzer} refuses a word of it ({error}); correct the file"
        ) from None


def write_part(source: Path, target: Path, segmentations: Iterator[Segmentation | FailedDocument]) -> dict[str, Any]:
    """Write one part, taking one segmentation per document; returns its counts, and the documents that were left out
    with the reason."""
    rows, failed = [], []
    for document in read_documents(source):
        result = next(segmentations)
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
