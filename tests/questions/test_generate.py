"""Questions made from statements: the rules on single sentences, and what holds for every question of a corpus."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kobert_pipeline.corpus.decontaminate import EvaluationTexts
from kobert_pipeline.corpus.document import Document, document_parts, read_documents, write_documents
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.questions import generate
from kobert_pipeline.questions.answer_candidates import AnswerCandidate, candidates_in_sentence, tagged_sentences
from kobert_pipeline.questions.answer_priors import SLOTS, _slots
from kobert_pipeline.questions.cleft import ask_by_cleft
from kobert_pipeline.questions.cloze import Morph, ask_in_place, topic_of
from kobert_pipeline.questions.entity_types import EntityTypes
from kobert_pipeline.questions.generate import (
    QuestionGeneration,
    ask,
    examples_of,
    generate_questions,
    join,
    other_sentence,
    paragraphs_of,
)
from kobert_pipeline.questions.question_type import classify_question

NOTHING = EvaluationTexts(set())
PARAGRAPH = (
    "세종대왕은 1443년에 훈민정음을 창제하였다. 훈민정음은 세종대왕이 백성을 위해 만든 글자이며, 1446년에 반포하였다. "
    "집현전의 학자 8명이 해설서를 지었고, 이 책은 1940년 경상북도 안동에서 발견되어 1962년 국보로 지정되었다. "
    "오늘날 훈민정음은 유네스코가 정한 기록유산이며, 높이 33cm의 책은 서울에 있다."
)


def questions_about(text: str, seed: int = 1, form: Any = ask_in_place) -> dict[str, str]:
    """{answer: question} of a text."""
    questions = {}
    for sentence in tagged_sentences(text):
        for candidate in candidates_in_sentence(text, sentence):
            question = form(sentence, candidate, random.Random(seed))
            questions[text[candidate.start : candidate.end]] = join(question) + "?" if question else ""
    return questions


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("이 절은 충청북도 보은군에 있으며, 높이는 22m이다.",
         {"충청북도 보은군": "이 절은 어디에 있(PAST)", "22m": "높이는 얼마인가"}),
        ("김유신은 595년에 태어났고, 화랑이 되어 군사 10명을 이끌었다.",
         {"595년": "김유신은 (언제|몇 년에|몇 년도에|어느 해에) 태어났(PAST)",
          "10명": "김유신은 군사 몇 명을 이끌었(PAST)"}),
        ("한강(漢江)은 서울을 지나 서해로 흐른다.",
         {"서울": "한강은 무엇을 지(나는가|나나요?|날까|납니까)",
          "서해": "한강은 어디로 (흐르는가|흐르나요?|흐를까|흐릅니까)"}),
        ("이 단체는 웹 브라우저를 위한 표준화를 철도 노선과 함께 다루었다.",
         {"웹 브라우저": "이 단체는 (무엇을|(어느|어떤) 브라우저를) 위한 표준화를 철도 노선과 함께 다뤘(PAST)",
          "철도 노선": "이 단체는 웹 브라우저를 위한 표준화를 무엇과 함께 다뤘(PAST)"}),
        # the answer is a name without what says whose it is
        ("최진철은 소설가 김동인을 안익수 감독과 함께 만났다.",
         {"김동인": "최진철은 (누구를|(어느|어떤) 소설가를) 안익수 감독과 함께 만났(PAST)",
          "안익수": "최진철은 소설가 김동인을 (누구와|(어느|어떤) 감독과) 함께 만났(PAST)"}),
        ("이 밴드는 1980년대에 노래했다.", {"1980년대": "이 밴드는 몇 년대에 노래했(PAST)"}),
        ("비교적 작은 배우가 상대적으로 큰 무대에 올랐다.", {}),
        # before the copula, where Kiwi would contract 누구 and 인가 to somebody
        ("이 책을 쓴 사람은 소설가 김동인이다.", {"김동인": "이 책을 쓴 사람은 (누구인가|(어느|어떤) 소설가인가)"}),
        ("이 나라는 인구 300만 명을 넘었다.", {"300만 명": "이 나라는 인구 몇 명을 넘었(PAST)"}),
        ("이 회사는 3억 5000만 원을 3번째로 20여 명에게 주었다.",
         {"3억 5000만 원": "이 회사는 (얼마를|몇 원을) 3번째로 20여 명에게 (줬|주었)(PAST)",
          "3번째": "이 회사는 3억 5000만 원을 몇 번째로 20여 명에게 (줬|주었)(PAST)",
          "20여 명": "이 회사는 3억 5000만 원을 3번째로 몇 명에게 (줬|주었)(PAST)"}),
        ("이 회사는 돈 300만을 벌었다.", {"300만": "이 회사는 돈 얼마를 벌었(PAST)"}),
        # the year alone, too, but never by 언제, which would ask for the day
        ("김유신은 1443년 5월 3일에 태어났다.",
         {"1443년 5월 3일": "김유신은 언제 태어났(PAST)",
          "1443년": "김유신은 (몇 년|몇 년도|어느 해)에 태어났(PAST)"}),
        ("김유신은 1443년도에 태어났다.", {"1443년도": "김유신은 몇 년도에 태어났(PAST)"}),
        # titles in quotes, and names before another spelling in brackets
        ("김유신은 영화 《좋은 날의 꿈》(1997년)을 만들었다.",
         {"좋은 날의 꿈": "김유신은 (무엇을|(어느|어떤) 영화를) 만들었(PAST)"}),
        ("김유신은 정규 앨범 《좋은 날의 꿈》을 만들었다.",
         {"좋은 날의 꿈": "김유신은 (무엇을|(어느|어떤) 앨범을) 만들었(PAST)"}),
        ("영화 《좋은 날의 꿈》은 김유신에게 상을 주었다.",
         {"좋은 날의 꿈": "(무엇이|(어느|어떤) 영화는) 김유신에게 상을 (줬|주었)(PAST)",
          "김유신": "영화 《좋은 날의 꿈》은 누구에게 상을 (줬|주었)(PAST)"}),
        # a number ends where another one or a date begins, and is no part of what it measures
        ("이 열차는 시속 100km로 달렸다.", {"100km": "이 열차는 시속 얼마로 달렸(PAST)"}),
        ("김유신은 30만 2010년에 넘었다.",
         {"30만": "김유신은 얼마 2010년에 넘었(PAST)",
          "2010년": "김유신은 30만 (언제|몇 년에|몇 년도에|어느 해에) 넘었(PAST)"}),
        ("김유신은 595년경에 태어났다.", {"595년": "김유신은 몇 년경에 태어났(PAST)"}),
        ("김유신은 경주에서 김춘추(金春秋, 무열왕(武烈王))를 도왔다.",
         {"경주": "김유신은 어디에서 김춘추를 도왔(PAST)", "김춘추": "김유신은 경주에서 무엇을 도왔(PAST)"}),
        ("김유신은 “좋은 날이다.”라고 말했다.", {"김유신": "(누가|무엇이|어디가) “좋은 날이다.”라고 말했(PAST)"}),
        ("경주에서는 김유신(金庾信)을 기렸다.", {"김유신": "경주에서는 무엇을 기렸(PAST)"}),
    ],
)  # fmt: skip
def test_the_question_word_fits_the_answer_and_its_particle(statement: str, expected: dict[str, str]) -> None:
    for seed in range(40):
        questions = questions_about(statement, seed)
        assert bool(questions) == bool(expected), questions
        for answer, form in expected.items():
            pattern = form.replace("PAST", "는가|나요?|을까|습니까") + r"\?"
            assert re.fullmatch(pattern, questions[answer]), questions[answer]


ARTICLES = (
    "박민수(朴民秀, 1912년 3월 1일 ~ 1954년)는 대한민국의 배우이자 가수이다.",
    "라온(Raon)은 경기도의 도시이다.",
    "그는 학자이다.",
    "다온은 게임의 일종이다.",
    "가온은 배우인 김민수가 세운 도시이다.",
)
MENTIONS = "소설가 정해윤이 썼다. 소설가 정해윤은 미르강에서 태어났다. 미르강에서 놀았다. 소설가 최바른이 왔다."
MENTIONS += " 대통령 미르강이 있다. 대통령 미르강을 보라. 대통령 미르강은 길다."  # 대통령 may speak
NOUNS = {"박민수": "배우", "라온": "도시", "가온": "도시", "정해윤": "소설가", "미르강": "곳"}


def test_the_corpus_says_what_its_names_are() -> None:
    entity_types = EntityTypes()
    for article in ARTICLES:
        entity_types.add_article(article, tagged_sentences(article)[0])
    for sentence in tagged_sentences(MENTIONS):
        entity_types.add_mentions(MENTIONS, sentence)
    assert entity_types.nouns() == NOUNS
    person = "소설가 정해윤은 컸다. " * 9 + "정해윤에서 왔다. 정해윤에서 갔다."
    for sentence in tagged_sentences(person):
        entity_types.add_mentions(person, sentence)
    assert entity_types.nouns()["정해윤"] == "소설가", "에서 by a slip makes no place of a person"


@pytest.mark.parametrize(
    ("nouns", "expected"),
    [(NOUNS, r"(누구|(어느|어떤) 배우)를 널리 알|알린 (배우|사람)[은는의]"), ({}, r"무엇을 널리 알|것은")],
)
def test_questions_about_names_use_what_the_names_are(nouns: dict[str, str], expected: str) -> None:
    text = "이 영화는 1972년에 다른 배우들과 함께 박민수를 널리 알렸다."
    examples = [
        example
        for number in range(60)
        for example in examples_of(f"d#{number}", text, 9, "라온은 대한민국의 영화이다.", nouns)
    ]
    questions = {example["question"] for example in examples if example["answers"][0][0] == "박민수"}
    assert len(questions) > 2 and all(re.search(expected, question) for question in questions), questions


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (("3", "SN"), "3은 3이 3을 3과 3으로"), (("2", "SN"), "2는 2가 2를 2와 2로"),
        (("8", "SN"), "8은 8이 8을 8과 8로"),
        (("UN", "SL"), "UN은 UN이 UN을 UN과 UN으로"), (("GDP", "SL"), "GDP는 GDP가 GDP를 GDP와 GDP로"),
        (("NASA", "SL"), "NASA는 NASA가 NASA를 NASA와 NASA로"),
        (("등대", "NNG"), "등대는 등대가 등대를 등대와 등대로"), (("섬", "NNG"), "섬은 섬이 섬을 섬과 섬으로"),
    ],
)  # fmt: skip
def test_particles_fit_what_they_follow(word: tuple[str, str], expected: str) -> None:
    particles = ("은", "JX"), ("이", "JKS"), ("을", "JKO"), ("과", "JKB"), ("으로", "JKB")
    joined = [join([Morph(*word), Morph(*particle), Morph("보", "VV"), Morph("는", "ETM")]) for particle in particles]
    assert " ".join(text.split()[0] for text in joined) == expected
    street = [Morph("종로", "NNP"), Morph("3", "SN"), Morph("가", "NNG"), Morph("는", "JX"), Morph("길", "VA")]
    assert join([*street, Morph("다", "EF")]).replace(" ", "") == "종로3가는길다"
    assert join([Morph("MP", "SL"), Morph("3", "SN", False), Morph("는", "JX")]) == "MP3는"


def test_nobody_is_inside_a_person() -> None:
    statement = "그는 소설가 김동인에서 필명을 땄다."
    forms = (ask_in_place, ask_by_cleft)
    questions = {questions_about(statement, seed, form)["김동인"] for seed in range(40) for form in forms}
    assert "" in questions and len(questions) > 1
    pattern = "그는 (어느|어떤) 소설가에서 필명을 땄.*"
    assert all(re.fullmatch(pattern, question) for question in questions - {""}), questions


@pytest.mark.parametrize(
    ("statement", "answer", "expected"),
    [
        ("등대의 입장료는 300원이다.", "300원", {"얼마인가", "몇 원인가"}),
        ("김유신은 5달러로 말을 샀다.", "5달러", {"얼마로 말을", "몇 달러로 말을"}),
        ("등대가 선 지 10년이 되었다.", "10년", {"선 지 얼마나", "선 지 몇 년이"}),
        ("등대를 짓는 데 3개월이 걸렸다.", "3개월", {"얼마나 걸렸", "몇 개월이 걸렸"}),
    ],
)
def test_money_and_time_are_asked_for_with_how_much(statement: str, answer: str, expected: set[str]) -> None:
    questions = {questions_about(statement, seed)[answer] for seed in range(40)}
    assert {part for part in expected if any(part in question for question in questions)} == expected
    assert {classify_question(question).types for question in questions} == {("number",)}


def test_years_are_asked_for_in_several_ways() -> None:
    questions = {questions_about("김유신은 595년에 태어났다.", seed)["595년"].split("에 ")[0] for seed in range(60)}
    assert {"김유신은 몇 년", "김유신은 몇 년도", "김유신은 어느 해"} < questions


@pytest.fixture
def topic() -> list[Any]:
    lead = "헤이그 특사(1907년)는 고종이 보낸 밀사이다. 이들은 거절당했다."
    return topic_of(tagged_sentences(lead)[0])


@pytest.mark.parametrize(
    ("statement", "cleft", "in_place"),
    [
        (
            "1907년 네덜란드에서 평화 회의에 참석하려고 했다.",
            r"헤이그 특사가 1907년 .*",
            r"헤이그 특사는 1907년 .*",
        ),
        (
            "그는 네덜란드에서 열린 평화 회의를 다루었다.",
            r"헤이그 특사가 네덜란드에서 .*",
            r"헤이그 특사는 네덜란드에서 .*",
        ),
        ("고종은 네덜란드에서 열린 평화 회의를 다루었다.", r"고종이 네덜란드에서 .*", r"고종은 네덜란드에서 .*"),
    ],
)
def test_a_sentence_without_a_subject_is_about_the_topic_of_its_document(
    statement: str, cleft: str, in_place: str, topic: list[Any]
) -> None:
    [sentence] = tagged_sentences(statement)
    answer = list(candidates_in_sentence(statement, sentence))[-1]
    for form, expected in ((ask_by_cleft, cleft), (ask_in_place, in_place)):
        question = form(sentence, answer, random.Random(1), topic)
        assert question is None or re.fullmatch(expected, join(question)), join(question)


def test_who_is_asked_for_is_not_the_topic_as_well(topic: list[Any]) -> None:
    statement = "네덜란드가 평화 회의를 열었다."
    [sentence] = tagged_sentences(statement)
    answer = next(iter(candidates_in_sentence(statement, sentence)))
    question = ask_in_place(sentence, answer, random.Random(1), topic)
    assert question and "특사" not in join(question)


@pytest.mark.parametrize(
    ("lead", "expected"),
    [
        ("헤이그 특사(1907년)는 고종이 보낸 밀사이다.", "헤이그 특사"),
        ("헤이그(Den Haag) 특사(1907년)는 고종이 보낸 밀사이다.", "헤이그 특사"),
        ("그는 학자이다.", ""),
        ("비가 온다.", ""),
    ],
)
def test_the_topic_is_what_the_first_sentence_begins_with(lead: str, expected: str) -> None:
    assert join(topic_of(tagged_sentences(lead)[0])) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("김유신", {"누가", "무엇이", "어디가"}), ("세종대왕", {"누가", "어느", "어떤"})]
)
def test_subjects_are_asked_for_with_a_word_for_people_things_or_places(name: str, expected: set[str]) -> None:
    questions = [questions_about(f"{name}이 훈민정음을 창제하였다.", seed)[name] for seed in range(40)]
    assert {question.split()[0] for question in questions} == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("세종대왕은 1443년에 훈민정음을 창제하였다.",
         {"세종대왕": "1443년에 훈민정음을 창제한 (사람|대왕)(은|의 이름은)( (누구|무엇)(인가요?|일까|이?야|입니까))?.",
          "1443년": "세종대왕이 훈민정음을 창제한 (때는|것은|해는|연도는)( 언제(인가요?|일까|야|입니까))?\\?",
          "훈민정음": "세종대왕이 1443년에 창제한 것은( 무엇(인가요?|일까|이야|입니까))?\\?"}),
        ("이 사람은 서울 법원에서 다시 벌을 받았다.",
         {"서울 법원": "이 사람이 다시 벌을 받은 (법원|곳)(은|의 이름은).*"}),
        ("이 사람은 영화 《좋은 날의 꿈》에서 다시 벌을 받았다.",
         {"좋은 날의 꿈": "이 사람이 다시 벌을 받은 영화(은|는).*"}),
        ("김유신은 1443년 5월 3일에 서라벌에서 태어났다.",
         {"김유신": "1443년 5월 3일에 서라벌에서 태어난 (사람|인물|것|곳)(은|의 이름은).*",
          "1443년 5월 3일": "김유신이 서라벌에서 태어난 (때는|것은|날짜는).*",
          "1443년": "김유신이 서라벌에서 태어난 (해는|연도는).*",
          "서라벌": "김유신이 1443년 5월 3일에 태어난 곳(은|의 이름은).*"}),
        ("한국에서는 경주가 가장 아름다웠다.",
         {"한국": "경주가 가장 아름다웠던 곳(은|의 이름은).*",
          "경주": "한국에서 가장 아름다웠던 (사람|인물|것|곳)(은|의 이름은).*"}),
        ("위대한 김유신은 서라벌에 살았다.",
         {"김유신": "",  # 위대한 would have nothing to describe
          "서라벌": "위대한 김유신이 산 곳(은|의 이름은).*"}),
        ("이 책은 서울에 있는 철도 박물관에 있다.", {"서울": "", "철도 박물관": ""}),
        ("이 책은 표준어를 다루어 널리 알려졌다.", {"표준어": "이 책이 다룬 것은.*"}),
        ("미국의 소설가 헤밍웨이는 쿠바에서 살았다.",
         {"미국": "", "헤밍웨이": "쿠바에서 산 미국의 소설가(는|의).*", "쿠바": "미국의 소설가 헤밍웨이가 산 곳.*"}),
        ("이 전투에서 병사 3천 명이 죽었다.",
         {"3천 명": "이 전투에서 죽은 병사는( 몇 명(인가요?|일까|이야|입니까))?\\?"}),
        ("그 팀은 이 대회에서 3회 우승하였다.", {"3회": "그 팀이 이 대회에서 우승한 횟수는( 몇 회.*)?\\?"}),
        ("그 팀은 이 대회에서 3회 정도 우승하였다.", {"3회": ""}),
        ("세종은 조선의 제4대 국왕이다.", {"세종": "조선의 제4대 국왕은( 누구.*| 무엇.*| 어디.*)?\\?", "조선": ""}),
        ("김유신은 1443년 서라벌에서 태어나고 오래 살았다.",
         {"김유신": "1443년 서라벌에서 태어난 .*", "1443년": "김유신이 서라벌에서 태어난 (때|해|연도|것).*",
          "서라벌": ""}),  # 1443년 may belong to it
        ("쿠바에서 산 헤밍웨이는 소설을 썼다.", {"쿠바": "", "헤밍웨이": ""}),  # 쿠바에서 산 would describe nothing
    ],
)  # fmt: skip
def test_a_cleft_describes_what_is_asked_for(statement: str, expected: dict[str, str]) -> None:
    for seed in range(40):
        questions = questions_about(statement, seed, form=ask_by_cleft)
        assert list(questions) == list(expected)
        for answer, pattern in expected.items():
            assert re.fullmatch(pattern, questions[answer]), questions[answer]


def test_clefts_come_first_up_to_their_share_and_long_questions_last(monkeypatch: pytest.MonkeyPatch) -> None:
    context = "가나다라마바사아자차"
    kinds = {"가": "long", "나": "short", "다": "cleft", "라": "cleft", "마": "short", "바": "cleft", "사": "cleft",
             "아": "cleft of a noun", "자": "none", "차": "short"}  # fmt: skip
    candidates = [
        (0, AnswerCandidate(index, index + 1, "noun" if kind.endswith("noun") else "name", index, index + 1))
        for index, kind in enumerate(kinds.values())
    ]

    def asked(sentence: Any, answer: AnswerCandidate, *more: Any) -> tuple[str, bool]:
        kind = kinds[context[answer.start]]
        length = {"long": generate.LONG, "none": 0}.get(kind, 9)
        return "?" * length + ("!" if kind == "long" else ""), kind.startswith("cleft")

    monkeypatch.setattr(generate, "ask", asked)
    for count, expected in ((5, "다라바나마"), (3, "다라나"), (9, "다라바사나마아차가")):
        chosen = generate.questions_on(context, [[]], candidates, count, random.Random(1), [], True)
        assert "".join(context[candidate.start] for _, candidate, _ in chosen) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "세종은 1443년 집현전을 비롯하여 많은 곳을 세웠다.",
        "세종은 1443년 반대에도 불구하고 훈민정음을 만들었다.",
        "세종은 1443년 백성과 관련하여 훈민정음을 만들었다.",
    ],
)
@pytest.mark.parametrize("form", [ask_by_cleft, ask_in_place])
def test_no_question_is_a_fragment(statement: str, form: Any) -> None:
    for seed in range(20):
        for question in questions_about(statement, seed, form).values():
            assert not re.search("(비롯|불구|관련)(한|하는|했|하였|하나|할)", question), question


@pytest.mark.parametrize(
    ("statement", "is_asked"),
    [
        ("세종은 1443년에 “백성을 위한 글자”라고 부른 훈민정음을 서울에서 만들었다.", True),
        ("세종은 서울에서 “백성을 위한 글자를 만들고, 1443년에 훈민정음을 반포하였다.", False),
    ],
)
def test_a_whole_quotation_may_be_in_a_question_and_no_half_of_one(statement: str, is_asked: bool) -> None:
    [sentence] = tagged_sentences(statement)
    candidates = candidates_in_sentence(statement, sentence)
    asked = {ask(sentence, candidate, random.Random(seed))[0] for candidate in candidates for seed in range(20)}
    quoted = {question for question in asked if "“" in question or "”" in question}
    assert all(question.count("“") == question.count("”") for question in quoted)
    assert bool(quoted) == is_asked


def test_what_is_no_statement_gives_no_question() -> None:
    sentence = [TaggedMorpheme("서울", "NNP", 0, 2), TaggedMorpheme("에서", "JKB", 2, 4)]
    [answer] = candidates_in_sentence("서울에서", sentence)
    assert {ask(sentence, answer, random.Random(seed)) for seed in range(10)} == {("", False)}


def corpus_of(folder: Path, *documents: Document) -> Path:
    folder.mkdir()
    write_documents(folder / "part-00000.parquet", documents)
    return folder


def test_every_question_of_a_corpus_has_its_answer_in_its_context(tiny: Any) -> None:
    corpus = tiny.run_dir / "corpus"
    examples = generate_questions(QuestionGeneration(questions=200, per_context=3), corpus, NOTHING)
    texts = {document.id: document.text for part in document_parts(corpus) for document in read_documents(part)}
    assert len(examples) > 20 and len({example["id"] for example in examples}) == len(examples)
    for example in examples:
        [(answer, start)] = example["answers"]
        assert example["context"][start : start + len(answer)] == answer
        assert answer not in example["question"] and example["question"].endswith("?")
        assert any(example["group"] in text.replace("\n", " ") for text in texts.values())
    assert generate_questions(QuestionGeneration(questions=200, per_context=3), corpus, NOTHING) == examples
    assert generate_questions(QuestionGeneration(questions=7, per_context=3), corpus, NOTHING) == examples[:7]


def test_the_answer_may_be_in_another_sentence_that_shares_words() -> None:
    sentences = tagged_sentences(PARAGRAPH)
    candidates = candidates_in_sentence(PARAGRAPH, sentences[0])
    [answer] = [candidate for candidate in candidates if PARAGRAPH[candidate.start : candidate.end] == "세종대왕"]
    elsewhere = other_sentence(PARAGRAPH, sentences, 0, answer)
    assert elsewhere
    context, start = elsewhere
    assert context.startswith("훈민정음은") and context[start:].startswith("세종대왕이 백성을")
    examples = [
        example for number in range(40) for example in examples_of(f"d#{number}", PARAGRAPH, 3, "훈민정음은 글자이다.")
    ]
    moved = [example for example in examples if example["context"] != PARAGRAPH]
    assert moved
    for example in moved:
        [(text, start)] = example["answers"]
        assert len(example["context"]) < len(PARAGRAPH) and example["context"][start:].startswith(text)
        assert example["group"] == PARAGRAPH


ORDERED, UNORDERED = Document("a", "wiki.jsonl", PARAGRAPH), Document("b", "reviews.jsonl", PARAGRAPH, ordered=False)


def test_only_named_sources_are_asked_about(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "corpus", ORDERED, UNORDERED)
    assert generate_questions(QuestionGeneration(sources=("wiki*",)), corpus, NOTHING)


@pytest.mark.parametrize(
    ("documents", "sources", "evaluation_texts", "expected"),
    [
        ([ORDERED, UNORDERED], ("reviews*",), set(), r" of reviews\*: .* have 0 paragraphs of 150 to 1,000"),
        ([ORDERED, UNORDERED], (), {PARAGRAPH}, ": .* have 1 paragraphs .*, 0 of which overlap no evaluation"),
        (
            [Document("a", "notes.txt", "비가 왔다.\n산에 갔다.")], (), set(),
            ": .* have 0 paragraphs .*; add texts of several sentences",
        ),
    ],
    ids=["unordered", "evaluation texts", "short"],
)  # fmt: skip
def test_a_corpus_without_questions_is_refused_with_the_reason(
    documents: list[Document], sources: tuple[str, ...], evaluation_texts: set[str], expected: str, tmp_path: Path
) -> None:
    corpus = corpus_of(tmp_path / "corpus", *documents)
    with pytest.raises(UserError, match=f"no question can be made from the corpus{expected}"):
        generate_questions(QuestionGeneration(sources=sources), corpus, EvaluationTexts(evaluation_texts))


def test_a_run_learns_from_made_questions_too(tiny: Any, kobert: Any, tmp_path: Path) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "tiny", "corpus", "analysis", "tokenizer")
    arguments = ["--run-dir", run_dir, "--set", "features.korquad.synthesize={questions: 30}"]
    assert kobert("features", tiny.recipe, *arguments).code == 0
    counts = tiny.manifests(run_dir)["features/korquad"]["counts"]
    plain = tiny.manifests()["features/korquad"]["counts"]
    assert counts["train_examples_synthetic"] == 30
    assert counts["train_examples"] == plain["train_examples"] + 30
    assert {name: counts[name] for name in ("dev_windows", "test_windows")} == {
        name: plain[name] for name in ("dev_windows", "test_windows")
    }


def test_without_questions_dev_is_made_too(tiny: Any, kobert: Any, tmp_path: Path) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "tiny", "corpus", "analysis", "tokenizer")
    features = "{task: korquad, test: qa_dev.json, dev_share: %s, synthesize: {questions: 30}, max_length: 256}"
    arguments = ["--run-dir", run_dir, "--set"]
    assert kobert("features", tiny.recipe, *arguments, f"features.korquad={features % 0.3}").code == 0
    counts = tiny.manifests(run_dir)["features/korquad"]["counts"]
    assert counts["dev_examples"] > 0
    assert counts["train_examples_synthetic"] == counts["train_examples"] == 30 - counts["dev_examples"]
    assert counts["dev_examples_synthetic"] == counts["dev_examples"]
    folder = run_dir / "features/korquad"
    contexts = {
        split: {
            json.loads(line)["group"] for line in (folder / split / "examples.jsonl").read_text("utf-8").splitlines()
        }
        for split in ("train", "dev")
    }
    assert contexts["train"].isdisjoint(contexts["dev"])
    assert counts["synthetic_made"] == 30
    refused = kobert("features", tiny.recipe, "--redo", *arguments, f"features.korquad={features % 0.0001}")
    assert "30 are for train and 0 for dev, but both need one; raise dev_share (now 0.0001)" in refused.complaint
    again = kobert("features", tiny.recipe, "--redo", *arguments, f"features.korquad={features % 0.4}")
    assert again.code == 0, again.complaint
    assert "30 of 30 questions made from the corpus" in " ".join(again.out.split())


def test_a_checkpoint_learns_from_made_questions_without_more_pretraining(
    tiny: Any, kobert: Any, tmp_path: Path
) -> None:
    content = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    task = {"task": "korquad", "dev_share": 0.3, "max_length": 256, "synthesize": {"questions": 30}}
    recipe = {
        "checkpoint": str(tiny.run_dir / "publish" / "korquad"), "corpus": content["corpus"],
        "data_dir": content["data_dir"], "pretrain": {"total_tokens": 0}, "features": {"own": task},
        "finetune": {"own": {"plan": {"epochs": 1, "batch_size": 8}}},
        "publish": {"own": {"source": "own", "onnx": False}},
    }  # fmt: skip
    path, run_dir = tmp_path / "own.yaml", tmp_path / "runs" / "own"
    path.write_text(yaml.safe_dump(recipe, allow_unicode=True), encoding="utf-8")
    rows = kobert("run", path, "--run-dir", run_dir, "--json").json["stages"]
    assert [row["stage"] for row in rows] == ["checkpoint", "corpus", "features", "finetune", "publish"]
    assert rows[2]["counts"]["synthetic_made"] == 30
    card = (run_dir / "publish" / "own" / "README.md").read_text(encoding="utf-8")
    assert re.search(r"documents/.*\| make examples \|", card)
    history = json.loads((run_dir / "publish" / "own" / "training_manifest.json").read_text(encoding="utf-8"))
    assert set(history["stages"]) == {"checkpoint", "corpus", "features/own", "finetune/own/1"}
    assert history["recipe"]["pretrain"] == {"total_tokens": 0}
    assert {"corpus", "shards", "tokenizer"} & history["recipe"].keys() == {"corpus"}
    assert Recipe.model_validate(history["recipe"] | {"checkpoint": recipe["checkpoint"]}).continues is False
    said = kobert("pretrain", path).complaint
    assert f"{path} has no stage pretrain; its stages are checkpoint, corpus, features, finetune, publish" in said
    for setting, reason in (
        ("features.own.synthesize=null", "no features make examples from the corpus"),
        ("pretrain.max_length=64", "so its other options are not used"),
    ):
        assert reason in kobert("check", path, "--set", "features.own.train=qa_train.json", "--set", setting).complaint
    refused = kobert("check", tiny.recipe, "--set", "pretrain.total_tokens=0").complaint
    assert "pretrain.total_tokens is 0, which is for a recipe with a checkpoint" in refused


def test_questions_for_another_task_are_refused(tiny: Any) -> None:
    recipe = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8"))
    recipe["features"]["nsmc"]["synthesize"] = {}
    with pytest.raises(ValueError, match=r"features\.nsmc\.synthesize makes questions"):
        Recipe.model_validate(recipe)


def test_a_token_has_as_many_candidates_as_there_are_slots() -> None:
    offsets, candidates = [(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1, 1), (0, 2, 0), (0, 3, 1), (1, 9, 1), (2, 4, 1)]
    slots = _slots(offsets, candidates)
    assert SLOTS == 2 and slots[0] == [[1, 2], [1, 0]], "the first ones"
    assert slots[1] == slots[3] == [[0, 0], [0, 0]] and slots[2] == [[2, 0], [1, 0]]


def test_a_long_paragraph_is_cut_between_sentences_and_loses_none() -> None:
    sentence = "등대는 밤마다 멀리 있는 배에 빛을 비추어 길을 알려 준다. "
    endless = "등대는 " + "바다를 비추고 " * 200 + "섰다."
    text = f"{sentence * 100}\n짧은 문단이다.\n{sentence * 20}{endless} {sentence * 40}"
    contexts = list(paragraphs_of(Document("a", "petitions.jsonl", text)))
    assert all(150 <= len(context) <= 1000 for _, context in contexts)
    assert len({identity for identity, _ in contexts}) == len(contexts)
    assert contexts[0][0] == "a#0" and contexts[1][0] == "a#0.1"
    together = " ".join(context for _, context in contexts)
    assert together.count(sentence.strip()) == 160, "all but the sentence that is longer than a context"
    assert list(paragraphs_of(Document("a", "wiki.jsonl", PARAGRAPH))) == [("a#0", PARAGRAPH)]
