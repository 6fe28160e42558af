"""Training questions from the texts of the corpus, for those who have texts and no questions.

Most questions are asked about a sentence of their own context. For the others the sentence is taken out of the
context, where another sentence has the answer and some of the words, so that a model learns to match words and not to
copy (Lewis et al., ACL 2019, recommend the same against overlap).
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.document import Document, documents_from
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.candidates import Answer, Tagged, answers, tagged_sentences
from kobert_pipeline.features.cleft import cleft
from kobert_pipeline.features.cloze import Morph, in_place, topic_of
from kobert_pipeline.features.name_kinds import NameKinds
from kobert_pipeline.features.task import Example
from kobert_pipeline.progress import report, track

SHORTEST, LONGEST = 150, 1000
"""Characters of a context."""
ENOUGH = 300
"""Shorter paragraphs are joined with those after them: KorQuAD's contexts have so many characters at least, and a model
that learned from shorter ones alone hardly found the right sentence there (docs/results/questions.md)."""
SHORTEST_SENTENCE = 8
"""Morphemes of a sentence that is asked about."""
TRIES = 3
"""Answers that are tried per question of a paragraph."""
ELSEWHERE_SHARE = 0.15
"""How many questions are answered by another sentence than the one they were made of, where there is one."""
FEWEST_WORDS, MOST_MORPHEMES = 3, 40
"""A question has at least three nouns, verbs and numbers of its sentence or topic, or it could be about anything. It
has at most 40 morphemes."""
SHARED_WORDS = 2
"""Nouns and verbs, besides the answer, that a question shares with the sentence that answers it from elsewhere."""
CONTENT = ("NN", "VV", "VA", "SN", "SL")
"""Tags of words that count as shared."""
CLEFT_SHARE = 0.7
"""How many of the questions that can be asked as clefts are."""
NOUN_WEIGHT = 0.1
"""How likely a common noun is to be asked for, compared with a name, a date or a number. With 0.5 every third answer is
one, and a model that learned from 12,000 questions answered people's questions worse (docs/results/questions.md)."""
UNKNOWN_WEIGHT = 0.3
"""The same for a name of which the corpus does not say what it is, so that 누구 or 어디 would be a guess."""
MOST_READ = 30_000
"""Paragraphs that are read for what names are, which takes about two minutes; of more, a random choice."""
LEAD_CHARACTERS = 150
"""Of the beginning of a document, in which its topic is looked for."""
SEED = 1
"""Random seed of all choices."""


class Synthesis(Options):
    """How many questions to make from the corpus."""

    questions: int = Field(40_000, gt=0)
    """Number of questions; all that can be made if there are fewer."""
    per_context: int = Field(2, gt=0)
    """Largest number of questions on one paragraph."""
    sources: tuple[str, ...] = ()
    """Names of the corpus files whose paragraphs are asked about, such as [kowiki*]; none: all of the corpus."""
    rules: Literal[5] = 5
    """Version of the rules: other rules make other questions, which must not pass for the same."""


def run(options: Synthesis, corpus: Path, known: Any) -> list[Example]:
    """Questions about paragraphs of the documents in the folder `corpus`. Paragraphs that overlap the texts `known`
    (an `EvaluationTexts`) are left out. Raises UserError where no question can be made."""
    found: list[Example] = []
    suitable = list(paragraphs(options, corpus))
    compared = track(suitable, "comparing with evaluation texts", len(suitable), "paragraphs")
    contexts = [paragraph for paragraph in compared if not known.overlaps(paragraph[1])]
    nouns = nouns_of_names(contexts)
    # shuffled, because a limited number of questions must come from all of the corpus
    random.Random(SEED).shuffle(contexts)
    for number, (identity, context, lead) in enumerate(contexts):
        if len(found) >= options.questions:
            break
        if number % 500 == 0:
            report("asking", len(found), options.questions, "questions")
        found += examples_of(identity, context, options.per_context, lead, nouns)
    if not found:
        raise UserError(nothing_found(options, corpus, len(suitable), len(contexts)))
    return found[: options.questions]


def nothing_found(options: Synthesis, corpus: Path, suitable: int, compared: int) -> str:
    """Why no question was made: `suitable` paragraphs were long enough, `compared` of them overlap no evaluation
    text."""
    where = f" of {', '.join(options.sources)}" if options.sources else ""
    failed = f"features: no question can be made from the corpus{where}: "
    if compared:
        return failed + f"its {compared:,} paragraphs have no sentence that the rules can ask about; add texts"
    if suitable:
        return failed + f"its {suitable:,} paragraphs all overlap dev or test; add other texts"
    lengths = [len(" ".join(document.text.split("\n"))) for document in documents_from(corpus, options.sources)
               if document.ordered]  # fmt: skip
    if not lengths:
        return failed + "its documents are single texts in no order, such as reviews; add texts of several sentences"
    return failed + (
        f"a paragraph needs {SHORTEST} to {LONGEST:,} characters, and its {len(lengths):,} documents have "
        f"{min(lengths):,} to {max(lengths):,}; add longer ones, or several to a document (documents_by of the reader)"
    )


def paragraphs(options: Synthesis, corpus: Path) -> Iterator[tuple[str, str, str]]:
    """The identity and the text of each paragraph of suitable length, of ordered documents of the sources, and the
    beginning of its document."""
    for document in documents_from(corpus, options.sources):
        if document.ordered:
            lead = document.text[:LEAD_CHARACTERS]
            yield from ((identity, text, lead) for identity, text in paragraphs_of(document))


def paragraphs_of(document: Document) -> Iterator[tuple[str, str]]:
    """The identity and the text of each paragraph of suitable length of a document, short ones joined."""
    context, first = "", 0
    lines = [(number, line) for number, line in enumerate(document.text.split("\n")) if line]
    for number, line in [*lines, (-1, "")]:
        is_last = number < 0
        if context and (is_last or len(context) >= ENOUGH or len(context) + 1 + len(line) > LONGEST):
            if SHORTEST <= len(context) <= LONGEST:
                yield f"{document.id}#{first}", context
            context = ""
        context, first = (f"{context} {line}", first) if context else (line, number)


def nouns_of_names(contexts: list[tuple[str, str, str]]) -> dict[str, str]:
    """What the names in the paragraphs are, {name: a noun for it}."""
    kinds, leads = NameKinds(), set[str]()
    numbers = sorted(random.Random(SEED).sample(range(len(contexts)), min(MOST_READ, len(contexts))))
    for number in track(numbers, "reading names", len(numbers), "paragraphs"):
        _, context, lead = contexts[number]
        for sentence in tagged_sentences(context):
            kinds.add_mentions(context, sentence)
        # once per document, in whatever order its paragraphs come
        if lead.strip() and lead not in leads:
            kinds.add_article(lead, tagged_sentences(lead)[0])
        leads.add(lead)
    return kinds.nouns()


def examples_of(
    identity: str, context: str, count: int, lead: str = "", nouns: Mapping[str, str] = MappingProxyType({})
) -> list[Example]:
    """Up to `count` questions about a paragraph, a function of its identity and text, of the beginning `lead` of its
    document, and of `nouns` for names."""
    # a text as a seed gives the same numbers in every process, unlike its `hash`
    rng = random.Random(f"{SEED}\n{identity}")
    sentences = tagged_sentences(context)
    topic = topic_of_text(lead)
    found: list[Example] = []
    seen: set[str] = set()
    for number, answer in candidates(context, sentences, nouns, rng)[: count * TRIES]:
        text = context[answer.start : answer.end]
        asked = question(sentences[number], answer, rng, topic)
        if len(found) == count or not asked or text in seen or text in asked:
            continue
        seen.add(text)
        shown, start = context, answer.start
        if rng.random() < ELSEWHERE_SHARE and (elsewhere := other_sentence(context, sentences, number, answer)):
            shown, start = elsewhere
        found.append(
            {
                "id": f"synthetic-{identity}-{len(found)}", "group": context, "question": asked,
                "context": shown, "answers": [[text, start]],
            }
        )  # fmt: skip
    return found


@lru_cache(maxsize=10_000)
def topic_of_text(lead: str) -> Sequence[Morph]:
    """The topic of the beginning of a document, which is kept, because its paragraphs are read in a random order."""
    return topic_of(tagged_sentences(lead)[0]) if lead.strip() else []


def candidates(
    context: str, sentences: list[list[Tagged]], nouns: Mapping[str, str], rng: random.Random
) -> list[tuple[int, Answer]]:
    """What can be asked for in a paragraph, with the number of its sentence, in a random order in which an answer comes
    early by its weight."""
    found = [
        (number, answer._replace(hypernym=answer.hypernym or nouns.get(context[answer.start : answer.end], "")))
        for number, sentence in enumerate(sentences)
        if len(sentence) >= SHORTEST_SENTENCE
        for answer in answers(context, sentence)
    ]
    # a key u ** (1 / weight) (Efraimidis and Spirakis 2006)
    return sorted(found, key=lambda candidate: rng.random() ** (1 / weight_of(candidate[1])), reverse=True)


def weight_of(answer: Answer) -> float:
    """How likely an answer is to be asked for, compared with a date."""
    if answer.kind == "noun":
        return NOUN_WEIGHT
    return UNKNOWN_WEIGHT if answer.kind == "name" and not answer.hypernym else 1


def question(sentence: list[Tagged], answer: Answer, rng: random.Random, topic: Sequence[Morph] = ()) -> str:
    """The question for an answer, "" where the rules do not apply; about `topic`, the subject of the whole document,
    where the sentence names none."""
    asked = cleft(sentence, answer, rng, topic) if rng.random() < CLEFT_SHARE else None
    asked = asked or in_place(sentence, answer, rng, topic)
    own = {tagged.form for tagged in sentence} | {morph.form for morph in topic}
    words = sum(morph.tag.startswith(CONTENT) and morph.form in own for morph in asked or [])
    return joined(asked) + "?" if asked and words >= FEWEST_WORDS and len(asked) <= MOST_MORPHEMES else ""


def other_sentence(context: str, sentences: list[list[Tagged]], number: int, answer: Answer) -> tuple[str, int] | None:
    """The context without the sentence that is asked about, and where the answer is in another one that shares some
    words with it; None where there is no such sentence."""
    text = context[answer.start : answer.end]
    own = {m.form for m in sentences[number] if m.tag.startswith(CONTENT) and not answer.start <= m.start < answer.end}
    start, end = sentences[number][0].start, sentences[number][-1].end
    shown = context[:start] + context[end:].lstrip()
    for other, sentence in enumerate(sentences):
        words = {morpheme.form for morpheme in sentence if morpheme.tag.startswith(CONTENT)}
        first, after = sentence[0].start, sentence[-1].end
        place = context.find(text, first, after)
        if other != number and place >= 0 and len(own & words) >= SHARED_WORDS:
            moved = len(context) - len(shown) if place > start else 0
            return (shown, place - moved) if shown[place - moved :].startswith(text) else None
    return None


def joined(morphemes: list[Morph]) -> str:
    """The morphemes as text, joined by Kiwi."""
    from kobert_pipeline.morphemes.analyzers.kiwi import instance

    return str(instance().join([morph[:2] if morph.space is None else tuple(morph) for morph in morphemes]))
