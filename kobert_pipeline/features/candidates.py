"""What can be asked for in a sentence: dates, numbers with their units, and names and common nouns, found by Kiwi's
tags."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kobert_pipeline.features.hypernyms import NO_HYPERNYMS, kind_of

DATE = re.compile(r"\d{3,4}년(?!대)(?: \d{1,2}월(?: \d{1,2}일)?)?|\d{1,2}월 \d{1,2}일|\d{1,2}세기")
NAME_PARTS = ("NNP", "SL", "NNG", "XSN", "SN")
"""Tags of what a name may consist of."""
SHORTEST_NOUN = 3
"""Characters of a common noun that can be an answer: shorter ones, such as 이후 or 경우, often name nothing."""
UNITS = ("NNB", "NNG", "NR", "SL", "SW")
"""Tags of what a number may be followed by."""


class Tagged(NamedTuple):
    """A morpheme of a context: its form and tag, and the characters `start` to `end` (exclusive)."""

    form: str
    tag: str
    start: int
    end: int


class Answer(NamedTuple):
    """Characters `start` to `end` of a context. A question word takes the place of the morphemes `first` to `after`
    (exclusive) of a sentence, which may begin before `start`: of 소설가 김동인, 김동인 is the answer. `kind` is date,
    number, name or noun; `hypernym` a noun for what the answer is, such as 소설가, "" where none is known."""

    start: int
    end: int
    kind: str
    first: int
    after: int
    hypernym: str = ""


def answers(context: str, sentence: Sequence[Tagged]) -> Iterator[Answer]:
    """What can be asked for in a sentence: dates, numbers with their units, and names and common nouns that a particle
    or the copula follows."""
    number = 0
    while number < len(sentence):
        found = _number_at(context, sentence, number) if sentence[number].tag == "SN" else _name_at(sentence, number)
        # an answer that begins inside a word, such as 구약 in 신구약, would be half of one
        if found and (found.start == 0 or not context[found.start - 1].isalnum()):
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
    followed = sentence[after].tag if after < len(sentence) else ""
    if not followed.startswith("J") and followed != "VCP":  # before a noun, it would be half of a name
        return None
    if any(part.tag in ("NNP", "SL") for part in sentence[first:after]):
        answer = _name_in(sentence, first, after)
    else:
        answer = Answer(sentence[first].start, sentence[after - 1].end, "noun", first, after)
    # one character is rarely a whole name
    return answer if answer.end - answer.start >= (SHORTEST_NOUN if answer.kind == "noun" else 2) else None


def _name_in(sentence: Sequence[Tagged], first: int, after: int) -> Answer:
    """The name among the morphemes `first` to `after` (exclusive), without the common nouns that say what it is."""
    names = [number for number in range(first, after) if sentence[number].tag in ("NNP", "SL")]
    last, end = sentence[after - 1], after
    hypernym = last.form if last.tag == "NNG" else ""
    # 심준보 판사: his office is no part of the name, but it is one of 세종대왕
    if kind_of(hypernym) == "person" and last.start > sentence[after - 2].end:
        end = names[-1] + 1
    replaced, before = first, sentence[names[0] - 1]
    if names[0] > first and before.tag == "NNG":
        if before.form in NO_HYPERNYMS:
            replaced = names[0]
        else:
            hypernym = before.form
        first = names[0]
    return Answer(sentence[first].start, sentence[end - 1].end, "name", replaced, after, hypernym)


def _touches(sentence: Sequence[Tagged], number: int) -> bool:
    """Whether at most a space is between a morpheme and the one before."""
    return sentence[number].start - sentence[number - 1].end <= 1
