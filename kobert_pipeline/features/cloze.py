"""Questions from statements by rules: a part of a sentence is the answer, and a question word takes its place (after
Lewis et al., ACL 2019, who translate such clozes into questions; here Kiwi's tags choose the question word, and Kiwi
joins the morphemes again).

    세종대왕은 1443년에 훈민정음을 창제하였다.  ->  세종대왕은 언제 훈민정음을 창제하였는가?
"""

import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

DATE = re.compile(r"\d{3,4}년(?: \d{1,2}월(?: \d{1,2}일)?)?|\d{1,2}월 \d{1,2}일|\d{1,2}세기")
NAME_PARTS = ("NNP", "SL", "NNG", "XSN", "SN")
"""Tags of what a name may consist of."""
SHORTEST_NOUN = 3
"""Characters of a common noun that can be an answer: shorter ones, such as 이후 or 경우, often name nothing."""
UNITS = ("NNB", "NNG", "NR", "SL", "SW")
"""Tags of what a number may be followed by."""
PLACE = ("에서", "에서는", "에", "에는", "으로", "로", "까지")
SUBJECT, OBJECT, OTHER = ("이", "가", "은", "는", "께서"), ("을", "를"), ("와", "과", "의", "에게")
AFTER_CONSONANT = {"가": "이", "는": "은", "를": "을", "와": "과", "로": "으로", "로는": "으로는", "로서": "으로서"}
"""The forms of particles after a consonant, as in 무엇, for those that a vowel came before."""
CLAUSE_ENDS = (
    "고",
    "며",
    "으며",
    "지만",
    "으나",
    "나",
    "는데",
    "어서",
    "아서",
    "면서",
    "으면서",
    "어",
    "아",
    "여",
    "자",
)
"""Endings after which another clause begins."""
LONGEST_TOPIC = 12
"""Morphemes of a topic that is repeated in a question about a later clause."""
LEADING = ("MAJ", "SP", "JX", "EC", "SF", "SW", "SE")
TRAILING = ("SF", "SP", "SSC", "SSO", "SE", "SW", "SS")


class Tagged(NamedTuple):
    """A morpheme of a context: its form and tag, and the characters `start` to `end` (exclusive)."""

    form: str
    tag: str
    start: int
    end: int


class Morph(NamedTuple):
    """A morpheme of a question: its form and tag, and whether a space is before it; None: as Kiwi would write it."""

    form: str
    tag: str
    space: bool | None = None


class Answer(NamedTuple):
    """Characters `start` to `end` of a context, which are the morphemes `first` to `after` (exclusive) of a sentence;
    `kind` is date, number, name or noun."""

    start: int
    end: int
    kind: str
    first: int
    after: int


def answers(context: str, sentence: Sequence[Tagged]) -> Iterator[Answer]:
    """What can be asked for in a sentence: dates, numbers with their units, and names and common nouns that a particle
    or the copula follows."""
    number = 0
    while number < len(sentence):
        found = _number_at(context, sentence, number) if sentence[number].tag == "SN" else _name_at(sentence, number)
        if found:
            yield found
        number = found.after if found else number + 1


def _number_at(context: str, sentence: Sequence[Tagged], first: int) -> Answer | None:
    """The date or the number with a unit that starts at a morpheme."""
    start = sentence[first].start
    # in the text itself, because the analyzer splits a date into numbers and units
    if date := DATE.match(context, start):
        after = first
        while after < len(sentence) and sentence[after].end <= date.end():
            after += 1
        return Answer(start, date.end(), "date", first, after)
    after = first + 1
    if after < len(sentence) and sentence[after].tag in UNITS and _touches(sentence, after):
        return Answer(start, sentence[after].end, "number", first, after + 1)
    return None


def _name_at(sentence: Sequence[Tagged], first: int) -> Answer | None:
    """The name, or the common noun with the nouns before and after it, that starts at a morpheme, if it is one that a
    question word can replace."""
    if sentence[first].tag not in ("NNP", "SL", "NNG"):
        return None
    after = first + 1
    while after < len(sentence) and sentence[after].tag in NAME_PARTS and _touches(sentence, after):
        after += 1
    if sentence[after - 1][:2] == ("적", "XSN"):  # 상대적 describes something, and is not its name
        return None
    kind = "name" if any(part.tag in ("NNP", "SL") for part in sentence[first:after]) else "noun"
    followed = sentence[after].tag if after < len(sentence) else ""
    # before a noun, a question word would ask for half of a name; one character is rarely a whole one
    start, end, shortest = sentence[first].start, sentence[after - 1].end, SHORTEST_NOUN if kind == "noun" else 2
    if (not followed.startswith("J") and followed != "VCP") or end - start < shortest:
        return None
    return Answer(start, end, kind, first, after)


def _touches(sentence: Sequence[Tagged], number: int) -> bool:
    """Whether at most a space is between a morpheme and the one before."""
    return sentence[number].start - sentence[number - 1].end <= 1


def in_place(sentence: Sequence[Tagged], answer: Answer, rng: random.Random) -> list[Morph] | None:
    """The question for an answer as its morphemes, without the question mark; None where the rules do not apply. Only
    the clause with the answer is asked about, with the topic of the sentence where it has none."""
    asked, replaced = question_word(sentence, answer, rng)
    return _with_question_ending(clause_with(asked, sentence, answer, answer.after + replaced), rng)


def clause_with(asked: list[Morph], sentence: Sequence[Tagged], answer: Answer, after: int) -> list[Morph]:
    """The clause with the answer, where `asked` takes the place of the morphemes from the answer up to `after`
    (exclusive), without brackets and without what is left of the clauses around it. Empty where the answer is in
    brackets."""
    places = _without_brackets(sentence, _clause(sentence, answer))
    found: list[Morph] = []
    for place in places if answer.first in places else []:
        if place == answer.first:
            found += asked
        elif not answer.first < place < after:
            form, tag, start, _ = sentence[place]
            # with the spaces of the text, because other spaces would give the question tokens that the text lacks
            follows = place - 1 in places and not answer.first <= place - 1 < after
            found.append(Morph(form, tag, start > sentence[place - 1].end if follows else None))
    while found and found[0].tag in LEADING:
        found.pop(0)
    while found and found[-1].tag in TRAILING:
        found.pop()
    return found


def question_word(sentence: Sequence[Tagged], answer: Answer, rng: random.Random) -> tuple[list[Morph], int]:
    """The morphemes that take the answer's place, and how many after the answer they replace, too (its particle)."""
    following = sentence[answer.after] if answer.after < len(sentence) else Tagged("", "", 0, 0)
    particle = following.form if following.tag.startswith("J") else ""
    if answer.kind == "number":
        units = [Morph(*morpheme[:2]) for morpheme in sentence[answer.first + 1 : answer.after]]
        return ([Morph("얼마", "NNG")] if units[-1].tag in ("SW", "SL") else [Morph("몇", "MM"), *units]), 0
    if answer.kind == "date":
        return [Morph("언제", "NP")], int(particle in ("에", "은", "는"))
    if answer.kind == "noun" and particle:
        # never 누구 or 어디: common nouns mostly name things
        return [Morph("무엇", "NP"), Morph(AFTER_CONSONANT.get(particle, particle), following.tag)], 1
    if particle in PLACE:
        return [Morph("어디", "NP")], 0
    if particle in SUBJECT:
        # a name does not say whether it is a person's
        return [rng.choice([Morph("누가", "NP"), Morph("무엇이", "NP"), Morph("어디가", "NP")])], 1
    if particle in OBJECT:
        return [Morph("무엇", "NP"), Morph("을", "JKO")], 1
    if particle in OTHER:
        return [Morph("누구", "NP"), Morph("와" if particle == "과" else particle, following.tag)], 1
    return [Morph("무엇", "NP")], 0


def _clause(sentence: Sequence[Tagged], answer: Answer) -> list[int]:
    """The numbers of the morphemes of the clause that holds the answer, after those of the sentence's topic where the
    clause has no subject."""
    starts = [
        number + 1
        for number, morpheme in enumerate(sentence[:-1])
        # an auxiliary verb continues the clause
        if morpheme.tag == "EC" and morpheme.form in CLAUSE_ENDS and sentence[number + 1].tag not in ("VX", "VV")
    ]
    first = max((start for start in starts if start <= answer.first), default=0)
    after = min((start for start in starts if start >= answer.after), default=len(sentence))
    clause = list(range(first, after))
    topic = next((number for number, morpheme in enumerate(sentence[:first]) if _is_topic(morpheme)), None)
    has_subject = any(sentence[number].tag == "JKS" or _is_topic(sentence[number]) for number in clause)
    if topic is None or has_subject or topic >= LONGEST_TOPIC:
        return clause
    return [*range(topic + 1), *clause]


def _is_topic(morpheme: Tagged) -> bool:
    return morpheme.tag == "JX" and morpheme.form in ("은", "는")


def _without_brackets(sentence: Sequence[Tagged], places: list[int]) -> list[int]:
    """The places without those in round brackets, which hold spellings in other scripts and years of birth."""
    depth, found = 0, []
    for place in places:
        form, tag = sentence[place][:2]
        depth += tag == "SSO" and form == "("
        if not depth:
            found.append(place)
        depth -= depth > 0 and tag == "SSC" and form == ")"
    return found


def _with_question_ending(found: list[Morph], rng: random.Random) -> list[Morph] | None:
    """The morphemes with the ending of a question. None where they end in neither a predicate nor a noun, or hold
    nothing but the question word."""
    if len(found) < 4:
        return None
    tag, before = found[-1].tag, found[-2]
    if tag in ("EF", "EC"):
        is_adjective = before.tag.startswith(("VA", "XSA", "VCN")) and before.form not in ("있", "없")
        ending = "ᆫ가" if before.tag == "VCP" or is_adjective else rng.choice(["는가", "나요", "나"])
        return [*found[:-1], Morph(ending, "EF")]
    return [*found, Morph("은", "JX")] if tag.startswith(("N", "XSN")) else None
