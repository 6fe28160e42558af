"""Documents -> documents with their morphemes, part by part; a part that is whole is not done again."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from kobert_pipeline.analysis.analyzed import AnalyzedDocument, write_analysis
from kobert_pipeline.analysis.analyzer import Analyzer
from kobert_pipeline.analysis.workers import Failed, Workers
from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.document import document_parts, read_documents
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import finish_part, finished_part, write_json
from kobert_pipeline.morphemes.morpheme import Segmentation
from kobert_pipeline.morphemes.segmenter import Segmenter

VERSION = 3
ANALYZER_FILE = "analyzer.json"
"""What the cuts were made with; the tokenizer takes it over."""
WRITES = ("part-*.parquet", ANALYZER_FILE)
"""Patterns of every file that the stage writes to its folder."""
COUNTED = ("documents", "characters", "morphemes", "eojeols", "sentences")


class AnalysisOptions(Options):
    """How to cut."""

    analyzer: Analyzer = Analyzer.choose("kiwi")
    """The morpheme analyzer."""
    timeout: float = Field(300, gt=0)
    """Seconds after which the analyzer is taken to hang; the document it hangs on is left out and named."""


def run(
    options: AnalysisOptions, corpus: Path, data_dir: Path, out: Path, num_workers: int | None = None
) -> dict[str, Any]:
    """Analyse the parts in `corpus` into parts of the same names in `out`, in `num_workers` processes (None: one per
    core)."""
    cutter = options.analyzer.segmenter(data_dir)
    if cutter.user_words:
        try_words(cutter)
    todo = [path for path in document_parts(corpus) if finished_part(out / path.name) is None]
    if todo:
        with Workers(cutter, num_workers or os.cpu_count() or 1, options.timeout) as workers:
            cuts = workers.segment(document.text for path in todo for document in read_documents(path))
            for path in todo:
                finish_part(out / path.name, write_part(path, out / path.name, cuts))
    write_json(out / ANALYZER_FILE, {**vars(cutter), "analyzer_version": cutter.version})
    parts = [finished_part(out / path.name) or {} for path in document_parts(corpus)]
    counts = {key: sum(part[key] for part in parts) for key in COUNTED}
    failed = [one for part in parts for one in part["failed"]]
    if not counts["documents"]:
        raise UserError(f"analysis.analyzer: {options.analyzer.name} failed on every document; the first: {failed[0]}")
    return {**counts, "documents_failed": len(failed), "failed": failed}


def try_words(cutter: Segmenter) -> None:
    """Load the analyzer once with its user dictionary, before processes do. Raises UserError for a word that it
    refuses."""
    try:
        list(cutter.segment([cutter.user_words[0][0]], 1))
    except ValueError as error:
        raise UserError(
            f"analysis.analyzer.user_dictionary: {cutter.analyzer} refuses a word of it ({error})"
        ) from None


def write_part(source: Path, target: Path, cuts: Iterator[Segmentation | Failed]) -> dict[str, Any]:
    """Write one part with the next cuts; returns its counts, and the documents that were left out, with the reason."""
    rows, failed = [], []
    for document in read_documents(source):
        cut = next(cuts)
        if isinstance(cut, Failed):
            failed.append({"id": document.id, "reason": cut.reason})
        else:
            rows.append(AnalyzedDocument(document, cut))
    write_analysis(target, rows)
    return {
        "documents": len(rows),
        "characters": sum(len(row.document.text) for row in rows),
        "morphemes": sum(len(row.segmentation) for row in rows),
        "eojeols": sum(int(row.segmentation.initial.sum()) for row in rows),
        "sentences": sum(int(row.segmentation.sentences[-1]) + 1 for row in rows if len(row.segmentation)),
        "failed": failed,
    }
