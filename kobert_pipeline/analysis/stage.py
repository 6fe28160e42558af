"""Documents -> documents with their morphemes, part by part; a part that is whole is not done again."""

from pathlib import Path
from typing import Any

from kobert_pipeline.analysis.analyzer import AnalyzedDocument, Analyzer, write_analysis
from kobert_pipeline.analysis.analyzers.kiwi import Kiwi
from kobert_pipeline.corpus.document import document_parts, read_documents
from kobert_pipeline.files import finish_part, finished_part
from kobert_pipeline.options import Options

VERSION = 1


class AnalysisOptions(Options):
    """How to cut."""

    analyzer: Analyzer = Kiwi()
    """The morpheme analyzer."""


def run(options: AnalysisOptions, corpus: Path, out: Path, num_workers: int | None = None) -> dict[str, Any]:
    """Analyse the parts in `corpus` into parts of the same names in `out`."""
    total = {"documents": 0, "characters": 0, "morphemes": 0, "eojeols": 0, "sentences": 0}
    for path in document_parts(corpus):
        counts = finished_part(out / path.name)
        if counts is None:
            counts = analyse_part(options.analyzer, path, out / path.name, num_workers)
            finish_part(out / path.name, counts)
        total = {key: total[key] + counts[key] for key in total}
    return total


def analyse_part(analyzer: Analyzer, source: Path, target: Path, num_workers: int | None) -> dict[str, int]:
    """One part; returns its counts."""
    documents = list(read_documents(source))
    cuts = analyzer.cuts((document.text for document in documents), num_workers)
    analyzed = [AnalyzedDocument(document, cut) for document, cut in zip(documents, cuts, strict=True)]
    return {
        "documents": len(documents),
        "characters": sum(len(document.text) for document in documents),
        "morphemes": write_analysis(target, analyzed),
        "eojeols": sum(len(document.text.split()) for document in documents),
        "sentences": sum(row.cut[-1].sentence + 1 for row in analyzed if row.cut),
    }
