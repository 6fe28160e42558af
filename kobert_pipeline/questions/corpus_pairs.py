"""Pairs of texts from the corpus, which train a sentence encoder without labelled data: neighbouring paragraphs,
questions that are made from paragraphs by rules, or a text with itself, whose two vectors only dropout makes differ
(Gao et al., *SimCSE*, EMNLP 2021)."""

import heapq
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.decontaminate import EvaluationTexts, remove_whitespace
from kobert_pipeline.corpus.document import Document, documents_from, in_split
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import digest
from kobert_pipeline.progress import report, track
from kobert_pipeline.questions.articles import lead_of
from kobert_pipeline.questions.bm25 import Bm25, largest
from kobert_pipeline.questions.generate import RULES, Rules, examples_of, nouns_of_names, paragraphs_of
from kobert_pipeline.questions.generate import SHORTEST as SHORTEST_CONTEXT

NEGATIVES_AMONG = 100
"""How many of the paragraphs that BM25 ranks first for a question may become its negatives."""
SHORTEST = 30
"""Characters of a paragraph; shorter ones are headings and the like, and left out."""


class PairSource(NamedTuple):
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
    negatives: int = Field(0, ge=0, le=50, exclude_if=lambda value: not value)
    """With `questions`: so many paragraphs that BM25 ranks first for a question and that do not have its answer, as
    texts that do not belong to it (hard negatives). The task rerank needs some."""
    sources: tuple[str, ...] = ()
    """Names of the sources whose paragraphs are taken, such as [kowiki*]; none: all of the corpus."""
    rules: Rules = RULES
    """Version of the rules for questions, as in `synthesize`."""

    @model_validator(mode="after")
    def _asks_where_it_searches(self) -> "CorpusPairs":
        if self.negatives and self.kind != "questions":
            raise ValueError("negatives are searched for questions; set kind to questions, or leave negatives out")
        return self


def make_pairs(
    options: CorpusPairs, corpus: Path, evaluation_texts: EvaluationTexts, dev_share: float, dev_seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Pairs for train and for dev, as examples of the task contrastive, from the documents in the folder `corpus`,
    without paragraphs that overlap the evaluation texts. `dev_share` of the documents, 0 for none, are for dev, whose
    pairs are neighbours where those for train are the same text: a text finds itself without any training. Raises
    UserError where the corpus has no pair for train."""
    splits: dict[str, list[dict[str, Any]]] = {"dev": []}
    counts = {"train": options.number} | ({"dev": max(1, round(options.number * dev_share))} if dev_share else {})
    for split, count in counts.items():
        is_dev = split == "dev"
        kind = "neighbours" if is_dev and options.kind == "same" else options.kind
        documents = (
            document
            for document in documents_from(corpus, options.sources)
            if in_split(f"{dev_seed}\n{document.id}", dev_share) == is_dev
        )
        report(f"pairing {split}")
        sources = (source for document in documents for source in sources_in(document, kind))
        # those with the smallest hashes: a random choice that needs no memory for the others
        drawn = heapq.nsmallest(count, sources, key=lambda source: digest(source.identity))
        # before a question is made: what is left of a paragraph without a sentence may overlap nothing any more
        clean = [
            source
            for source in drawn
            if not any(text and evaluation_texts.overlaps(text) for text in (source.text, source.pair))
        ]
        contexts = [(source.identity, source.text, source.lead) for source in clean if source.pair is None]
        nouns = nouns_of_names(contexts) if contexts else {}
        examples = (example_of(source, nouns) for source in track(clean, f"pairing {split}", len(clean), "pairs"))
        splits[split] = with_negatives(list(filter(None, examples)), [source.text for source in clean], options)
    if not splits["train"]:
        where = f" of {', '.join(options.sources)}" if options.sources else ""
        raise UserError(
            f"features: the corpus{where} has no pair of the kind {options.kind}; it needs paragraphs of at least "
            f"{SHORTEST} characters (questions: {SHORTEST_CONTEXT}), for neighbours and questions in documents whose "
            f"order means something{', and more paragraphs than negatives' * bool(options.negatives)}"
        )
    return splits["train"], splits["dev"]


def sources_in(document: Document, kind: str) -> Iterator[PairSource]:
    """The pairs of a document; for the kind questions each paragraph to ask about."""
    if kind != "same" and not document.ordered:
        return
    if kind == "questions":
        lead = lead_of(document.text)
        yield from (PairSource(f"corpus-{name}", paragraph, None, lead) for name, paragraph in paragraphs_of(document))
        return
    lines = [line for line in document.text.split("\n") if len(line) >= SHORTEST]
    pairs = zip(lines, lines if kind == "same" else lines[1:], strict=False)
    yield from (PairSource(f"corpus-{document.id}#{index}", text, pair) for index, (text, pair) in enumerate(pairs))


def example_of(source: PairSource, nouns: Mapping[str, str]) -> dict[str, Any] | None:
    """The example of the task contrastive; None for a paragraph that no question can be made of. Questions are made
    only of the paragraphs that were drawn, because analysis takes a while."""
    identity, text, pair, lead = source
    answer = {}
    if pair is None:
        if not (questions := examples_of(identity, text, 1, lead, nouns)):
            return None
        [question] = questions
        text, pair, answer = question["question"], question["context"], {"answer": question["answers"][0][0]}
    group = remove_whitespace(text)
    return {"id": identity, "group": group, "text": text, "text_pair": pair, "negatives": [], **answer}


def with_negatives(examples: list[dict[str, Any]], paragraphs: list[str], options: CorpusPairs) -> list[dict[str, Any]]:
    """The examples without their `answer`, each with `negatives` from the paragraphs: the ones that BM25 ranks first
    for the question among those that do not have the answer. Questions with fewer such paragraphs are left out."""
    answers = [remove_whitespace(example.pop("answer", "")) for example in examples]
    if not options.negatives or not examples:
        return examples
    texts = list(dict.fromkeys(paragraphs))
    bm25, compact = Bm25(texts), [remove_whitespace(text) for text in texts]
    pairs = list(zip(examples, answers, strict=True))
    for example, answer in track(pairs, "searching negatives", len(pairs), "questions"):
        (scores,) = bm25.scores([example["text"]])
        # its own paragraph has the answer, so it is never among them; another one that has it may be right, too
        best = (texts[index] for index in largest(scores, NEGATIVES_AMONG) if answer not in compact[index])
        example["negatives"] = list(islice(best, options.negatives))
    return [example for example in examples if len(example["negatives"]) == options.negatives]
