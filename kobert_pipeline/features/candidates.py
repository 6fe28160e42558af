"""What can be asked for in a sentence: dates, numbers with their units, titles in quotes, and names and common nouns,
found by Kiwi's tags."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from kobert_pipeline.features.hypernyms import NO_HYPERNYMS, kind_of

DATE = re.compile(r"\d{3,4}년(?![대도])(?: ?\d{1,2}월(?: ?\d{1,2}일)?)?|\d{1,2}월 ?\d{1,2}일|\d{1,2}세기")
"""Neither 1980년대 (a decade) nor 1980년도, where 년도 is the unit that a question repeats."""
YEAR = re.compile(r"\d{3,4}년")
NAME_PARTS = ("NNP", "SL", "NNG", "XSN", "SN")
"""Tags of what a name may consist of."""
SHORTEST_NOUN = 3
"""Characters of a common noun that can be an answer: shorter ones, such as 이후 or 경우, often name nothing."""
UNITS = ("NNB", "NNG", "SL", "SW")
"""Tags of what a number may count or measure."""
MOST_TITLE_MORPHEMES = 10
"""Morphemes between quotes: more are not a title but what somebody said."""

MOST_NAME_MORPHEMES = 30
"""Morphemes of a name with the nouns around it."""
ORDINALS = ("호", "호선", "호기", "편", "부", "차", "대", "기", "회", "번", "권", "장", "집", "단계", "세대")
"""Units of numbers that are part of a name."""
MOST_IN_BRACKETS = 100
"""Morphemes of another spelling in brackets."""


class Tagged(NamedTuple):
    """A morpheme of a context: its form and tag, and the characters `start` to `end` (exclusive)."""

    form: str
    tag: str
    start: int
    end: int


class Answer(NamedTuple):
    """Characters `start` to `end` of a context. A question word takes the place of the morphemes `first` to `after`
    (exclusive) of a sentence, which may be more than the answer: of 소설가 김동인(金東仁), 김동인 is it. `kind` is
    date, year, number, title, name or noun; `hypernym` a noun for what the answer is, such as 소설가, "" where none is
    known."""

    start: int
    end: int
    kind: str
    first: int
    after: int
    hypernym: str = ""


@lru_cache(maxsize=16)
def tagged_sentences(text: str) -> list[list[Tagged]]:
    """The morphemes of each sentence with Kiwi's tags. Kept for a moment, because several things are read from them."""
    from kobert_pipeline.morphemes.analyzers.kiwi import instance

    tokens = instance().tokenize(text)
    return [
        [Tagged(token.form, token.tag, token.start, token.end) for token in of_sentence]
        for _, of_sentence in groupby(tokens, key=lambda token: token.sent_position)
    ]


def brackets(sentence: Sequence[Tagged]) -> Iterator[tuple[int, int]]:
    """The places of round brackets, from the opening one to after the one that closes it, or to the end of the sentence
    where none does. Those in other brackets are part of these."""
    depth, first = 0, 0
    for number, morpheme in enumerate(sentence):
        if morpheme.form == "(":
            depth, first = depth + 1, first if depth else number
        elif morpheme.form == ")" and depth:
            depth -= 1
            if not depth:
                yield first, number + 1
    if depth:
        yield first, len(sentence)


def answers(context: str, sentence: Sequence[Tagged]) -> Iterator[Answer]:
    """What can be asked for in a sentence: dates, and the years in them, numbers with their units, and titles, names
    and common nouns that a particle or the copula follows."""
    number = 0
    while number < len(sentence):
        if sentence[number].tag == "SN":
            found = _number_at(context, sentence, number)
        else:
            found = (_title_at if sentence[number].tag == "SSO" else _name_at)(sentence, number)
        # an answer that begins inside a word, such as 구약 in 신구약, would be half of one
        if found and (found.start == 0 or not context[found.start - 1].isalnum()):
            yield found
            if found.kind == "date" and (year := YEAR.match(context, found.start)):
                yield found._replace(end=year.end(), kind="year")
        number = found.after if found else number + 1


def _number_at(context: str, sentence: Sequence[Tagged], first: int) -> Answer | None:
    """The date or the number with a unit that starts at a morpheme."""
    start = sentence[first].start
    # in the text itself, because the analyzer splits a date into numbers and units
    if date := DATE.match(context, start):
        after = first
        while after < len(sentence) and sentence[after].end <= date.end():
            after += 1
        return Answer(start, date.end(), "year" if YEAR.fullmatch(date.group()) else "date", first, after)
    after = first + 1
    while after < len(sentence) and _touches(sentence, after) and is_numeral(sentence, after):
        if DATE.match(context, sentence[after].start):  # 30만 2010년
            break
        after += 1
    if after < len(sentence) and sentence[after].tag in UNITS and _touches(sentence, after):
        after += 1
        if after < len(sentence) and sentence[after].form == "째" and _touches(sentence, after):
            after += 1
    return Answer(start, sentence[after - 1].end, "number", first, after) if after > first + 1 else None


def is_numeral(sentence: Sequence[Tagged], number: int) -> bool:
    """Whether a morpheme after a number belongs to it and is no unit: 억, 5000 and 만 of 3억 5000만, and 여 of 20여."""
    form, tag = sentence[number][:2]
    return tag == "NR" or (form, tag) == ("여", "XSN") or (tag == "SN" and sentence[number - 1].tag == "NR")


def _title_at(sentence: Sequence[Tagged], first: int) -> Answer | None:
    """What is between quotes that start at a morpheme, such as 무한도전 in <무한도전>, if a question word can replace
    it."""
    after = min(first + MOST_TITLE_MORPHEMES + 2, len(sentence))
    last = next((place for place in range(first + 1, after) if sentence[place].tag in ("SSC", "SSO")), first)
    inside = sentence[first + 1 : last]
    is_said = any(morpheme.tag in ("EF", "SF") for morpheme in inside)
    if sentence[first].form == "(" or not inside or is_said or sentence[last].tag == "SSO":
        return None
    start, end, after = inside[0].start, inside[-1].end, after_brackets(sentence, last + 1)
    if not _can_be_replaced(sentence, after) or end - start < 2:
        return None
    before = sentence[first - 1] if first and _touches(sentence, first) else None
    if before and before.tag == "NNG" and before.form not in NO_HYPERNYMS:
        first -= 1
        # 어느 앨범 takes the place of all of 정규 앨범 《…》
        while first and sentence[first - 1].tag in ("NNG", "NNP", "XPN") and _touches(sentence, first):
            first -= 1
        return Answer(start, end, "title", first, after, before.form)
    return Answer(start, end, "title", first, after)


def _name_at(sentence: Sequence[Tagged], first: int) -> Answer | None:
    """The name, or the common noun with the nouns before and after it, that starts at a morpheme, if it is one that a
    question word can replace."""
    if sentence[first].tag not in ("NNP", "SL", "NNG"):
        return None
    after = first + 1
    # a limit, because each noun of a list without particles would be tried with all that follow it
    longest = min(len(sentence), first + MOST_NAME_MORPHEMES)
    while after < longest and sentence[after].tag in NAME_PARTS and _touches(sentence, after):
        if _is_measured(sentence, after):
            return None
        after += 1
    if sentence[after - 1][:2] == ("적", "XSN"):  # 상대적 describes something, and is not its name
        return None
    end = after_brackets(sentence, after)
    if not _can_be_replaced(sentence, end):
        return None
    if any(part.tag in ("NNP", "SL") for part in sentence[first:after]):
        answer = _name_in(sentence, first, after)
    else:
        answer = Answer(sentence[first].start, sentence[after - 1].end, "noun", first, after)
    # one character is rarely a whole name
    is_long = answer.end - answer.start >= (SHORTEST_NOUN if answer.kind == "noun" else 2)
    return answer._replace(after=end) if is_long else None


def _is_measured(sentence: Sequence[Tagged], number: int) -> bool:
    """Whether a number with a unit is at a morpheme, and a common noun before it says what is measured: 시속 100km, but
    not 지하철 2호선, which is a name."""
    measured, unit = sentence[number - 1].tag == "NNG", number + 1
    if sentence[number].tag != "SN" or not measured or unit == len(sentence) or not _touches(sentence, unit):
        return False
    return sentence[unit].tag in ("NNB", "NR", "SL", "SW") and sentence[unit].form not in ORDINALS


def _can_be_replaced(sentence: Sequence[Tagged], after: int) -> bool:
    """Whether a particle or the copula is at `after`: before a noun, an answer would be half of a name."""
    return after < len(sentence) and (sentence[after].tag.startswith("J") or sentence[after].tag == "VCP")


def after_brackets(sentence: Sequence[Tagged], number: int) -> int:
    """The place after the round brackets at `number`, which hold another spelling of what is before them; `number`
    where there are none."""
    if number == len(sentence) or sentence[number].form != "(" or sentence[number].start > sentence[number - 1].end:
        return number
    inside = sentence[number : number + MOST_IN_BRACKETS]
    inside = inside[: next(brackets(inside))[1]]
    forms = [morpheme.form for morpheme in inside]
    return number + len(inside) if forms.count("(") == forms.count(")") else number


def _name_in(sentence: Sequence[Tagged], first: int, after: int) -> Answer:
    """The name among the morphemes `first` to `after` (exclusive), without the common nouns that say what it is."""
    names = [number for number in range(first, after) if sentence[number].tag in ("NNP", "SL")]
    last, end = sentence[after - 1], after
    hypernym = last.form if last.tag == "NNG" and last.form not in NO_HYPERNYMS else ""
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
