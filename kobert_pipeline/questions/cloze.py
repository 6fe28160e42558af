"""Questions from statements by rules: a question word takes the place of the answer (after Lewis et al., ACL 2019, who
translate such clozes into questions; here Kiwi's tags choose the question word, and Kiwi joins the morphemes again).

    세종대왕은 1443년에 훈민정음을 창제하였다.  ->  세종대왕은 언제 훈민정음을 창제하였는가?
"""

import random
from collections.abc import Collection, Sequence
from typing import NamedTuple

from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.questions.answer_candidates import NAME_PARTS, AnswerCandidate, is_numeral
from kobert_pipeline.questions.hypernyms import A_PERSON, entity_type
from kobert_pipeline.questions.measures import CURRENCIES
from kobert_pipeline.questions.sentence_parts import in_brackets

PLACE = ("에서", "에서는", "에", "에는", "으로", "로", "까지")
INSIDE = ("에서", "에서는", "에", "에는")
"""Particles of places that never follow a person."""
SUBJECT, OBJECT, OTHER = ("이", "가", "은", "는", "께서"), ("을", "를"), ("와", "과", "의", "에게")
AFTER_CONSONANT = {"가": "이", "는": "은", "를": "을", "와": "과", "로": "으로", "로는": "으로는", "로서": "으로서"}
"""{particle after a vowel: its form after a consonant, as in 무엇}"""
_CLAUSE_ENDS = """
고 며 으며 지만 으나 나 는데 어서 아서 면서 으면서 어 아 여 자
"""
CLAUSE_ENDS = frozenset(_CLAUSE_ENDS.split())
"""Endings after which another clause begins."""
PRONOUNS = ("그", "그녀", "그것", "이것", "이")
YEAR_WORDS = ("몇 년", "몇 년도", "어느 해")
"""Words that ask for a year."""
HOW_MUCH_SHARE, HOW_LONG_SHARE = 0.75, 0.5
"""How many questions about money ask with 얼마 rather than 몇 원, and about time with 얼마나 rather than 몇 년이."""
TIME_UNITS = ("년", "개월", "달", "주", "주일", "일", "시간", "분", "초")
TAKES = [["이", "되"], ["가", "되"], ["이", "걸리"], ["가", "걸리"]]
"""The particle and the verb after a time that 얼마나 asks for."""
HYPERNYM_SHARE = 0.4
"""How many questions ask with the noun that says what the answer is, where one does: 어느 대학교, 어떤 밴드."""
LONGEST_LEAD = 60
"""Morphemes at the start of a sentence in which its topic is looked for, brackets included."""
LONGEST_TOPIC = 12
"""Morphemes of a topic that is repeated in a question about a later clause."""
ENDINGS = ("는가", "는가", "나요", "나", "을까", "을까", "습니까")
"""Endings of questions about what is done; one is drawn, and those listed twice more often."""
UNFINISHED = ("통하", "위하", "의하", "대하", "관하", "따르", "인하", "걸치", "비롯하", "불구하", "관련하")
"""Verbs that in 통해 or 위해 only join what is before them to another verb."""
PAST = ("었", "았", "였")
"""Endings of the past tense, which come before the last ending."""
LEADING = ("MAJ", "SP", "JX", "EC", "SF", "SW", "SE")
TRAILING = ("SF", "SP", "SSC", "SSO", "SE", "SW", "SS")
"""Tags that are removed from the beginning and from the end of a clause."""


class Morph(NamedTuple):
    """A morpheme of a question: its form and tag, and whether a space is before it; None: as Kiwi would write it."""

    form: str
    tag: str
    space: bool | None = None


def ask_in_place(
    sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate, rng: random.Random, topic: Sequence[Morph] = ()
) -> list[Morph] | None:
    """The question for an answer as its morphemes, without the question mark; None where the rules do not apply. Only
    the clause with the answer is asked about, with the topic of the sentence, or `topic`, where it has none."""
    question_word, replaced = choose_question_word(sentence, answer, rng)
    if not question_word:
        return None
    clause = clause_with(question_word, sentence, answer, answer.after + replaced, topic)
    return _with_question_ending(clause, is_past(sentence), rng)


def clause_with(
    question_word: list[Morph],
    sentence: Sequence[TaggedMorpheme],
    answer: AnswerCandidate,
    after: int,
    topic: Sequence[Morph] = (),
) -> list[Morph]:
    """The clause with the answer, where `question_word` takes the place of the morphemes from the answer up to `after`
    (exclusive), without brackets and without what is left of the clauses around it. Where it has neither subject nor
    topic, or a pronoun for one, `topic` comes first. Empty where the answer is in brackets."""
    indices = _without_brackets(sentence, clause_of(sentence, answer))
    clause: list[Morph] = []
    for index in indices if answer.first in indices else []:
        if index == answer.first:
            clause += question_word
        elif not answer.first < index < after:
            form, tag, start, _ = sentence[index]
            # with the spaces of the text, because other spaces would give the question tokens that the text lacks
            follows = index - 1 in indices and not answer.first <= index - 1 < after
            clause.append(Morph(form, tag, start > sentence[index - 1].end if follows else None))
    while clause and clause[0].tag in LEADING:
        clause.pop(0)
    while clause and clause[-1].tag in TRAILING:
        clause.pop()
    is_subject = particle_after(sentence, answer) in SUBJECT
    return _with_topic(clause, topic) if clause and topic and not is_subject else clause


def _with_topic(clause: list[Morph], topic: Sequence[Morph]) -> list[Morph]:
    """The clause with `topic` in place of a pronoun at its beginning, or before it where it has neither subject nor
    topic."""
    if clause[0].form in PRONOUNS and len(clause) > 1 and is_topic(clause[1]):
        return [*topic, *clause[1:]]
    if any(morph.tag == "JKS" or is_topic(morph) for morph in clause):
        return clause
    return [*topic, Morph("는", "JX"), clause[0]._replace(space=True), *clause[1:]]


def topic_of(sentence: Sequence[TaggedMorpheme]) -> list[Morph]:
    """The topic that a sentence begins with, without brackets and its particle; empty where it begins with none, or
    with a pronoun. In an encyclopedia the first sentence of an article begins with what the article is about."""
    indices = topic_indices(sentence)
    # a space after the morpheme that is really before it: a bracket that is left out leaves none; not strict, since
    # without a topic there is one space more
    spaces = [None, *(sentence[index].start > sentence[index - 1].end for index in indices[1:])]
    return [Morph(*sentence[index][:2], space) for index, space in zip(indices, spaces, strict=False)]


def topic_indices(sentence: Sequence[TaggedMorpheme]) -> list[int]:
    """The indices of the morphemes of `topic_of`."""
    indices = _without_brackets(sentence, list(range(min(len(sentence), LONGEST_LEAD))))
    end = next((count for count, index in enumerate(indices) if is_topic(sentence[index])), 0)
    tags = [sentence[index].tag for index in indices[:end]]
    if not 0 < end <= LONGEST_TOPIC or not all(tag in (*NAME_PARTS, "JKG") for tag in tags):
        return []
    return indices[:end]


def choose_question_word(
    sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate, rng: random.Random
) -> tuple[list[Morph], int]:
    """The morphemes that take the answer's place, and how many morphemes after the answer they replace as well (its
    particle). No morphemes where no question word fits."""
    following, particle = following_morpheme(sentence, answer), particle_after(sentence, answer)
    if answer.type == "number":
        return _word_for_number(sentence, answer, rng)
    if answer.type in ("date", "year"):
        return _word_for_date(sentence, answer, particle, rng)
    # 누가 asks for what is known as a person and no more, rather than 어느 사람
    if answer.hypernym not in ("", A_PERSON) and rng.random() < HYPERNYM_SHARE:
        return [Morph(rng.choice(["어느", "어떤"]), "MM"), Morph(answer.hypernym, "NNG", True)], 0
    if answer.type in ("noun", "title") and particle:
        # never 누구 or 어디: common nouns mostly name things, and so do titles
        if particle in SUBJECT:  # a question word is never a topic
            return [Morph("무엇", "NP"), Morph("이", "JKS")], 1
        return [Morph("무엇", "NP"), Morph(AFTER_CONSONANT.get(particle, particle), following.tag)], 1
    name_of = entity_type(answer.hypernym)
    if name_of == "person" and particle in INSIDE:
        return [], 0
    if particle in PLACE and name_of != "person":
        return [Morph("어디", "NP")], 0
    # a name does not say whether it is a person's
    words = {"person": ["누구"], "place": ["어디"]}.get(name_of, ["누구", "무엇", "어디"])
    if particle in SUBJECT:
        word = rng.choice(words)
        return [Morph("누가", "NP")] if word == "누구" else [Morph(word, "NP"), Morph("가", "JKS")], 1
    if particle in OBJECT:
        return [Morph(rng.choice(words if name_of else ["무엇"]), "NP"), Morph("를", "JKO")], 1
    if particle in OTHER:
        # 에게 follows what is alive
        word = "누구" if particle == "에게" and not name_of else rng.choice(words)
        return [Morph(word, "NP"), Morph("와" if particle == "과" else particle, following.tag)], 1
    # as a common noun before the copula, because Kiwi would contract 누구 and 인가 to 누군가, which means somebody
    return [Morph(words[0] if name_of else "무엇", "NNG" if following.tag == "VCP" else "NP")], 0


def particle_after(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> str:
    """The particle that follows an answer; "" where none does, as before the copula 이."""
    following = following_morpheme(sentence, answer)
    return following.form if following.tag.startswith("J") else ""


def following_morpheme(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> TaggedMorpheme:
    """The morpheme after an answer; an empty one at the end of the sentence."""
    return sentence[answer.after] if answer.after < len(sentence) else TaggedMorpheme("", "", 0, 0)


def is_part_of_date(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> bool:
    """Whether an answer is the year of a date that has a month, too, so that 언제 would not ask for the year alone."""
    return answer.type == "year" and sentence[answer.after - 1].form != "년"


def _word_for_number(
    sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate, rng: random.Random
) -> tuple[list[Morph], int]:
    """The same two values as `choose_question_word`, for a number: 몇 with the unit, or 얼마 where the unit is a sign
    or missing, mostly for money, and 얼마나 for how long something took (10년이 되었다)."""
    indices = range(answer.first + 1, answer.after)
    units = [Morph(*sentence[index][:2]) for index in indices if not is_numeral(sentence, index)]
    unit = units[-1] if units else Morph("", "SW")
    following = [morpheme.form for morpheme in sentence[answer.after : answer.after + 2]]
    if unit.form in TIME_UNITS and following in TAKES and rng.random() < HOW_LONG_SHARE:
        return [Morph("얼마나", "MAG")], 1
    if unit.tag in ("SW", "SL") or (unit.form in CURRENCIES and rng.random() < HOW_MUCH_SHARE):
        return [Morph("얼마", "NNG")], 0
    return [Morph("몇", "MM"), *units], 0


def _word_for_date(
    sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate, particle: str, rng: random.Random
) -> tuple[list[Morph], int]:
    """The same two values as `choose_question_word`, for a date. For a year words that ask for a year are drawn as
    well, and only those where the text has the month, too."""
    words = ["언제"] if not is_part_of_date(sentence, answer) else []
    if following_morpheme(sentence, answer).form == "경":  # 몇 년경, but neither 언제경 nor 몇 년도경
        return [Morph(YEAR_WORDS[0], "NP")] if answer.type == "year" else [], 0
    word = rng.choice([*words, *YEAR_WORDS]) if answer.type == "year" else "언제"
    # 언제 takes no particle, but 몇 년에 does
    return [Morph(word, "NP")], int(word == "언제" and particle in ("에", "은", "는"))


def clause_of(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> list[int]:
    """The indices of the morphemes of the clause that holds the answer, after the sentence's topic where the clause has
    no subject."""
    starts = [
        index + 1
        for index, morpheme in enumerate(sentence[:-1])
        # an auxiliary verb continues the clause
        if morpheme.tag == "EC" and morpheme.form in CLAUSE_ENDS and sentence[index + 1].tag not in ("VX", "VV")
    ]
    first = max((start for start in starts if start <= answer.first), default=0)
    after = min((start for start in starts if start >= answer.after), default=len(sentence))
    clause = list(range(first, after))
    topic = next((index for index, morpheme in enumerate(sentence[:first]) if is_topic(morpheme)), None)
    has_subject = any(sentence[index].tag == "JKS" or is_topic(sentence[index]) for index in clause)
    if topic is None or has_subject or topic >= LONGEST_TOPIC:
        return clause
    return [*range(topic + 1), *clause]


def is_topic(morpheme: TaggedMorpheme | Morph) -> bool:
    """Whether a morpheme is the particle of a topic."""
    return morpheme.tag == "JX" and morpheme.form in ("은", "는")


def joins_only(morphemes: Sequence[TaggedMorpheme | Morph], verbs: Collection[str] = UNFINISHED) -> bool:
    """Whether the last predicate is one of the `verbs` that only join what is before them to another predicate, as one
    morpheme or as two: 비롯하, 비롯|하."""
    forms = [morpheme.form for morpheme in morphemes[-2:]]
    return bool(forms) and (forms[-1] in verbs or (morphemes[-1].tag == "XSV" and "".join(forms) in verbs))


def _without_brackets(sentence: Sequence[TaggedMorpheme], indices: list[int]) -> list[int]:
    """The indices that are not in round brackets, which hold spellings in other scripts and years of birth."""
    inside = in_brackets(sentence)
    return [index for index in indices if index not in inside]


def is_past(sentence: Sequence[TaggedMorpheme]) -> bool:
    """Whether a sentence ends in the past tense, which its clauses before need not say again."""
    return any(morpheme.tag == "EP" and morpheme.form in PAST for morpheme in sentence[-5:])


def _with_question_ending(clause: list[Morph], in_past: bool, rng: random.Random) -> list[Morph] | None:
    """The clause with the ending of a question, in the past tense of its sentence where it does not end that. None
    where it ends in neither a predicate nor a noun, or holds nothing but the question word."""
    if len(clause) < 4:
        return None
    tag, before = clause[-1].tag, clause[-2]
    if tag in ("EF", "EC"):
        # 있다 and 없다 take the endings of verbs: 있는가
        is_adjective = before.tag.startswith(("VA", "XSA", "VCN")) and before.form not in ("있", "없")
        if joins_only(clause[:-1]):
            return None
        ending = "ᆫ가" if before.tag == "VCP" or is_adjective else rng.choice(ENDINGS)
        if in_past and tag == "EC" and before.tag != "EP":
            return [*clause[:-1], Morph("었", "EP"), Morph("는가" if ending == "ᆫ가" else ending, "EF")]
        return [*clause[:-1], Morph(ending, "EF")]
    return [*clause, Morph("은", "JX")] if tag.startswith(("N", "XSN")) else None
