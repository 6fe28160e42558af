"""Questions as cleft sentences: the statement without the answer describes what is asked for. Half of the
questions that people ask are like that (docs/results/questions.md).

    세종대왕은 1443년에 훈민정음을 창제하였다.  ->  세종대왕이 훈민정음을 창제한 때는 언제인가?
    미국의 소설가 헤밍웨이는 쿠바에서 살았다.  ->  쿠바에서 산 미국의 소설가는 누구인가?
    전투에서 병사 3천 명이 죽었다.  ->  전투에서 죽은 병사는 몇 명인가?
    세종은 조선의 제4대 국왕이다.  ->  조선의 제4대 국왕은 누구인가?
"""

import random
from collections.abc import Sequence

from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.questions.answer_candidates import AnswerCandidate, is_numeral
from kobert_pipeline.questions.cloze import (
    OBJECT,
    PAST,
    PLACE,
    SUBJECT,
    Morph,
    clause_of,
    clause_with,
    following_morpheme,
    is_part_of_date,
    is_past,
    is_topic,
    joins_only,
    particle_after,
)
from kobert_pipeline.questions.hypernyms import A_PERSON, A_PLACE, entity_type

ENDINGS = ("인가", "인가", "인가요", "일까", "야", "입니까", "", "")
"""What may follow the question word of a cleft; nothing: it ends before that word (훈민정음을 창제한 사람은?)."""
NAME_SHARE = 0.15
"""How many clefts about people and places ask for their names."""
_MAIN_CLAUSE_ENDS = """
고 며 으며 지만 으나 나 면서 으면서 어서 아서 어 아 여 는데 ᆫ데
"""
MAIN_CLAUSE_ENDS = frozenset(_MAIN_CLAUSE_ENDS.split())
"""Endings of clauses that could stand alone."""
PREDICATES = ("V", "XSV", "XSA")
PHRASE = ("JKG", "XPN", "XSN", "NNG", "NNP", "SL")
"""Tags of a noun phrase before an answer that belongs to it: 미국의 in 미국의 소설가 헤밍웨이."""
LONGEST_PHRASE = 6
"""Morphemes of such a phrase."""
ATTRIBUTES = (*PHRASE, "ETM", "JC", "MAJ", "MM", "SP", "NR", "SN", "NNB", "SO", "SW", "W_SERIAL")
"""Tags of what may belong to the noun after it."""
JOINING = ("및", "또는", "혹은", "내지", "겸")
"""Words between nouns of which the answer is one."""
COMPANIONS = ("와", "과", "에게")
"""Particles of people with whom, or to whom, something is done."""
AFTER_NUMBER = ("이", "가", "을", "를", "은", "는", "")
"""Particles, or none, of a number that says how many did something, or how many something was done to."""
COUNTED = {
    "명": "사람", "년": "기간", "개월": "기간", "일": "기간", "주": "기간", "시간": "시간", "분": "시간", "회": "횟수",
    "번": "횟수", "차례": "횟수", "세": "나이", "살": "나이", "원": "금액", "달러": "금액", "위": "순위", "%": "비율",
    "퍼센트": "비율", "개국": "나라", "점": "점수", "골": "골", "권": "책", "곡": "곡", "편": "작품", "km": "거리",
    "마리": "동물",
}  # fmt: skip
"""What a unit counts or measures, where no noun before the number says it."""
SUM = "금액"


def ask_by_cleft(
    sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate, rng: random.Random, topic: Sequence[Morph] = ()
) -> list[Morph] | None:
    """The question for an answer as its morphemes, without the question mark; None where the rules do not apply. Where
    the clause has no topic, it is about `topic`."""
    first = phrase_before(sentence, answer)
    # without the answer nothing would be left for its own attributes to describe
    has_attribute = first > 0 and (sentence[first - 1].tag in ATTRIBUTES or sentence[first - 1].form in JOINING)
    heads = heads_of(sentence, answer)
    if first < answer.first:
        heads = heads_after_phrase(heads, sentence[first : answer.first], answer)
    clause = _clause_without(sentence, answer, first, topic)
    # fewer than four morphemes (a noun, a particle, a verb and an ending) describe too many things
    if not heads or has_attribute or belongs_to_relative_clause(sentence, answer) or len(clause) < 4:
        return None
    noun, word = rng.choice(heads)
    if is_copula(clause):
        is_subject = particle_after(sentence, answer) in SUBJECT and answer.type != "number" and first == answer.first
        description = before_copula(clause) if is_subject else []
        return asked(description, word, rng) if description else None
    description = []
    for morph in adnominal(clause, is_past(sentence)):
        if not is_topic(morph):
            description.append(morph)
        elif description and not description[-1].tag.startswith("J"):
            description.append(Morph("이", "JKS"))  # the topic of a statement is the subject of a relative clause
    if not description:
        return None
    # a space before the phrase, and inside it those of the text
    description += [
        Morph(*sentence[index][:2], index == first or sentence[index].start > sentence[index - 1].end)
        for index in range(first, answer.first)
    ]
    description += [Morph(noun, "NNG", True)] if noun else []
    if answer.type in ("name", "title") and word != "무엇" and rng.random() < NAME_SHARE:
        return asked([*description, Morph("의", "JKG"), Morph("이름", "NNG", True)], "무엇", rng)
    return asked(description, word, rng)


def asked(description: list[Morph], word: str, rng: random.Random) -> list[Morph]:
    """The question by a question word what a noun phrase describes; without the word where nothing follows it."""
    ending = rng.choice(ENDINGS)
    if not ending:
        return [*description, Morph("은", "JX")]
    after_consonant = "가" <= word[-1] <= "힣" and (ord(word[-1]) - ord("가")) % 28 > 0
    # as one noun, because Kiwi would contract 누구 and 인가 to 누군가, which means somebody
    predicate = word + ("이야" if ending == "야" and after_consonant else ending)
    return [*description, Morph("은", "JX"), Morph(predicate, "NNG")]


def phrase_before(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> int:
    """The first morpheme of the noun phrase that ends with the answer; that of the answer where nothing belongs to
    it."""
    first = answer.first
    while first and answer.first - first < LONGEST_PHRASE and sentence[first - 1].tag in PHRASE:
        first -= 1
    return first


def heads_after_phrase(
    heads: list[tuple[str, str]], phrase: Sequence[TaggedMorpheme], answer: AnswerCandidate
) -> list[tuple[str, str]]:
    """The `heads` that may follow the noun phrase before an answer; "" where the phrase itself is what is described."""
    if answer.type in ("date", "year"):
        return []
    if answer.type == "number":  # 병사 3천 명, but not 병사의 3천 명
        return [("", word) for _, word in heads] if phrase[-1].tag == "NNG" else []
    # 미국의 소설가 and 영화 배우, but neither 미국의 것 nor a name that only touches the noun before it
    has_noun = phrase[-1].tag == "JKG" or answer.start > phrase[-1].end + 1
    return heads[:1] if answer.hypernym and has_noun else []


def belongs_to_relative_clause(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> bool:
    """Whether an answer may belong to a relative clause after it, and not to the predicate that a cleft turns into one;
    a topic never does."""
    if particle_after(sentence, answer) in ("은", "는"):
        return False
    return any(sentence[index].tag == "ETM" for index in clause_of(sentence, answer) if index >= answer.after)


def _clause_without(
    sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate, first: int, topic: Sequence[Morph]
) -> list[Morph]:
    """The clause without the answer, the phrase before it from the morpheme `first`, and its particles (에 and 는)."""
    after = answer.after
    while after < min(len(sentence), answer.after + 2) and sentence[after].tag.startswith("J"):
        after += 1
    return clause_with([], sentence, answer._replace(first=first), after, topic)


def heads_of(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> list[tuple[str, str]]:
    """The nouns that a cleft may describe, each with its question word, the most precise first; none where a cleft
    cannot ask for the answer."""
    particle, following = particle_after(sentence, answer), following_morpheme(sentence, answer)
    if following.tag == "JC":  # one of a list
        return []
    if answer.type == "number":
        return _heads_of_number(sentence, answer)
    if answer.type in ("date", "year"):
        # 1443년에 창제하였다 and 1443년 창제하였다 say when, but 1443년은 or 1443년까지 does not
        says_when = particle == "에" or following.tag in ("NNG", "NNP", "SL", "MAG", "SP")
        of_year = ("해", "연도") if is_part_of_date(sentence, answer) else ("때", "해", "연도", "것")
        nouns = of_year if answer.type == "year" else ("때", "날짜", "것")
        return [(noun, "언제") for noun in nouns] if says_when else []
    return _heads_of_name(answer.type, particle, answer.hypernym)


def _heads_of_number(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> list[tuple[str, str]]:
    """What a number with one of the units `COUNTED` counts, where that did something or something was done to it."""
    following, after = following_morpheme(sentence, answer), answer.after + 1
    units = [sentence[index].form for index in range(answer.first + 1, answer.after) if not is_numeral(sentence, index)]
    if len(units) != 1 or units[0] not in COUNTED or particle_after(sentence, answer) not in AFTER_NUMBER:
        return []
    # 3회 우승하였다, but not 3회 정도
    is_verb = following.tag.startswith(("V", "MAG")) and following.tag != "VCP"
    is_verb |= following.tag == "NNG" and after < len(sentence) and sentence[after].tag == "XSV"
    if not following.tag.startswith("J") and not is_verb:
        return []
    counted = COUNTED[units[0]]
    return [(counted, "얼마" if counted == SUM else f"몇 {units[0]}")]


def _heads_of_name(answer_type: str, particle: str, hypernym: str) -> list[tuple[str, str]]:
    """The nouns that a cleft about a name, a title or a common noun may describe, each with its question word."""
    name_of = entity_type(hypernym)
    if particle in COMPANIONS:
        return [(hypernym, "누구"), (A_PERSON, "누구")] if name_of == "person" else []
    if particle not in (*SUBJECT, *OBJECT, *PLACE) or (name_of == "person" and particle in PLACE):
        return []
    if hypernym:
        known = {"person": (A_PERSON, "누구"), "place": (A_PLACE, "어디")}
        word = known[name_of][1] if name_of else "무엇"
        if not name_of and particle in PLACE and answer_type != "name":
            return [(hypernym, word)]  # 에서 follows films and sciences, too, which are no places
        other = known.get(name_of, (A_PLACE, "어디") if particle in PLACE else ("것", "무엇"))
        # twice, so that it is drawn twice as often as the general noun
        return [(hypernym, word), (hypernym, word), other]
    if answer_type in ("noun", "title") or particle in OBJECT:
        return [("것", "무엇")] if particle not in PLACE else []
    if particle in PLACE:
        return [("곳", "어디")]
    # a name does not say whether it is a person's
    return [("사람", "누구"), ("인물", "누구"), ("것", "무엇"), ("곳", "어디")]


def is_copula(clause: Sequence[Morph]) -> bool:
    """Whether a clause says what something is: its predicate is the copula 이 or 아니."""
    return any(morph.tag in ("VCP", "VCN") for morph in clause[-3:])


def before_copula(clause: list[Morph]) -> list[Morph]:
    """The noun phrase before the copula that a clause ends with; empty where it is none that describes something."""
    end = next((index for index in range(len(clause) - 1, 0, -1) if clause[index].tag == "VCP"), 0)
    phrase, rest = clause[:end], clause[end + 1 :]
    # a subject or a topic of its own would make it more than a phrase
    has_subject = any(morph.tag == "JKS" or is_topic(morph) for morph in phrase[:4])
    is_whole = len(phrase) >= 3 and phrase[-1].tag in ("NNG", "NNP", "XSN") and not has_subject
    return phrase if is_whole and all(morph.tag in ("EP", "EF", "EC") for morph in rest) else []


def adnominal(clause: list[Morph], in_past: bool = False) -> list[Morph]:
    """A clause with the ending that makes it describe a noun; `in_past`: its sentence ends in the past tense, which a
    clause that does not end the sentence takes from there. Empty where it does not end like a statement."""
    *stem, last = clause
    was = in_past and last.tag == "EC"
    while stem and stem[-1].tag == "EP" and stem[-1].form in PAST:
        stem, was = stem[:-1], True
    form, predicate = stem[-1][:2] if stem else ("", "")
    is_main = last.tag == "EF" or (last.tag == "EC" and last.form in MAIN_CLAUSE_ENDS)
    if not is_main or not predicate.startswith(PREDICATES) or joins_only(stem):
        return []
    describes_state = predicate.startswith(("VA", "XSA", "VC"))
    exists = form in ("있", "없")
    if was and (describes_state or exists):
        # 아름다운 is the present of 아름답다, unlike 창제한, which is the past of 창제하다
        return [*stem, Morph("었", "EP"), Morph("던", "ETM")]
    return [*stem, Morph("ᆫ" if was or (describes_state and not exists) else "는", "ETM")]
