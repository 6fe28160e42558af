"""Which questions a reader can understand, in texts that are no articles of an encyclopedia.

An article says in its first sentence what it is about, and its questions are about that. Other texts number their
sentences and cite each other (judgments, statutes), speak of us and today (speeches, petitions), and say 이 사건 and 위
규정 for what other sentences name. A question that needs those sentences is not made: fewer are better. The checks know
closed classes of words and marks of Korean, and no text.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.questions.answer_candidates import AnswerCandidate
from kobert_pipeline.questions.cloze import (
    PLACE,
    SUBJECT,
    UNFINISHED,
    Morph,
    clause_of,
    following_morpheme,
    joins_only,
    particle_after,
)
from kobert_pipeline.questions.hypernyms import PERSONS, entity_type
from kobert_pipeline.questions.sentence_parts import words_outside_brackets

LONGEST_SENTENCE, LONGEST_QUESTION = 70, 30
"""Morphemes of a sentence and of a question: in longer sentences it cannot be told to what a clause belongs."""
FEWEST_WORDS = 4
"""Nouns, verbs and numbers of its sentence that a question has, and one more where none is a name or a number, or it
could be about anything."""
_POINTING = """
이 그 저 이런 그런 이러한 그러한 이러하 그러하 이렇 그렇 이러 그러 동 본 당 각 해당 당해 위 아래 상기 전기 다음 이번
지난 금번 올 현
"""
POINTING = frozenset(_POINTING.split())
"""What before a noun points to another sentence, or to today."""
_POINTERS = """
그것 이것 그녀 그들 이들 이곳 그곳 저곳 여기 거기 저기 그토록 이토록 이때 그때 그날 이날 그동안
그간 당시 이후 이전 양국 양측 쌍방 전항 전조 전호 본항 본조 본건 본법 각호 호의 별지 별표
오늘 어제 내일 그저께 지금 현재 현행 이제 최근 앞으로 올해 금년 작년 내년 지난해 지난번 요즘 앞서
"""
POINTERS = frozenset(_POINTERS.split())
"""What stands for something in another sentence, or for a time that only who speaks knows."""
_SPEAKERS = """
나 저 우리 저희 너 너희 당신 여러분 자네 본인 자기 자신 스스로
"""
SPEAKERS = frozenset(_SPEAKERS.split())
"""Words for those who speak and listen."""
SPEAKING = ("기자", "질문", "답변", "사회자", "앵커")
"""What transcripts put before what somebody says."""
PARTY = re.compile(
    r"(원고|피고|원심|당심|망인|고인|공?소외|피?상고|피?항소|피?청구인|피?신청인|사건본인|논지|소론|판시|참가인).*"
)
"""The parties and courts of a case, and what they say: a judgment does not give their names."""
NAME_MARKS = "○●◯◇△□×"
TAKEN_OUT = re.compile(rf"[{NAME_MARKS}]+")
"""Marks in place of names, but * and ☆, which are also footnotes and ratings."""
LETTER = re.compile(rf"[A-Z]|[OX]{{2,}}|[{NAME_MARKS}*]+|[甲乙丙丁갑을병정]")
"""Letters for parties, and what is left of names that were taken out."""
ARTICLE_UNITS = ("조", "항", "호", "목", "편", "장", "절", "심")
"""What the numbers of the parts of a law, and of the courts of a case, count."""
LAW = re.compile(r".+(법|법률|령|규칙|조례|협약|조약)|헌법|[」』]")
"""The last word of the name of a law."""
_WISHES = """
바라 믿 싶 드리 빌 겠 생각 부탁 감사 당부 촉구 청원 요청 요구 기원 확신 약속 희망 환영 축하 말씀 기대 호소 다짐 사과
제안 건의
"""
WISHES = frozenset(_WISHES.split())
"""What speakers do by saying so, in a polite sentence."""
_CONJUNCTIONS = """
또한 다만 즉 한편 특히 아울러 나아가 결국 또 물론 더욱이 이처럼 이렇듯 만약
"""
CONJUNCTIONS = frozenset(_CONJUNCTIONS.split())
"""Adverbs that join a sentence to the one before it."""
SUPPOSING = ("가사", "설령", "설사", "가령")
"""Adverbs that begin what is not said to be so; Kiwi takes the first for a noun."""
STATEMENT_ENDS = ("고", "며", "으며", "지만", "으나", "나")
"""Endings of clauses that are statements of their own, unlike 비추어 and 정하여서는."""
JOINING = frozenset([*UNFINISHED, "둘러싸", "포함하", "더불", "가지", "두", "놓"])
"""Verbs that in 둘러싸고 only join what is before them to another verb."""
QUOTING = ("라고", "다고", "자고", "냐고")
"""Ends of endings of what somebody says: the clause has a subject of its own."""
ADVERBIAL = ("게", "도록")
NEGATIONS = ("않", "아니", "아니하", "없", "못하")
ENDINGS = ("EC", "EF", "ETM", "ETN")
_QUESTION_WORDS = """
무엇 누구 누가 어디 뭐 언제 몇 얼마 얼마나 왜 어떻 어찌
"""
QUESTION_WORDS = frozenset(_QUESTION_WORDS.split())
_NOT_FIRST = """
경우 이상 이하 이후 이전 다음 후 뒤 때 날 당시 결과 호 각 관여 등 및 뿐 데 바 점 것 최근 결국 현재 만약 오랫동안
오늘날 실제 사실 마찬가지
"""
_NOT_LAST = """
적 별 명목 마찬가지 대부분 물론 나름 최소한 모두 자체 서로 이상 이하 이후 이외 사이 관계 경우 때문 정도 밑 속 위
아래 안 앞 동안 중 상 시 내 외 간 전 후 때 뿐 측 등
"""
NOT_FIRST, NOT_LAST = frozenset(_NOT_FIRST.split()), frozenset(_NOT_LAST.split())
"""What no name or noun that is an answer begins and ends with."""
_BODIES = """
자 인 들 님 장 관 원 청 처 진 족 주 민 생 회 단체 기관 회의 법원 정부 기업 회사 은행 조합 기사 국가 재판부 민중
"""
BODIES = (*_BODIES.split(), *(noun for noun in PERSONS if len(noun) > 1))
"""Ends of common nouns for people and bodies, which 무엇 does not ask for."""
RATES = ("평균", "당", "간격")
"""What makes a number before it a unit: 1주 평균."""
ABOUT = ("간", "정도", "가량", "쯤", "동안", "이상", "이하", "미만", "이내")
"""Nouns that follow a number without a space and leave it one: 3개월간."""
ALTERNATIVES = ("또는", "및", "내지", "혹은", "이나", "~")
"""What joins a number to another one, so that 몇 could ask for either."""


def why_not_asked_about(sentence: Sequence[TaggedMorpheme]) -> str:
    """Why no question is made about a sentence: it is no statement, too long to be taken apart, or a wish of who
    speaks; "" where one can be made."""
    words = words_outside_brackets(sentence)
    # Kiwi tags the last ending before brackets as one that connects
    is_end = bool(words) and words[-1].tag in ("EF", "EC") and words[-1].form.endswith("다")
    if not is_end or sentence[-1].form == "?":
        return "no statement"
    if words[0].tag == "NNB":
        return "part of a sentence"  # 것과 … 나왔다
    if len(sentence) > LONGEST_SENTENCE:
        return "long"
    # 선고 2003다2802 판결, but not 선고 3년
    tags = [word.tag for word in words]
    if any(word.form == "선고" and tags[index + 1 : index + 4 : 2] == ["SN", "SN"] for index, word in enumerate(words)):
        return "citation"
    if any(second.form == ":" and first.tag != "SN" for first, second in pairwise(words)):
        return "label"
    if words[0].form in SUPPOSING and any(word.tag == "EC" and word.form.endswith("도") for word in words):
        return "supposition"  # 가사 … 하더라도, but not 가사 노동은
    if any(first.tag == "SP" and second.form == "이하" for first, second in pairwise(words)):
        return "definition"  # …, 이하 선행소송이라 한다
    if any((word.form, word.tag) == ("각각", "MAG") for word in words):
        return "respectively"  # each of several is said of one of several
    # a question would begin after the marks: ○○ 대학교, ○주식회사, but not 2×3
    if any(
        first.tag == "SW" and TAKEN_OUT.fullmatch(first.form) and second.tag.startswith("NN")
        and (len(first.form) > 1 or first.end == second.start)
        for first, second in pairwise(sentence)
    ):  # fmt: skip
        return "name taken out"
    predicate = {morpheme.form for morpheme in words[-6:-1] if not morpheme.tag.startswith("J")}
    return "wish" if words[-1].form.endswith("니다") and predicate & WISHES else ""


def why_not_asked_for(answer: AnswerCandidate, sentence: Sequence[TaggedMorpheme]) -> str:
    """Why no question asks for a candidate: it points to something, is a part of something, or names nothing that a
    question word asks for; "" where one does."""
    words = [morpheme for morpheme in sentence if answer.start <= morpheme.start < answer.end]
    before = sentence[answer.first - 1] if answer.first else TaggedMorpheme("", "", 0, 0)
    following, last = following_morpheme(sentence, answer), words[-1].form
    after = sentence[answer.after : answer.after + 2]
    if reason := why_pointing(words):
        return reason
    if following.tag.startswith("J") and any((word.form, word.tag) == ("도", "JX") for word in after):
        return "even"  # 누구도, 무엇으로도 are heard as nobody, nothing
    if following.form == "보다" and answer.type in ("noun", "name", "title"):
        return "comparison"  # 무엇보다 is heard as above all
    if following.tag == "JC" or (before.form in ("이나", "나") and before.tag.startswith("J")):
        return "one of several"  # 무엇과 응용 능력은, 반죽 작업이나 무엇이
    if PARTY.fullmatch(before.form):
        return "party"
    if answer.first and before.end == sentence[answer.first].start and before.tag not in ("SSO", "SSC", "SF"):
        return "part of a word"  # 비공산주의, 한·미
    if answer.type in ("noun", "name") and (words[0].form in NOT_FIRST or last in NOT_LAST):
        return "no name"
    if last == "분" and following.form == "의" and after[-1].tag == "SN":
        return "part of a number"  # 재적위원 3분 | 의 1
    if answer.type == "noun":
        is_body = last.endswith(BODIES) or following.form.startswith(("에게", "께", "한테", "에서"))
        return "person or body" if is_body else ""
    if answer.type not in ("number", "year", "date"):
        return ""
    return _why_no_number(answer, words, before, following)


def _why_no_number(
    answer: AnswerCandidate, words: Sequence[TaggedMorpheme], before: TaggedMorpheme, following: TaggedMorpheme
) -> str:
    """Why no question asks for the number, year or date that consists of `words`."""
    last = words[-1].form
    touches = following.start == answer.end and following.form not in ABOUT
    is_joined = touches and (following.tag in ("NNG", "NNP") or following.form == "적")
    if is_joined or (answer.type == "number" and following.form in RATES):
        return "part of a name"  # 4대강, 1차적, 1주 평균
    is_counted = words[-1].tag != "NNG" or words[-1].start == words[-2].end  # unlike 7천만 겨레
    is_named = following.tag.startswith(("NN", "MM")) and last in ("년", "월", "일")  # 10월 유신, 10년 전
    if not is_counted or is_named or last in ARTICLE_UNITS or following.form in ("전", "후", "뒤"):
        return "part of a name"
    if {before.form, following.form} & {*ALTERNATIVES} or (answer.type == "number" and following.form == "에서"):
        return "alternatives"
    # 21세기 한국은, 21세기는
    is_time = following.tag.startswith(("JKB", "SP", "VCP")) or following.form in ("에", "부터", "까지")
    return "" if answer.type == "number" or is_time else "part of a name"


def why_unclear(
    question: Sequence[Morph], sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate, is_cleft: bool
) -> str:
    """Why a reader could not understand a question without the sentences around the one it is made of; "" where one
    could."""
    particle, tags = particle_after(sentence, answer), [morph.tag for morph in question]
    if reason := why_pointing(question):
        return reason
    if len(question) > LONGEST_QUESTION:
        return "long"
    is_rest = tags[0].startswith(("J", "E", "VCP", "X", "SS")) or question[0].form in (*ARTICLE_UNITS, "등", "중", "및")
    if is_rest or (tags[0] == "SN" and tags[1].startswith("J")) or (tags[0][0] == "V" and tags[1] == "EC"):
        return "begins inside a phrase"
    if {"EF", "SF"} & {*tags[:-1]}:
        return "two sentences"
    # the question word of a cleft is one morpheme with its ending
    if sum(morph.form in QUESTION_WORDS for morph in question) > (not is_cleft):
        return "two questions"
    if any(first.form in ("어느", "어떤") and second.form in NOT_FIRST for first, second in pairwise(question)):
        return "no name"  # 어느 경우
    if question[0].form in SPEAKING and tags[1].startswith("NN"):
        return "label"  # 기자 취임하신 지
    if not is_balanced(question) or tags.count("SS") % 2:
        return "quotes"
    asks_for_person_or_place = any(morph.form.startswith(("누구", "누가", "어디")) for morph in question)
    is_known = entity_type(answer.hypernym) or (answer.hypernym and not asks_for_person_or_place)
    if answer.type == "name" and particle not in PLACE and not is_known:
        return "guess"  # 누구 or 어디 or 무엇
    if reason := _why_cut(sentence, answer):
        return reason
    if reason := _why_no_cleft(sentence, answer) if is_cleft else _why_no_statement(question, particle):
        return reason
    if particle not in SUBJECT and not has_subject(question, is_cleft):
        return "no subject"
    content = {word.form for word in sentence if word.tag.startswith(("NNG", "NNP", "VV", "VA", "XR", "SL", "SN"))}
    fewest = FEWEST_WORDS + {"NNP", "SL", "SN", "SH"}.isdisjoint(tags)
    return "few words" if sum(morph.form in content for morph in question) < fewest else ""


def is_balanced(question: Sequence[Morph]) -> bool:
    """Whether a question has as many opening as closing brackets and quotation marks: half of a quotation is a part of
    what somebody said."""
    tags = [morph.tag for morph in question]
    return tags.count("SSO") == tags.count("SSC")


def _why_no_statement(question: Sequence[Morph], particle: str) -> str:
    """Why a question with a question word in place of the answer, before `particle`, is no statement but for that
    word."""
    word = next((index for index, morph in enumerate(question) if morph.form in QUESTION_WORDS), 0)
    if question[-1].tag == "JX":
        return "no predicate"
    if word and question[word - 1].tag in ("MM", "ETM", "JKG"):
        return "attribute"  # 상당한 무엇
    if any(morph.form in NEGATIONS and morph.tag.startswith("V") for morph in question[-4:]):
        return "negation"  # 무엇을 정하지 않나요? is heard as a suggestion
    # a topic may be the object: 신고는 문서로 할 수 있다
    return "topic" if particle in ("은", "는") and question[-2].tag != "VCP" else ""


def _why_no_cleft(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> str:
    """Why what is left of a sentence without an answer does not describe it."""
    if following_morpheme(sentence, answer).tag == "JKC":
        return "complement"  # 대상이 된다
    inside = sentence[answer.after : clause_of(sentence, answer)[-1]]
    return "quoted" if any(word.tag == "EC" and word.form.endswith(QUOTING) for word in inside) else ""


def _why_cut(sentence: Sequence[TaggedMorpheme], answer: AnswerCandidate) -> str:
    """Why the clause with the answer is no statement of its own."""
    clause = clause_of(sentence, answer)
    last, after = sentence[clause[-1]], sentence[clause[-1] + 1 :]
    skipped = next((index for index in range(len(sentence)) if index not in clause), len(sentence))
    start = next((index for index in clause if index > skipped or clause[0]), 0)
    rest = [sentence[index] for index in clause if index >= start]
    if last.tag == "EC" and (last.form not in STATEMENT_ENDS or joins_only(sentence[: clause[-1]], JOINING)):
        return "subordinate clause"
    # 점검하고 | 개선해야 한다: what must be done is no statement without the end of the sentence
    if last.tag == "EC" and any(word.tag == "EC" and word.form.endswith("야") for word in after):
        return "obligation"
    # 검토하고 | 결정하는 사람: the clauses on both sides may belong to what follows
    next_ending, first_ending = _next_ending(after), _next_ending(rest)
    # 객관적이고 | 공정하게
    is_relative = last.tag == "EC" and (next_ending.tag in ("ETM", "ETN") or next_ending.form in ADVERBIAL)
    if is_relative or (start and first_ending.tag in ("ETM", "ETN")):
        return "relative clause"
    # 훼손하거나 | 제거한 사람은
    is_predicate = next((morpheme.tag[0] for morpheme in rest if morpheme.tag.startswith(("J", "E"))), "J") == "E"
    return "relative clause" if start and is_predicate else ""


def _next_ending(morphemes: Sequence[TaggedMorpheme]) -> TaggedMorpheme:
    return next((morpheme for morpheme in morphemes if morpheme.tag in ENDINGS), TaggedMorpheme("", "", 0, 0))


def without_conjunction(question: list[Morph]) -> list[Morph]:
    """A question without the adverbs that join its sentence to the one before."""
    start = 0
    while start < len(question) and (question[start].form in CONJUNCTIONS or (start and question[start].tag == "SP")):
        start += 1
    return question[start:]


def has_subject(question: Sequence[Morph], is_cleft: bool) -> bool:
    """Whether the predicate of a question has a subject or a topic, and not only a relative clause in it."""
    endings = [index for index, morph in enumerate(question) if morph.tag in ENDINGS]
    # a cleft has the predicate in its last relative clause
    main = max((index for index in endings if question[index].tag == "ETM"), default=0) if is_cleft else len(question)
    for index, (before, morph) in enumerate(pairwise(question[:main]), 1):
        follows_noun = before.tag.startswith(("N", "XSN", "SL", "SH", "SN", "SSC"))
        if follows_noun and morph.tag == "JX" and morph.form in ("은", "는", "도"):
            return True
        ending = next((other for other in endings if other > index), main)
        if morph.tag == "JKS" and (ending == main or question[ending].tag in ("EC", "EF")):
            return True
    return False


def why_pointing(morphemes: Sequence[Morph | TaggedMorpheme]) -> str:
    """Why words cannot be understood without other sentences: one points to them, to today or to those who speak, or is
    a party of a case or the letter for one, or an article without its law. "" where none does."""
    for index, morpheme in enumerate(morphemes):
        form, tag = morpheme.form, morpheme.tag
        before = morphemes[index - 1].tag if index else ""
        following = morphemes[index + 1].tag if index + 1 < len(morphemes) else ""
        if (form in SPEAKERS and tag.startswith(("NP", "NNG", "MAG"))) or form == "께서":
            return "speaker"
        if form in POINTERS or (tag == "NP" and form in ("이", "그", "저")):
            return "pointer"
        if form in POINTING and following and (
            tag.startswith(("MM", "VA", "XR"))
            or (tag in ("NNG", "XPN") and following.startswith(("N", "MM", "XPN", "SN", "SL")))
            or (form in ("위", "아래", "다음") and following.startswith(("J", "SS")))
        ):  # fmt: skip
            return "pointer"
        # 이상의 소견, but not 60점 이상의 점수
        if (index, form, following) == (0, "이상", "JKG"):
            return "pointer"
        # 지난 10년, and 같은 날, but not 이와 같은 날
        if following == "ETM" and (form == "지나" or (form == "같" and before not in ("JC", "JKB"))):
            return "pointer"
        if form == "제" and _is_part_of_law(morphemes, index):
            return "article"
        # Kiwi splits 공소외, and 원고 and 피고 before a number
        if tag.startswith("NN") and (PARTY.fullmatch(form) or (form, following) == ("공소", "NNB")):
            return "party"
        if form == "고" and following == "SN" and index and morphemes[index - 1].form in ("원", "피"):
            return "party"
        is_name = tag in ("SL", "SH", "NNG", "NNP") and _stands_alone(morphemes, index)
        if LETTER.fullmatch(form) and (tag == "SW" or is_name):
            return "letter"
    return ""


def _stands_alone(morphemes: Sequence[Morph | TaggedMorpheme], index: int) -> bool:
    """Whether only a particle or a space follows a morpheme: A 지점, but not A형."""
    morpheme, following = morphemes[index], next(iter(morphemes[index + 1 :]), None)
    if following is None or following.tag.startswith(("J", "SP")):
        return True
    if isinstance(morpheme, TaggedMorpheme) and isinstance(following, TaggedMorpheme):
        return following.start > morpheme.end
    return isinstance(following, Morph) and bool(following.space)


def _is_part_of_law(morphemes: Sequence[Morph | TaggedMorpheme], index: int) -> bool:
    """Whether an article without the name of its law is at a morpheme: 제1항, but not 형법 제114조 제1항."""
    if index + 2 >= len(morphemes) or morphemes[index + 2].form not in ARTICLE_UNITS:
        return False
    before = index - 1
    while before >= 0 and (morphemes[before].form in ("제", "의", *ARTICLE_UNITS) or morphemes[before].tag == "SN"):
        before -= 1
    return before < 0 or not LAW.fullmatch(morphemes[before].form)
