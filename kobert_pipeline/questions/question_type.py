"""The type of answer that a question asks for, by its words: a date, a number, a name or a title, and a noun that its
answer may end with.

The rules by which questions are made (`cloze.choose_question_word`, `cleft.heads_of`) are read backwards here, with
other words that people use.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.questions.answer_candidates import tagged_sentences
from kobert_pipeline.questions.hypernyms import entity_type
from kobert_pipeline.questions.measures import MONEY, units_of

WHICH = ("어느", "어떤", "무슨")
HOW_MUCH = ("얼마", "얼마나", "얼마큼", "얼만큼", "얼마간")
WORDS = ("누구", "어디", "언제", "무엇", "뭐", "몇", *HOW_MUCH)
"""Question words as Kiwi writes them: 누가 is 누구 and a particle."""
INDEFINITE = ("나", "이나", "든지", "든", "라도", "이라도", "도")
"""Particles after which a question word asks for nothing, as in 누구나 (everybody)."""
NO_QUANTITY = (["안"], ["전"], ["후"], ["뒤"], ["지나"])
"""What follows 몇 and 얼마 where they ask for nothing, as 되지 does (얼마 되지 않아): 몇 안 되는 (few), 얼마 전
(recently)."""
DURATIONS = ("간", "동안", "만", "만에", "후", "뒤", "전", "형", "걸리", "걸치", "이", "을")
"""What follows 몇 년 where it asks for a number of years."""
YEARS = frozenset(["해", "연도", "년도"])
_DATES = """
날짜 날 생일 생년월일 기념일 결혼기념일 탄생일 발매일 개봉일 창립일 설립일 사망일 시기 시점 때 일시
"""
DATES = frozenset(_DATES.split())
_NUMBERS = """
수 개수 갯수 횟수 인원 인구 나이 높이 길이 무게 몸무게 키 넓이 면적 크기 깊이 두께 지름 거리 속도 온도 가격 금액 연봉
비율 점수 승점 기간 시간 순위 층수
"""
NUMBERS = frozenset(_NUMBERS.split())
_TITLES = """
제목 영화 책 노래 앨범 음반 곡 작품 소설 시집 드라마 만화 게임 프로그램 잡지 신문 논문 희곡 오페라 뮤지컬
"""
TITLES = frozenset(_TITLES.split())
_NAMED = """
이름 명칭 본명 별명 고향 출생지 주인공 저자 창업자 창립자 설립자 발명자
"""
NAMED = frozenset(_NAMED.split())
NAMES = ("이름", "명칭")
"""Nouns that mean the name of something: with 대학교의 이름 and 대학교 이름 a question asks for a 대학교."""
RELATIONS = frozenset(["옆", "근처", "때", "전", "후", "중", "정도", "쪽", "앞", "뒤", "안", "위", "아래", "날"])
"""Nouns that say where or when, after the noun that 어느 asks for or without it (어느 날)."""
EMPTY = frozenset(["것", "거", "곳", "명", "사람", "인물", "이유", "뜻"])
"""Nouns that the answer does not end with."""
NOUNS = ("NNG", "NNP", "NNB", "XSN")
PARTICLES_OF_AMOUNTS = ("JKO", "JKS", "JKG", "JKB")
"""Tags of particles after 얼마 where it asks for an amount of money (얼마를, 얼마의, 얼마에)."""


class QuestionType(NamedTuple):
    """What a question asks for. `types` are the types of `AnswerCandidate` that would answer it, none where it does not
    say; `noun` is what the answer may end with, such as 대학교 or 명 (몇 명), "" where the question has none, and
    `units` are what a number may end with instead, such as 원 and 달러 where a price is asked for."""

    types: tuple[str, ...]
    noun: str
    units: tuple[str, ...] = ()


def classify_question(question: str) -> QuestionType:
    """What a question asks for. It must not contain surrogates."""
    sentences = tagged_sentences(question)
    sentence = sentences[-1] if sentences else []
    word = next((index for index in range(len(sentence)) if _is_question_word(sentence, index)), len(sentence))
    form = sentence[word].form if word < len(sentence) else ""
    noun = _asked_noun(sentence, word)
    # 누구 and 어디 say enough; a noun says more than 언제 (해는 언제인가), and a unit more than 몇
    if form in ("누구", "어디"):
        return QuestionType(("name",), "" if noun in EMPTY | YEARS | DATES | NUMBERS else noun)
    if form == "몇":
        return _how_many(question, sentence, word)
    if form in HOW_MUCH:
        return QuestionType(("number",), "", _asked_units(sentence, word))
    for nouns, types in ((YEARS, ("year",)), (DATES, ("date", "year")), (NUMBERS, ("number",))):
        if noun in nouns:
            return QuestionType(types, "", units_of(noun) if "number" in types else ())
    if form == "언제":
        return QuestionType(("date", "year"), "")
    if entity_type(noun) or noun in NAMED:
        return QuestionType(("name",), "" if noun in EMPTY | NAMED else noun)
    return QuestionType(("title",) if noun in TITLES else (), "" if noun in EMPTY else noun)


def _is_question_word(sentence: Sequence[TaggedMorpheme], index: int) -> bool:
    """Whether a morpheme asks for something, unlike the question words in 누구나, 몇 안 되는 and 얼마 전."""
    form = sentence[index].form
    if form not in WORDS or sentence[index].tag not in ("NP", "MM", "MAG", "NNG", "NR"):
        return False
    after = index + 1
    if form in ("몇", "얼마"):
        following = [morpheme.form for morpheme in sentence[after : after + 2]]
        return following != ["되", "지"] and following[:1] not in NO_QUANTITY
    if form == "언제" and after < len(sentence) and sentence[after].form == "어디":
        return False  # 언제 어디서나
    while after < len(sentence) and sentence[after].tag.startswith("J"):
        if sentence[after].form in INDEFINITE:
            return False
        after += 1
    return True


def _how_many(question: str, sentence: Sequence[TaggedMorpheme], word: int) -> QuestionType:
    """What 몇 asks for: a year, a date or a number, which ends with the unit after it."""
    after = word + 1
    while after < len(sentence) and (sentence[after].tag in NOUNS or sentence[after].tag in ("SL", "SW")):
        # 몇 번째, but not 몇 명 학생 or 몇 년간
        if after > word + 1 and (sentence[after].start > sentence[after - 1].end or sentence[after].form == "간"):
            break
        after += 1
    unit = question[sentence[word + 1].start : sentence[after - 1].end] if after > word + 1 else ""
    following = sentence[after].form if after < len(sentence) else ""
    if unit in ("년도", "연도") or (unit == "년" and following not in DURATIONS):
        return QuestionType(("year",), unit)
    if unit in ("세기", "월", "일"):
        return QuestionType(("date", "number"), unit)
    return QuestionType(("number",), "" if unit in EMPTY - {"명"} else unit)


def _asked_units(sentence: Sequence[TaggedMorpheme], word: int) -> tuple[str, ...]:
    """The units of the measure that 얼마 asks for: of the noun with the last 은, 는, 이 or 가 before it, or of a noun
    after it (얼마나 많은 인구가). Those of money where no noun says what is measured and 얼마 has a particle (얼마를
    받았나)."""
    particles = [index for index in range(1, word) if sentence[index].tag in ("JX", "JKS")]
    before = [sentence[index - 1] for index in particles[-1:]]
    nouns = [morpheme.form for morpheme in (*before, *sentence[word + 1 :]) if morpheme.tag in NOUNS]
    units = next((units for noun in nouns if (units := units_of(noun))), ())
    has_particle = word + 1 < len(sentence) and sentence[word + 1].tag in PARTICLES_OF_AMOUNTS
    return units or (MONEY if sentence[word].form == "얼마" and has_particle else ())


def _asked_noun(sentence: Sequence[TaggedMorpheme], word: int) -> str:
    """The noun that 어느, 어떤 or 무슨 asks for, where no other question word (at `word`) does; else the noun that the
    question is about (…한 대학교는?, …한 대학교의 이름은 무엇인가?)."""
    for index in range(len(sentence) - 1):
        after = index + 1
        if sentence[index].form in WHICH and word == len(sentence) and sentence[after].tag in ("NNG", "NNP"):
            while after + 1 < len(sentence) and sentence[after + 1].tag in NOUNS[:2]:
                if sentence[after + 1].form in RELATIONS:
                    break
                after += 1
            if sentence[after].form not in RELATIONS:
                return sentence[after].form
    particles = [index for index in range(1, len(sentence)) if _marks_subject(sentence, index)]
    noun = particles[-1] - 1 if particles else -1
    if noun > 0 and sentence[noun].form in NAMES:
        before = noun - 2 if sentence[noun - 1].tag == "JKG" else noun - 1
        noun = before if before >= 0 and sentence[before].tag in NOUNS else noun
    # 1년은 며칠인가 does not ask for a 년
    is_counted = noun > 0 and sentence[noun - 1].tag == "SN"
    return sentence[noun].form if noun >= 0 and sentence[noun].tag in NOUNS and not is_counted else ""


def _marks_subject(sentence: Sequence[TaggedMorpheme], index: int) -> bool:
    """Whether the particle of what a question is about is at a morpheme: only a question word as the predicate follows
    (…한 해는 언제인가?), or nothing at all."""
    form, tag = sentence[index][:2]
    rest = [morpheme.tag for morpheme in sentence[index + 1 :]]
    is_predicate = all(tag.startswith(("N", "MM", "VCP", "E", "S", "XSN")) or tag == "JX" for tag in rest)
    return ((tag == "JX" and form in ("은", "는", "ᆫ")) or (tag == "JKS" and "VCP" in rest)) and is_predicate
