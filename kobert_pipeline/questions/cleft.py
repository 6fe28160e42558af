"""Questions as cleft sentences: the statement without the answer describes what is asked for.

세종대왕은 1443년에 훈민정음을 창제하였다.  ->  세종대왕이 훈민정음을 창제한 때는 언제인가?
"""

import random
from collections.abc import Sequence

from kobert_pipeline.questions.answer_candidates import AnswerCandidate, TaggedMorpheme
from kobert_pipeline.questions.cloze import OBJECT, PLACE, SUBJECT, Morph, clause_with, is_part_of_date, particle_after
from kobert_pipeline.questions.hypernyms import A_PERSON, A_PLACE, entity_type

ENDINGS = ("인가", "인가", "인가요", "일까", "야", "입니까", "", "")
"""What may follow the question word of a cleft; nothing: it ends before that word (훈민정음을 창제한 사람은?)."""
NAME_SHARE = 0.15
"""How many clefts about people and places ask for their names."""
PAST = ("었", "았", "였")
"""Endings of the past tense, which come before the last ending."""
MAIN_CLAUSE_ENDS = ("고", "며", "으며", "지만", "으나", "나")
"""Endings of clauses that could stand alone."""
PREDICATES = ("V", "XSV", "XSA")
ATTRIBUTES = ("ETM", "JKG", "JC", "MAJ", "MM", "SP", "XPN", "NR", "SN", "NNB", "NNG", "NNP")
"""Tags of what may belong to the noun after it."""


def ask_by_cleft(
    sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate, rng: random.Random, topic: Sequence[Morph] = ()
) -> list[Morph] | None:
    """The question for an answer as its morphemes, without the question mark; None where the rules do not apply. Where
    the clause has no topic, it is about `topic`."""
    heads = heads_of(answer.type, particle_after(sentence, answer), answer.hypernym)
    if is_part_of_date(sentence, answer):
        heads = [head for head in heads if head[0] in ("해", "연도")]
    clause = clause_with([], sentence, answer, answer.after + 1, topic)
    # an answer before a relative clause may belong to it, and not to the predicate that the cleft turns into one
    is_relative = any(morpheme.tag == "ETM" for morpheme in sentence[answer.after :])
    # without the answer nothing would be left for its own attributes to describe
    has_attribute = answer.first > 0 and sentence[answer.first - 1].tag in ATTRIBUTES
    # fewer than four morphemes (a noun, a particle, a verb and an ending) describe too many things
    if not heads or is_relative or has_attribute or len(clause) < 4:
        return None
    description: list[Morph] = []
    for morph in adnominal(clause):
        if morph.tag != "JX" or morph.form not in ("은", "는"):
            description.append(morph)
        elif description and not description[-1].tag.startswith("J"):
            description.append(Morph("이", "JKS"))  # the topic of a statement is the subject of a relative clause
    if not description:
        return None
    noun, word = rng.choice(heads)
    ending = rng.choice(ENDINGS)
    # as one noun, because Kiwi would contract 누구 and 인가 to 누군가, which means somebody
    predicate = [Morph(word + ("이야" if (word, ending) == ("무엇", "야") else ending), "NNG")] if ending else []
    if answer.type in ("name", "title") and word != "무엇" and rng.random() < NAME_SHARE:
        description += [Morph(noun, "NNG", True), Morph("의", "JKG")]
        noun, predicate = "이름", predicate and [Morph("무엇인가", "NNG")]
    return [*description, Morph(noun, "NNG", True), Morph("은", "JX"), *predicate]


def heads_of(answer_type: str, particle: str, hypernym: str = "") -> list[tuple[str, str]]:
    """The nouns that a cleft may describe, each with its question word; none where a cleft cannot ask for the
    answer."""
    if answer_type == "year":
        return [("때", "언제"), ("해", "언제"), ("연도", "언제"), ("것", "언제")] if particle == "에" else []
    if answer_type == "date":
        # 1443년에 창제하였다 says when, but 1443년은 or 1443년까지 does not
        return [("때", "언제"), ("것", "언제")] if particle == "에" else []
    if answer_type == "number" or particle not in (*SUBJECT, *OBJECT, *PLACE):
        return []
    name_of = entity_type(hypernym)
    if name_of == "person" and particle in PLACE:
        return []
    if hypernym:
        known = {"person": (A_PERSON, "누구"), "place": (A_PLACE, "어디")}
        word = known[name_of][1] if name_of else "무엇"
        if not name_of and particle in PLACE and answer_type != "name":
            return [(hypernym, word)]  # 에서 follows films and sciences, too, which are no places
        other = known.get(name_of, (A_PLACE, "어디") if particle in PLACE else ("것", "무엇"))
        return [(hypernym, word), (hypernym, word), other]
    if answer_type in ("noun", "title") or particle in OBJECT:
        return [("것", "무엇")] if particle not in PLACE else []
    if particle in PLACE:
        return [("곳", "어디")]
    # a name does not say whether it is a person's
    return [("사람", "누구"), ("인물", "누구"), ("것", "무엇"), ("곳", "어디")]


def adnominal(clause: list[Morph]) -> list[Morph]:
    """A clause with the ending that makes it describe a noun. Empty where it does not end like a statement."""
    (*stem, last), is_past = clause, False
    while stem and stem[-1].tag == "EP" and stem[-1].form in PAST:
        stem, is_past = stem[:-1], True
    form, predicate = stem[-1][:2] if stem else ("", "")
    is_main = last.tag == "EF" or (last.tag == "EC" and last.form in MAIN_CLAUSE_ENDS)
    if not is_main or not predicate.startswith(PREDICATES):
        return []
    describes_state = predicate.startswith(("VA", "XSA", "VC"))
    exists = form in ("있", "없")
    if is_past and (describes_state or exists):
        # 아름다운 is the present of 아름답다, unlike 창제한, which is the past of 창제하다
        return [*stem, Morph("었", "EP"), Morph("던", "ETM")]
    return [*stem, Morph("ᆫ" if is_past or (describes_state and not exists) else "는", "ETM")]
