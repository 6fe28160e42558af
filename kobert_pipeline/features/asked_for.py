"""What a question asks for, by its words: a date, a number, a name or a title, and a noun that its answer may end with.

The rules are those by which questions are made (`cloze.question_word`, `cleft.heads_of`), read backwards, with the
words that people use besides.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from kobert_pipeline.features.candidates import Tagged, tagged_sentences
from kobert_pipeline.features.hypernyms import kind_of

# 몇 년 asks for a year, but 몇 년간 and 몇 년 동안 for a number
A_YEAR = re.compile(r"몇 ?년(?! ?[간동])|어느 해")
A_DATE = re.compile(r"언제|며칠|몇 ?월")
A_NUMBER = re.compile(r"몇|얼마")
A_PERSON = re.compile(r"누구|누가")
A_PLACE = re.compile(r"어디")
YEARS = frozenset(["해", "년", "년도", "연도"])
DATES = frozenset(["날짜", "날", "생일", "생년월일", "시기", "시점", "때", "일시", "시각"])
_NUMBERS = """
수 개수 갯수 횟수 인원 인구 나이 높이 길이 무게 넓이 면적 크기 깊이 두께 지름 거리 속도 온도 가격 금액 비율 점수 승점
기간 시간 순위 층수
"""
NUMBERS = frozenset(_NUMBERS.split())
_TITLES = """
제목 영화 책 노래 앨범 음반 곡 작품 소설 시 시집 드라마 만화 게임 프로그램 잡지 신문 논문 희곡 오페라 뮤지컬
"""
TITLES = frozenset(_TITLES.split())
WHICH = ("어느", "어떤", "무슨")
NAMES = ("이름", "명칭")
"""Nouns in front of which the question says of what it wants the name."""
QUESTION_WORDS = ("무엇", "뭐", "누구", "어디", "언제", "몇", "얼마")


class Asked(NamedTuple):
    """`kinds` are kinds of `candidates.Answer` that would answer a question, none where it does not say; `noun` is what
    the answer is, such as 대학교, "" where the question has none."""

    kinds: tuple[str, ...]
    noun: str


def asked_for(question: str) -> Asked:
    """What a question asks for."""
    found = tagged_sentences(question)
    noun = _noun(found[-1]) if found else ""
    return Asked(_kinds(question, noun), noun)


def _kinds(question: str, noun: str) -> tuple[str, ...]:
    # question words first: 영화가 개봉한 해는 언제인가 asks for a year, although 언제 alone would be a date
    if A_YEAR.search(question) or noun in YEARS:
        return ("year",)
    if A_DATE.search(question) or noun in DATES:
        return ("date", "year")
    if A_NUMBER.search(question) or noun in NUMBERS:
        return ("number",)
    if A_PERSON.search(question) or A_PLACE.search(question) or kind_of(noun):
        return ("name",)
    return ("title",) if noun in TITLES else ()


def _noun(sentence: Sequence[Tagged]) -> str:
    """The noun after 어느, 어떤 or 무슨, with which a phrase ends, else the one that the question is about (…한
    대학교는?, …한 대학교의 이름은 무엇인가?)."""
    for place, morpheme in enumerate(sentence[:-1]):
        after = place + 1
        if morpheme.form in WHICH and sentence[after].tag.startswith("N"):
            while after + 1 < len(sentence) and sentence[after + 1].tag in ("NNG", "NNP", "XSN"):
                after += 1
            return sentence[after].form
    particles = [place for place in range(1, len(sentence)) if _is_about(sentence, place)]
    place = particles[-1] - 1 if particles else 0
    if sentence[place].form in NAMES and place > 1 and sentence[place - 1].tag == "JKG":
        place -= 2
    return sentence[place].form if particles and sentence[place].tag in ("NNG", "NNB", "NNP", "XSN") else ""


def _is_about(sentence: Sequence[Tagged], place: int) -> bool:
    """Whether the particle of what the question is about is at a place: 은, or 이 before a question word."""
    form, tag = sentence[place][:2]
    is_asked = place + 1 < len(sentence) and sentence[place + 1].form in QUESTION_WORDS
    return (tag == "JX" and form in ("은", "는")) or (tag == "JKS" and is_asked)
