"""Pairs of texts from the corpus, which train a sentence encoder without labelled data: neighbouring paragraphs, or a
text with itself, whose two vectors only dropout makes differ (Gao et al., *SimCSE*, EMNLP 2021)."""

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.decontaminate import EvaluationTexts, remove_whitespace
from kobert_pipeline.corpus.document import Document, documents_from
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Example
from kobert_pipeline.files import digest, in_split
from kobert_pipeline.progress import report

SHORTEST = 30
"""Characters of a paragraph; shorter ones are headings and the like, and left out."""


class CorpusPairs(Options):
    """Which pairs of texts to take from the corpus, and how many."""

    kind: Literal["neighbours", "same"] = "neighbours"
    """`neighbours`: each paragraph with the next one, in documents whose order means something; `same`: each paragraph
    with itself, so that only dropout makes its two vectors differ (SimCSE)."""
    number: int = Field(100_000, gt=0)
    """Number of pairs, drawn at random before those that overlap dev or test are left out; all there are if there are
    fewer."""
    sources: tuple[str, ...] = ()
    """Names of the corpus files whose paragraphs are taken, such as [kowiki*]; none: all of the corpus."""


def run(
    options: CorpusPairs, corpus: Path, known: EvaluationTexts, dev_share: float, dev_seed: int
) -> tuple[list[Example], list[Example]]:
    """Pairs for train and for dev from the documents in the folder `corpus`, without paragraphs that overlap the texts
    `known`. `dev_share` of the documents are for dev, whose pairs are always neighbours: a text finds itself without
    any training. Raises UserError where the corpus has no pair for train."""
    found = {}
    for split, number in (("train", options.number), ("dev", max(1, round(options.number * dev_share)))):
        is_dev = split == "dev"
        kind = "neighbours" if is_dev else options.kind
        documents = (
            document
            for document in documents_from(corpus, options.sources)
            if in_split(f"{dev_seed}\n{document.id}", dev_share) == is_dev
        )
        report(f"pairing {split}")
        pairs = (pair for document in documents for pair in pairs_of(document, kind))
        # those with the smallest hashes: a random choice that needs no memory for the others
        drawn = heapq.nsmallest(number, pairs, key=lambda pair: digest(pair["id"]))
        found[split] = [pair for pair in drawn if not _overlaps(pair, known)]
    if not found["train"]:
        where = f" of {', '.join(options.sources)}" if options.sources else ""
        raise UserError(
            f"features: the corpus{where} has no pair of the kind {options.kind}; it needs paragraphs of at least "
            f"{SHORTEST} characters, for neighbours in documents whose order means something"
        )
    return found["train"], found["dev"]


def pairs_of(document: Document, kind: str) -> Iterator[Example]:
    """The pairs of a document, as examples of the task contrastive."""
    lines = [line for line in document.text.split("\n") if len(line) >= SHORTEST]
    if kind == "neighbours" and not document.ordered:
        return
    for number, (text, pair) in enumerate(zip(lines, lines if kind == "same" else lines[1:], strict=False)):
        identity = f"corpus-{document.id}#{number}"
        yield {"id": identity, "group": remove_whitespace(text), "text": text, "text_pair": pair, "negatives": []}


def _overlaps(pair: Example, known: EvaluationTexts) -> bool:
    return known.overlaps(pair["text"]) or known.overlaps(pair["text_pair"])
