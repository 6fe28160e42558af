"""The texts of a recipe's evaluation sets, and a document without what it shares with them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from kobert_pipeline.corpus.cleaning import clean
from kobert_pipeline.corpus.decontaminate import EvaluationTexts
from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.reader import Reader, without_texts
from kobert_pipeline.corpus.tags import without_tags
from kobert_pipeline.corpus.task_report import SAMPLES, TaskReport, quoted
from kobert_pipeline.errors import UserError


@lru_cache(maxsize=1)
def _evaluation_texts(options: str, data_dir: Path) -> EvaluationTexts:
    read = CorpusOptions.model_validate_json(options)
    texts = (text for reader in read.decontaminate for text in texts_of_set(reader, data_dir))
    # without tags where the corpus is, so that equal texts stay equal
    return EvaluationTexts(without_tags(clean(text, read.cleaning), read.cleaning)[0] for text in texts)


def texts_of_set(reader: Reader, data_dir: Path) -> Iterator[str]:
    """The texts of an evaluation set. Raises UserError where it has none, since nothing would be removed, and for one
    that was too long to be read, since it would stay in the corpus."""
    has_text = False
    for document in reader.read(data_dir):
        if document.dropped:
            raise UserError(
                f"corpus.decontaminate: {document.id} is longer than max_document_bytes allows; raise it for this "
                "source"
            )
        has_text = has_text or bool(document.text.strip())
        yield document.text
        if not document.ordered:
            # each line may be a review, and a short one is only matched as a whole
            yield from document.text.split("\n")
    if not has_text:
        raise UserError(without_texts(reader, "decontaminate"))


def evaluation_texts(options: CorpusOptions, data_dir: Path) -> EvaluationTexts:
    """The texts of all evaluation sets in `options`, read once per process."""
    return _evaluation_texts(options.model_dump_json(), data_dir)  # options cannot be hashed for the cache, JSON can


def remove_contamination(document: Document, evaluation: EvaluationTexts, report: TaskReport) -> Document:
    """`document` without the paragraphs that overlap evaluation texts."""
    lines = document.text.split("\n")
    # also where the order means nothing: the lines may be those of one review
    contaminated = evaluation.contaminated_lines(lines)
    if not any(contaminated):
        return document
    removed = [line for line, drop in zip(lines, contaminated, strict=True) if drop]
    report.counts["paragraphs_contaminated"] += len(removed)
    report.counts["characters_contaminated"] += sum(map(len, removed))
    report.samples += map(quoted, removed[: SAMPLES - len(report.samples)])
    return replace(document, text="\n".join(line for line, drop in zip(lines, contaminated, strict=True) if not drop))
