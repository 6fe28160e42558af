"""Pairs of texts from the corpus, which train a sentence encoder without labelled data: neighbouring paragraphs,
questions that are made from paragraphs by rules, or a text with itself, whose two vectors only dropout makes differ
(Gao et al., *SimCSE*, EMNLP 2021)."""

import heapq
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.decontaminate import EvaluationTexts, remove_whitespace
from kobert_pipeline.corpus.document import Document, documents_from, in_split
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.synthesize import LEAD_CHARACTERS, examples_of, nouns_of_names, paragraphs_of
from kobert_pipeline.features.synthesize import SHORTEST as SHORTEST_ASKED
from kobert_pipeline.features.task import Example
from kobert_pipeline.files import digest
from kobert_pipeline.progress import report, track

SHORTEST = 30
"""Characters of a paragraph; shorter ones are headings and the like, and left out."""


class Candidate(NamedTuple):
    """A text and its pair, or None and the beginning `lead` of its document where a question is to be made."""

    identity: str
    text: str
    pair: str | None
    lead: str = ""


class CorpusPairs(Options):
    """Which pairs of texts to take from the corpus, and how many."""

    kind: Literal["neighbours", "questions", "same"] = "neighbours"
    """`neighbours`: each paragraph with the next one; `questions`: a question, made as by `synthesize`, with its
    paragraph, from which up to 15 % of the time the sentence that is asked about is taken out; `same`: each paragraph
    with itself, so that only dropout makes its two vectors differ (SimCSE). The first two take documents whose order
    means something."""
    number: int = Field(100_000, gt=0)
    """Number of pairs, or of paragraphs to ask about, drawn at random before those are left out that overlap dev or
    test or that no question is made of; all there are if there are fewer."""
    sources: tuple[str, ...] = ()
    """Names of the corpus files whose paragraphs are taken, such as [kowiki*]; none: all of the corpus."""
    rules: Literal[5] = 5
    """Version of the rules for questions, as in `synthesize`."""


def run(
    options: CorpusPairs, corpus: Path, known: EvaluationTexts, dev_share: float, dev_seed: int
) -> tuple[list[Example], list[Example]]:
    """Pairs for train and for dev from the documents in the folder `corpus`, without paragraphs that overlap the texts
    `known`. `dev_share` of the documents are for dev, whose pairs are neighbours where those for train are the same
    text: a text finds itself without any training. Raises UserError where the corpus has no pair for train."""
    found = {}
    for split, number in (("train", options.number), ("dev", max(1, round(options.number * dev_share)))):
        is_dev = split == "dev"
        kind = "neighbours" if is_dev and options.kind == "same" else options.kind
        documents = (
            document
            for document in documents_from(corpus, options.sources)
            if in_split(f"{dev_seed}\n{document.id}", dev_share) == is_dev
        )
        report(f"pairing {split}")
        texts = (candidate for document in documents for candidate in candidates_of(document, kind))
        # those with the smallest hashes: a random choice that needs no memory for the others
        drawn = heapq.nsmallest(number, texts, key=lambda candidate: digest(candidate.identity))
        # before a question is made: what is left of a paragraph without a sentence may overlap nothing any more
        clear = [one for one in drawn if not any(text and known.overlaps(text) for text in (one.text, one.pair))]
        asked = [(one.identity, one.text, one.lead) for one in clear if one.pair is None]
        nouns = nouns_of_names(asked) if asked else {}
        made = (example_of(one, nouns) for one in track(clear, f"pairing {split}", len(clear), "pairs"))
        found[split] = [pair for pair in made if pair]
    if not found["train"]:
        where = f" of {', '.join(options.sources)}" if options.sources else ""
        raise UserError(
            f"features: the corpus{where} has no pair of the kind {options.kind}; it needs paragraphs of at least "
            f"{SHORTEST} characters (questions: {SHORTEST_ASKED}), for neighbours and questions in documents whose "
            "order means something"
        )
    return found["train"], found["dev"]


def candidates_of(document: Document, kind: str) -> Iterator[Candidate]:
    """The pairs of a document; of the kind questions each paragraph to ask about."""
    if kind != "same" and not document.ordered:
        return
    if kind == "questions":
        lead = document.text[:LEAD_CHARACTERS]
        yield from (Candidate(f"corpus-{name}", paragraph, None, lead) for name, paragraph in paragraphs_of(document))
        return
    lines = [line for line in document.text.split("\n") if len(line) >= SHORTEST]
    pairs = zip(lines, lines if kind == "same" else lines[1:], strict=False)
    yield from (Candidate(f"corpus-{document.id}#{number}", text, pair) for number, (text, pair) in enumerate(pairs))


def example_of(candidate: Candidate, nouns: Mapping[str, str]) -> Example | None:
    """A candidate as an example of the task contrastive; None for a paragraph that no question is made of. A function
    of the candidate and of what names are: questions are made only of those that were drawn, since analysis takes a
    while."""
    identity, text, pair, lead = candidate
    if pair is None:
        if not (made := examples_of(identity, text, 1, lead, nouns)):
            return None
        text, pair = made[0]["question"], made[0]["context"]
    return {"id": identity, "group": remove_whitespace(text), "text": text, "text_pair": pair, "negatives": []}
