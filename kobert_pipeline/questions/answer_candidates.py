"""Answer candidates: what can be asked for in a text. These are dates, numbers with their units, titles in quotes,
names and common nouns, found by Kiwi's tags. Questions are made from them, and answers to questions mostly are one of
them."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.questions.hypernyms import NO_HYPERNYMS, entity_type

DATE = re.compile(r"\d{3,4}년(?![대도])(?: ?\d{1,2}월(?: ?\d{1,2}일)?)?|\d{1,2}월 ?\d{1,2}일|\d{1,2}세기")
"""Neither 1980년대 (a decade) nor 1980년도, where 년도 is the unit that a question repeats."""
NUMERIC_DATE = re.compile(r"[12]\d{3}([.\-/]) ?(0?[1-9]|1[0-2])\1 ?(0?[1-9]|[12]\d|3[01])\.?")
"""2016. 4. 22., as official texts write dates, 2016.4.22, 2016-04-22 or 2016/4/22."""
YEAR = re.compile(r"\d{3,4}년|[12]\d{3}(?=[.\-/])")
NAME_PARTS = ("NNP", "SL", "NNG", "XSN", "SN")
"""Tags of what a name may consist of."""
SHORTEST_NOUN = 3
"""Characters of a common noun that can be an answer: shorter ones, such as 이후 or 경우, often name nothing."""
SERIAL = "W_SERIAL"
"""Kiwi's tag of numbers that others join: dates, telephone numbers, versions."""
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


class AnswerCandidate(NamedTuple):
    """Characters `start` to `end` (exclusive) of a text that can be asked for. A question word takes the place of the
    morphemes `first` to `after` (exclusive) of its sentence, which may be more than the answer: in 소설가
    김동인(金東仁) the answer is 김동인. `type` is date, year, number, title, name or noun; `hypernym` is a noun for
    what the answer is, such as 소설가, "" where none is known."""

    start: int
    end: int
    type: str
    first: int
    after: int
    hypernym: str = ""


@lru_cache(maxsize=16)
def tagged_sentences(text: str) -> list[list[TaggedMorpheme]]:
    """The morphemes of each sentence with Kiwi's tags. Cached, because several rules read the same text in turn."""
    from kobert_pipeline.morphemes.analyzers.kiwi import instance

    # the cache gives the same lists to every caller, so nobody may change them
    tokens = instance().tokenize(text)
    return [
        [TaggedMorpheme(token.form, token.tag, token.start, token.end) for token in sentence]
        for _, sentence in groupby(tokens, key=lambda token: token.sent_position)
    ]


@lru_cache(maxsize=64)
def candidates_in_text(text: str) -> tuple[AnswerCandidate, ...]:
    """All that can be asked for in a text, also what is in brackets, which no question is made of. Morphemes are
    counted within a sentence or its brackets. Cached, because questions share contexts."""
    by_span: dict[tuple[int, int], AnswerCandidate] = {}
    for sentence in tagged_sentences(text):
        # candidates in brackets may be found in the whole sentence as well
        for part in (sentence, *(sentence[first + 1 : after] for first, after in bracket_spans(sentence))):
            for candidate in candidates_in_sentence(text, part):
                by_span.setdefault((candidate.start, candidate.end), candidate)
    return tuple(by_span.values())


def bracket_spans(sentence: Sequence[TaggedMorpheme]) -> Iterator[tuple[int, int]]:
    """The spans of round brackets in morphemes, from the opening bracket to after the closing one, or to the end of the
    sentence where it is not closed. Brackets inside brackets belong to the outer ones."""
    depth, first = 0, 0
    for index, morpheme in enumerate(sentence):
        if morpheme.form == "(":
            depth, first = depth + 1, first if depth else index
        elif morpheme.form == ")" and depth:
            depth -= 1
            if not depth:
                yield first, index + 1
    if depth:
        yield first, len(sentence)


def candidates_in_sentence(text: str, sentence: Sequence[TaggedMorpheme]) -> Iterator[AnswerCandidate]:
    """What can be asked for in a sentence of a text: dates, and the years in them, numbers with their units, and
    titles, names and common nouns before a particle or the copula."""
    index = 0
    while index < len(sentence):
        if sentence[index].tag == "SN":
            candidate = _number_at(text, sentence, index)
        elif sentence[index].tag == SERIAL:
            candidate = _numeric_date_at(sentence, index)
        elif sentence[index].tag == "SSO":
            candidate = _title_at(sentence, index)
        else:
            candidate = _name_at(sentence, index)
        # a candidate that begins inside a word, such as 구약 in 신구약, would be half of a word
        if candidate and (candidate.start == 0 or not text[candidate.start - 1].isalnum()):
            yield candidate
            if candidate.type == "date" and (year := YEAR.match(text, candidate.start)):
                yield candidate._replace(end=year.end(), type="year")
        index = candidate.after if candidate else index + 1


def _number_at(text: str, sentence: Sequence[TaggedMorpheme], first: int) -> AnswerCandidate | None:
    """The date or the number with a unit that starts at a morpheme."""
    start = sentence[first].start
    # in the text itself, because the analyzer splits a date into numbers and units
    if date := DATE.match(text, start):
        after = first
        while after < len(sentence) and sentence[after].end <= date.end():
            after += 1
        return AnswerCandidate(start, date.end(), "year" if YEAR.fullmatch(date.group()) else "date", first, after)
    after = first + 1
    while after < len(sentence) and _touches(sentence, after) and is_numeral(sentence, after):
        if DATE.match(text, sentence[after].start):  # 30만 2010년
            break
        after += 1
    if after < len(sentence) and sentence[after].tag in UNITS and _touches(sentence, after):
        after += 1
        if after < len(sentence) and sentence[after].form == "째" and _touches(sentence, after):
            after += 1
    return AnswerCandidate(start, sentence[after - 1].end, "number", first, after) if after > first + 1 else None


def _numeric_date_at(sentence: Sequence[TaggedMorpheme], index: int) -> AnswerCandidate | None:
    """The date that a morpheme of numbers with points, hyphens or slashes is, if it is one."""
    form, _, start, end = sentence[index]
    return AnswerCandidate(start, end, "date", index, index + 1) if NUMERIC_DATE.fullmatch(form) else None


def is_numeral(sentence: Sequence[TaggedMorpheme], index: int) -> bool:
    """Whether a morpheme after a number belongs to the number and is no unit: 억, 5000 and 만 in 3억 5000만, and 여 in
    20여."""
    form, tag = sentence[index][:2]
    return tag == "NR" or (form, tag) == ("여", "XSN") or (tag == "SN" and sentence[index - 1].tag == "NR")


def _title_at(sentence: Sequence[TaggedMorpheme], first: int) -> AnswerCandidate | None:
    """What is between quotes that start at a morpheme, such as 무한도전 in <무한도전>, if a question word can replace
    it."""
    limit = min(first + MOST_TITLE_MORPHEMES + 2, len(sentence))  # 2: both marks
    last = next((index for index in range(first + 1, limit) if sentence[index].tag in ("SSC", "SSO")), first)
    title = sentence[first + 1 : last]
    is_speech = any(morpheme.tag in ("EF", "SF") for morpheme in title)
    if sentence[first].form == "(" or not title or is_speech or sentence[last].tag == "SSO":
        return None
    start, end, after = title[0].start, title[-1].end, after_brackets(sentence, last + 1)
    if not _can_be_replaced(sentence, after) or end - start < 2:
        return None
    before = sentence[first - 1] if first and _touches(sentence, first) else None
    if before and before.tag == "NNG" and before.form not in NO_HYPERNYMS:
        first -= 1
        # 어느 앨범 takes the place of all of 정규 앨범 《…》
        while first and sentence[first - 1].tag in ("NNG", "NNP", "XPN") and _touches(sentence, first):
            first -= 1
        return AnswerCandidate(start, end, "title", first, after, before.form)
    return AnswerCandidate(start, end, "title", first, after)


def _name_at(sentence: Sequence[TaggedMorpheme], first: int) -> AnswerCandidate | None:
    """The name, or the common noun with the nouns before and after it, that starts at a morpheme, if a question word
    can replace it."""
    if sentence[first].tag not in ("NNP", "SL", "NNG"):
        return None
    after = first + 1
    # a limit, because each noun of a list without particles would be tried with all that follow it
    limit = min(len(sentence), first + MOST_NAME_MORPHEMES)
    while after < limit and sentence[after].tag in NAME_PARTS and _touches(sentence, after):
        if _is_measured(sentence, after):
            return None
        after += 1
    if sentence[after - 1][:2] == ("적", "XSN"):  # 상대적 describes something, and is not its name
        return None
    end = after_brackets(sentence, after)
    if not _can_be_replaced(sentence, end):
        return None
    if any(part.tag in ("NNP", "SL") for part in sentence[first:after]):
        candidate = _name_in(sentence, first, after)
    else:
        candidate = AnswerCandidate(sentence[first].start, sentence[after - 1].end, "noun", first, after)
    # one character is rarely a whole name
    is_long = candidate.end - candidate.start >= (SHORTEST_NOUN if candidate.type == "noun" else 2)
    return candidate._replace(after=end) if is_long else None


def _is_measured(sentence: Sequence[TaggedMorpheme], index: int) -> bool:
    """Whether a number with a unit is at a morpheme, and a common noun before it says what is measured: 시속 100km, but
    not 지하철 2호선, which is a name."""
    follows_noun, unit = sentence[index - 1].tag == "NNG", index + 1
    if sentence[index].tag != "SN" or not follows_noun or unit == len(sentence) or not _touches(sentence, unit):
        return False
    return sentence[unit].tag in ("NNB", "NR", "SL", "SW") and sentence[unit].form not in ORDINALS


def _can_be_replaced(sentence: Sequence[TaggedMorpheme], after: int) -> bool:
    """Whether a particle or the copula is at `after`: before a noun, an answer would be half of a name."""
    return after < len(sentence) and (sentence[after].tag.startswith("J") or sentence[after].tag == "VCP")


def after_brackets(sentence: Sequence[TaggedMorpheme], index: int) -> int:
    """The index after the round brackets at `index`, which hold another spelling of what is before them; `index` where
    there are none."""
    if index == len(sentence) or sentence[index].form != "(" or sentence[index].start > sentence[index - 1].end:
        return index
    inside = sentence[index : index + MOST_IN_BRACKETS]
    inside = inside[: next(bracket_spans(inside))[1]]
    forms = [morpheme.form for morpheme in inside]
    return index + len(inside) if forms.count("(") == forms.count(")") else index


def _name_in(sentence: Sequence[TaggedMorpheme], first: int, after: int) -> AnswerCandidate:
    """The name among the morphemes `first` to `after` (exclusive), without the common nouns that say what it is."""
    name_indices = [index for index in range(first, after) if sentence[index].tag in ("NNP", "SL")]
    last, end = sentence[after - 1], after
    hypernym = last.form if last.tag == "NNG" and last.form not in NO_HYPERNYMS else ""
    # in 심준보 판사 the office is no part of the name, as it is in 세종대왕
    if entity_type(hypernym) == "person" and last.start > sentence[after - 2].end:
        end = name_indices[-1] + 1
    replaced, before = first, sentence[name_indices[0] - 1]
    if name_indices[0] > first and before.tag == "NNG":
        if before.form in NO_HYPERNYMS:
            replaced = name_indices[0]
        else:
            hypernym = before.form
        first = name_indices[0]
    return AnswerCandidate(sentence[first].start, sentence[end - 1].end, "name", replaced, after, hypernym)


def _touches(sentence: Sequence[TaggedMorpheme], index: int) -> bool:
    """Whether at most a space is between a morpheme and the one before."""
    return sentence[index].start - sentence[index - 1].end <= 1
