"""Training questions from the texts of the corpus, for those who have texts and no questions.

Most questions are asked about a sentence of their own context. For the others the sentence is taken out of the
context, where another sentence has the answer and some of the words, so that a model learns to match words and not to
copy (Lewis et al., ACL 2019, recommend the same against overlap).
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.decontaminate import EvaluationTexts
from kobert_pipeline.corpus.document import Document, documents_from
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.progress import report, track
from kobert_pipeline.questions import MADE
from kobert_pipeline.questions.answer_candidates import AnswerCandidate, candidates_in_sentence, tagged_sentences
from kobert_pipeline.questions.articles import is_article, lead_of
from kobert_pipeline.questions.clarity import (
    is_balanced,
    why_not_asked_about,
    why_not_asked_for,
    why_unclear,
    without_conjunction,
)
from kobert_pipeline.questions.cleft import ask_by_cleft
from kobert_pipeline.questions.cloze import Morph, ask_in_place, topic_of
from kobert_pipeline.questions.entity_types import EntityTypes
from kobert_pipeline.questions.noise import with_noise
from kobert_pipeline.questions.sentence_parts import parts_of

SHORTEST, LONGEST = 150, 1000
"""Characters of a context."""
ENOUGH = 300
"""Characters up to which a paragraph is joined with the next one: KorQuAD's contexts have so many at least, and a model
that learned from shorter contexts alone hardly found the right sentence there (docs/results/questions.md)."""
SHORTEST_SENTENCE = 8
"""Morphemes of a sentence that is asked about."""
ELSEWHERE_SHARE = 0.15
"""How many questions are answered by another sentence than the one they were made of, where there is one."""
FEWEST_WORDS, MOST_MORPHEMES = 3, 40
"""Nouns, verbs and numbers of its sentence or topic that a question has at least, or it could be about anything; and
the morphemes that it has at most."""
SHARED_WORDS = 2
"""Nouns and verbs, besides the answer, that a question shares with the sentence that answers it from elsewhere."""
CONTENT = ("NN", "VV", "VA", "SN", "SL")
"""Beginnings of the tags of words that count as shared."""
CLEFT_SHARE = 0.6
"""How many of the questions on a paragraph are clefts, where its sentences allow it: as many as of people's, while few
statements can be turned into one, so that a model would learn to find the place of a question word in a statement."""
LONG = 40
"""Characters of questions that are asked only where there are too few shorter ones: two of three that people ask are no
longer."""
NOUN_WEIGHT = 0.1
"""How likely a common noun is to be asked for, compared with a name, a date or a number. With 0.5 every third answer is
a common noun, and a model that learned from 12,000 questions answered people's questions worse
(docs/results/questions.md)."""
UNKNOWN_WEIGHT = 0.3
"""How likely a name is to be asked for where the corpus does not say what it names, so that 누구 or 어디 would be a
guess."""
MOST_READ = 30_000
"""Paragraphs that are read to learn what names are, which takes about two minutes; of more, a random choice."""
FORMS_OF_PARTICLES = (("은", "는"), ("이", "가"), ("을", "를"), ("과", "와"), ("으로", "로"))
"""After a consonant, and after a vowel."""
AFTER_CONSONANT = {form: forms[0] for forms in FORMS_OF_PARTICLES for form in forms}
SEED = 1
"""Random seed of all choices."""
Rules = Literal[14]
RULES: Rules = 14
"""Version of the rules."""


class QuestionGeneration(Options):
    """How many questions to make from the corpus."""

    questions: int = Field(40_000, gt=0)
    """Number of questions; all that can be made if there are fewer."""
    per_context: int = Field(2, gt=0)
    """Largest number of questions on one paragraph."""
    sources: tuple[str, ...] = ()
    """Names of the sources whose paragraphs are asked about, such as [kowiki*]; none: all of the corpus."""
    noise: float = Field(0, ge=0, lt=1, exclude_if=lambda value: not value)
    """How likely each word of a question is left out, except what it asks with; the parts of most questions then stand
    in another order, too. So they become more like people's, which have half of their words in the text: with 0.5 a
    RoFormer without priors gained 5 points of EM, with 0.25 a Splinter a point of F1 or nothing
    (docs/results/questions.md)."""
    rules: Rules = RULES
    """Version of the rules: other rules make other questions, which must not pass for the same."""


def generate_questions(
    options: QuestionGeneration, corpus: Path, evaluation_texts: EvaluationTexts
) -> list[dict[str, Any]]:
    """Examples of a span task about paragraphs of the documents in the folder `corpus`. Paragraphs that overlap the
    evaluation texts are left out. Raises UserError where no question can be made."""
    examples: list[dict[str, Any]] = []
    suitable = list(paragraphs(options, corpus))
    compared = track(suitable, "comparing with evaluation texts", len(suitable), "paragraphs")
    contexts = [paragraph for paragraph in compared if not evaluation_texts.overlaps(paragraph[1])]
    nouns = nouns_of_names(contexts)
    # shuffled, because a limited number of questions must come from all of the corpus
    random.Random(SEED).shuffle(contexts)
    for index, (identity, context, lead) in enumerate(contexts):
        if len(examples) >= options.questions:
            break
        # it ends with the questions or with the paragraphs, whichever are nearer to their end
        if len(examples) / options.questions > index / len(contexts):
            report("asking", len(examples), options.questions, "questions")
        else:
            report("asking", index, len(contexts), "paragraphs")
        examples += examples_of(identity, context, options.per_context, lead, nouns)
    if not examples:
        where = f" of {', '.join(options.sources)}" if options.sources else ""
        raise UserError(
            f"features: no question can be made from the corpus{where}: its documents with an order have "
            f"{len(suitable):,} paragraphs of {SHORTEST} to {LONGEST:,} characters, {len(contexts):,} of which overlap "
            "no evaluation text; add texts of several sentences"
        )
    if options.noise:
        for example in examples:
            # by its id, so that the noise in a question does not depend on how many others there are
            rng = random.Random(f"{SEED}\n{example['id']}")
            example["question"] = with_noise(example["question"], options.noise, rng)
    return examples[: options.questions]


def paragraphs(options: QuestionGeneration, corpus: Path) -> Iterator[tuple[str, str, str]]:
    """The identity and the text of each paragraph of suitable length in the ordered documents of the sources, and the
    beginning of its document."""
    for document in documents_from(corpus, options.sources):
        if document.ordered:
            lead = lead_of(document.text)
            yield from ((identity, text, lead) for identity, text in paragraphs_of(document))


def paragraphs_of(document: Document) -> Iterator[tuple[str, str]]:
    """The identity and the text of each paragraph of suitable length in a document, short ones joined, long ones cut
    between sentences."""
    context, first = "", ""
    # the number of its line, which is that of the first of its parts, too
    parts = [
        (f"{index}.{number}" if number else str(index), part)
        for index, line in enumerate(document.text.split("\n"))
        for number, part in enumerate(cut(line) if line else ())
    ]
    for place, part in [*parts, ("", "")]:
        is_end = not place
        if context and (is_end or len(context) >= ENOUGH or len(context) + 1 + len(part) > LONGEST):
            if SHORTEST <= len(context) <= LONGEST:
                yield f"{document.id}#{first}", context
            context = ""
        context, first = (f"{context} {part}", first) if context else (part, place)


def cut(line: str) -> list[str]:
    """A line, or where it is longer than a context its parts of at most as many characters, cut after sentences; a
    longer sentence stays whole."""
    if len(line) <= LONGEST:
        return [line]
    parts = [""]
    for sentence in re.split(r"(?<=[.?!]) ", line):
        if parts[-1] and len(parts[-1]) + 1 + len(sentence) > LONGEST:
            parts.append("")
        parts[-1] = f"{parts[-1]} {sentence}".lstrip()
    return parts


def nouns_of_names(contexts: list[tuple[str, str, str]]) -> dict[str, str]:
    """What the names in the paragraphs are, {name: a noun for it}."""
    entity_types, leads = EntityTypes(), set[str]()
    indices = sorted(random.Random(SEED).sample(range(len(contexts)), min(MOST_READ, len(contexts))))
    for index in track(indices, "reading names", len(indices), "paragraphs"):
        _, context, lead = contexts[index]
        for sentence in tagged_sentences(context):
            entity_types.add_mentions(context, sentence)
        # once per document, in whatever order its paragraphs come
        if lead.strip() and lead not in leads:
            entity_types.add_article(lead, tagged_sentences(lead)[0])
        leads.add(lead)
    return entity_types.nouns()


def examples_of(
    identity: str, context: str, count: int, lead: str = "", nouns: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Up to `count` questions about a paragraph, a function of its identity and text, of the beginning `lead` of its
    document, and of `nouns` for names."""
    # a text as a seed gives the same numbers in every process, unlike its `hash`
    rng = random.Random(f"{SEED}\n{identity}")
    topic, in_article = subject_of_text(lead)
    sentences = [part for sentence in tagged_sentences(context) for part in parts_of(sentence)]
    if not in_article:
        topic = []  # what another text begins with is not what all of it is about
        sentences = [sentence for sentence in sentences if not why_not_asked_about(sentence)]
    candidates = shuffled_candidates(context, sentences, nouns, rng)
    if not in_article:
        candidates = [pair for pair in candidates if not why_not_asked_for(pair[1], sentences[pair[0]])]
    examples = list[dict[str, Any]]()
    for index, candidate, question in questions_on(context, sentences, candidates, count, rng, topic, in_article):
        answer, shown, start = context[candidate.start : candidate.end], context, candidate.start
        if rng.random() < ELSEWHERE_SHARE and (without := other_sentence(context, sentences, index, candidate)):
            shown, start = without
        examples.append(
            {
                "id": f"{MADE}{identity}-{len(examples)}", "group": context, "question": question,
                "context": shown, "answers": [[answer, start]],
            }
        )  # fmt: skip
    return examples


def questions_on(
    context: str, sentences: list[list[TaggedMorpheme]], candidates: Sequence[tuple[int, AnswerCandidate]], count: int,
    rng: random.Random, topic: Sequence[Morph], in_article: bool,
) -> list[tuple[int, AnswerCandidate, str]]:  # fmt: skip
    """Up to `count` questions on a paragraph for different answers, each with the index of its sentence and its answer:
    clefts up to their share, then short questions, then all others, each in the order of the `candidates`."""
    questions, answers = list[tuple[int, AnswerCandidate, str, bool]](), set[str]()
    for index, candidate in candidates:
        answer = context[candidate.start : candidate.end]
        question, is_cleft = ask(sentences[index], candidate, rng, topic, in_article)
        if question and answer not in answers and answer not in question:
            answers.add(answer)
            questions.append((index, candidate, question, is_cleft))
    # common nouns mostly name things, of which 것은 무엇인가 says little
    clefts = [question for question in questions if question[3] and question[1].type != "noun"]
    first = clefts[: round(count * CLEFT_SHARE)]
    short = [question for question in questions if question not in clefts and len(question[2]) <= LONG]
    chosen = [*first, *short, *(question for question in questions if question not in first and question not in short)]
    return [(index, candidate, question) for index, candidate, question, _ in chosen[:count]]


@lru_cache(maxsize=10_000)
def subject_of_text(lead: str) -> tuple[Sequence[Morph], bool]:
    """The topic of the beginning of a document, and whether the document is an article about it. Cached, because the
    paragraphs of a document come in a random order."""
    if not lead.strip():
        return [], False
    return topic_of(tagged_sentences(lead)[0]), is_article(lead)


def shuffled_candidates(
    context: str, sentences: list[list[TaggedMorpheme]], nouns: Mapping[str, str], rng: random.Random
) -> list[tuple[int, AnswerCandidate]]:
    """What can be asked for in a paragraph, with the index of its sentence, in a random order that favours candidates
    of a large weight."""
    candidates = []
    for index, sentence in enumerate(sentences):
        for candidate in candidates_in_sentence(context, sentence) if len(sentence) >= SHORTEST_SENTENCE else ():
            noun = candidate.hypernym or nouns.get(context[candidate.start : candidate.end], "")
            candidates.append((index, candidate._replace(hypernym=noun)))
    # a key u ** (1 / weight) (Efraimidis and Spirakis 2006)
    return sorted(candidates, key=lambda pair: rng.random() ** (1 / weight_of(pair[1])), reverse=True)


def weight_of(candidate: AnswerCandidate) -> float:
    """How likely a candidate is to be asked for, compared with a date."""
    if candidate.type == "noun":
        return NOUN_WEIGHT
    return UNKNOWN_WEIGHT if candidate.type == "name" and not candidate.hypernym else 1


def ask(
    sentence: list[TaggedMorpheme],
    answer: AnswerCandidate,
    rng: random.Random,
    topic: Sequence[Morph] = (),
    in_article: bool = True,
) -> tuple[str, bool]:
    """The question for an answer, and whether it is a cleft; "" where the rules do not apply. It is about `topic`, the
    subject of the whole document, where the sentence names none. Outside of articles, "" as well where a reader could
    not understand it."""
    known_forms = {morpheme.form for morpheme in sentence} | {morph.form for morph in topic}
    for form in (ask_by_cleft, ask_in_place):
        question, is_cleft = form(sentence, answer, rng, topic) or [], form is ask_by_cleft
        if not in_article:
            question = without_conjunction(question)
            if question and why_unclear(question, sentence, answer, is_cleft):
                continue
        words = sum(morph.tag.startswith(CONTENT) and morph.form in known_forms for morph in question)
        if words >= FEWEST_WORDS and len(question) <= MOST_MORPHEMES and is_balanced(question):
            return f"{join(question)}?", is_cleft
    return "", False


def other_sentence(
    context: str, sentences: list[list[TaggedMorpheme]], index: int, answer: AnswerCandidate
) -> tuple[str, int] | None:
    """The context without the sentence at `index`, which is asked about, and where the answer is in another sentence
    that shares some words with it; None where there is no such sentence."""
    text = context[answer.start : answer.end]
    asked_words = {
        morpheme.form
        for morpheme in sentences[index]
        if morpheme.tag.startswith(CONTENT) and not answer.start <= morpheme.start < answer.end
    }
    start, end = sentences[index][0].start, sentences[index][-1].end
    shown = context[:start] + context[end:].lstrip()
    for other_index, sentence in enumerate(sentences):
        words = {morpheme.form for morpheme in sentence if morpheme.tag.startswith(CONTENT)}
        found_at = context.find(text, sentence[0].start, sentence[-1].end)
        if other_index != index and found_at >= 0 and len(asked_words & words) >= SHARED_WORDS:
            new_start = found_at - (len(context) - len(shown) if found_at > start else 0)
            return (shown, new_start) if shown[new_start:].startswith(text) else None
    return None


def join(morphemes: list[Morph]) -> str:
    """The morphemes as text, joined by Kiwi."""
    from kobert_pipeline.morphemes.analyzers.kiwi import instance

    fitted = with_fitting_particles(morphemes)
    return str(instance().join([morph[:2] if morph.space is None else tuple(morph) for morph in fitted]))


def with_fitting_particles(morphemes: Sequence[Morph]) -> list[Morph]:
    """The morphemes, with particles made a part of a number or an abbreviation before them whose name ends in a
    consonant, since Kiwi joins them to these as after a vowel: 3는, UN로."""
    fitted: list[Morph] = []
    for morph in morphemes:
        # MP3 is read otherwise
        is_read = len(fitted) > 0 and not (len(fitted) > 1 and fitted[-2].tag == "SL" and fitted[-1].tag == "SN")
        if (
            is_read
            and morph.tag.startswith("J")
            and morph.form in AFTER_CONSONANT
            and ends_in_consonant(fitted[-1], morph.form)
        ):
            before = fitted.pop()
            morph = Morph(before.form + AFTER_CONSONANT[morph.form], "NNG", before.space)
        fitted.append(morph)
    return fitted


def ends_in_consonant(word: Morph, particle: str) -> bool:
    """Whether a word is a number, or an abbreviation of two or three letters, whose name ends in a consonant, for a
    `particle` after it: 로 follows an l as it follows a vowel."""
    is_short = word.tag == "SL" and len(word.form) in (2, 3) and word.form.isupper()
    consonants = "036MN" if particle in ("으로", "로") else "013678LMNR"
    return (is_short or word.tag == "SN") and word.form[-1] in consonants
