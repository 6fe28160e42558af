"""What is not asked about outside of articles, because a reader of the question alone could not understand it."""

import random

import pytest

from kobert_pipeline.questions.answer_candidates import AnswerCandidate, candidates_in_sentence, tagged_sentences
from kobert_pipeline.questions.articles import is_article, lead_of
from kobert_pipeline.questions.clarity import (
    why_not_asked_about,
    why_not_asked_for,
    why_pointing,
    why_unclear,
    without_conjunction,
)
from kobert_pipeline.questions.cleft import ask_by_cleft
from kobert_pipeline.questions.cloze import Morph, ask_in_place
from kobert_pipeline.questions.generate import examples_of, join
from kobert_pipeline.questions.sentence_parts import parts_of


def candidate_of(text: str, answer: str) -> AnswerCandidate:
    """The candidate of the one sentence of a text that is `answer`."""
    [sentence] = tagged_sentences(text)
    candidates = candidates_in_sentence(text, sentence)
    return next(candidate for candidate in candidates if text[candidate.start : candidate.end] == answer)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1. 등대는 바다를 비춘다. 2. 부두는 배를 맞는다.", ["등대는 바다를 비춘다.", "부두는 배를 맞는다."]),
        ("가. 등대는 바다를 비춘다.", ["등대는 바다를 비춘다."]),
        ("제12조(목적) 등대는 바다를 비춘다.", ["(목적) 등대는 바다를 비춘다."]),
        ("제12조의2 ① 등대는 바다를 비춘다. ② 부두는 배를 맞는다.", ["등대는 바다를 비춘다.", "부두는 배를 맞는다."]),
        ("제12조에 따라 등대는 바다를 비춘다.", ["제12조에 따라 등대는 바다를 비춘다."]),
        ("【주문】 등대는 바다를 비춘다.", ["등대는 바다를 비춘다."]),
        ("첫째, 등대는 바다를 비춘다.", ["등대는 바다를 비춘다."]),
        ("첫째 등대는 바다를 비춘다.", ["첫째 등대는 바다를 비춘다."]),
        ("○ 등대는 바다를 비춘다.", ["등대는 바다를 비춘다."]),
        ("등대는 3.5킬로미터를 비춘다.", ["등대는 3.5킬로미터를 비춘다."]),
    ],
)
def test_the_marks_of_lists_are_no_part_of_a_sentence(text: str, parts: list[str]) -> None:
    found = [part for sentence in tagged_sentences(text) for part in parts_of(sentence)]
    assert [text[part[0].start : part[-1].end] for part in found] == parts


@pytest.mark.parametrize(
    ("lead", "expected"),
    [
        ("호미곶 등대는 경상북도 포항시에 있는 등대이다. 1908년에 섰다.", True),
        ("《파도》는 어느 어부가 쓴 시집으로, 1971년에 나왔다.", True),
        ("김바다(金바다, 1931년 ~ 1990년)는 어부이자 시인이다.", True),
        ("호미곶 등대(虎尾串燈臺)는 바다를 비추기 위하여 대한제국 정부가 세웠고 그 뒤로도 여러 차례 고친 높이가", True),
        ("제1조(목적) 이 법은 등대의 관리를 목적으로 한다.", False),
        ("이 법은 등대에 관한 것이다.", False),
        ("가. 등대는 항로표지이다.", False),
        ("등대의 관리\n등대는 항로표지이다.", False),
        ("원고는 등대를 지키는 사람이다.", False),
        ("등대는 우리의 자랑이다.", False),
        ("등대의 관리는 항로표지법 제28조에 따른 일이다.", False),
        ("등대는 항로표지이다. 원고는 등대를 지킨다.", False),
        ("등대는 소중한 항로표지입니다.", False),
        ("정부는 3일 등대를 고쳤다.", False),
        ("", False),
    ],
)
def test_an_article_says_first_what_it_is_about(lead: str, expected: bool) -> None:
    assert is_article(lead) is expected


def test_the_headings_of_a_judgment_are_in_no_article() -> None:
    article = "등대는 항로표지이다.\n등대는 1908년에 섰다."
    assert lead_of(article) == article and len(lead_of(article * 20)) < 200
    assert lead_of(f"{article}\n【이유】 등대가 섰다.") == lead_of(f"{article}\n제3조(등대) 등대를 둔다.") == ""
    assert (
        lead_of(f"{article}\n1. 원고의 청구를 모두 기각한다.")
        == lead_of(f"{article}\n2. 소송비용은 피고가 부담한다.")
        == ""
    )


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("등대는 1908년에 섰다.", ""),
        ("등대는 1908년에 섰습니다.", ""),
        ("등대는 1908년에 섰다(대법원 2001. 2. 3. 선고 2000다1234 판결 참조).", ""),
        ("등대의 관리에 관한 사항", "no statement"),
        ("등대는 언제 섰습니까?", "no statement"),
        ("등대를 살려 주세요.", "no statement"),
        ("것과 등대에서 빛이 나온다.", "part of a sentence"),
        ("등대가 다시 서기를 바랍니다.", "wish"),
        ("등대를 지켜 주셔서 감사합니다.", "wish"),
        ("등대를 꼭 지키겠습니다.", "wish"),
        ("등대는 선고 2000다1234 판결에 관하여 보았다.", "citation"),
        ("등대는 선고 3년을 견디었다.", ""),
        ("가사 등대가 선다 하더라도 배는 오지 않는다.", "supposition"),
        ("설령 등대가 있더라도 배는 오지 않는다.", "supposition"),
        ("가사 노동은 등대의 일이다.", ""),
        ("가사는 어부가 썼다.", ""),
        ("호미곶의 탑, 이하 등대라 한다.", "definition"),
        ("호미곶의 탑(이하 '등대'라 한다)은 1908년에 섰다.", ""),
        ("등대는 60점, 기온은 평균 이하이다.", ""),
        ("등대는 1908년, 부두는 1910년에 각각 섰다.", "respectively"),
        ("소수의견: 등대는 1908년에 섰다.", "label"),
        ("등대와 배는 1 : 3의 비율로 섰다.", ""),
        ("○○등대는 1908년에 섰다.", "name taken out"),
        ("호미곶 ○○○○ 등대는 1908년에 섰다.", "name taken out"),
        ("호미곶 ◇등대는 1908년에 섰다.", "name taken out"),
        ("등대는 2×3미터의 자리에 섰다.", ""),
        ("등대는 " + "바다를 비추고 배를 부르고 " * 10 + "길을 밝힌다.", "long"),
    ],
)
def test_only_statements_are_asked_about(sentence: str, reason: str) -> None:
    [morphemes] = tagged_sentences(sentence)
    assert why_not_asked_about(morphemes) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("등대는 바다를 비춘다", ""),
        ("형법 제114조를 어겼다", ""),
        ("「항로표지법」 제3조제1항에 따른다", ""),
        ("A형 혈액이 모자란다", ""),
        ("이와 같은 등대", "pointer"),
        ("해와 같은 등대", ""),
        ("같은 날 섰다", "pointer"),
        ("이 사건 등대", "pointer"),
        ("위 등대", "pointer"),
        ("그 등대", "pointer"),
        ("해당 등대", "pointer"),
        ('위 "가" 등대', "pointer"),
        ("이상의 소견은 옳다", "pointer"),
        ("60점 이상의 점수를 받는다", ""),
        ("10km 이상의 거리를 비춘다", ""),
        ("50% 이상의 빛을 낸다", ""),
        ("지난 10년 동안", "pointer"),
        ("오늘 섰다", "pointer"),
        ("우리 등대", "speaker"),
        ("저는 섰다", "speaker"),
        ("대통령께서 오셨다", "speaker"),
        ("제3항에 따른다", "article"),
        ("피고인이 섰다", "party"),
        ("공소외 1이 섰다", "party"),
        ("원고들이 섰다", "party"),
        ("원고3이 섰다", "party"),
        ("서울에서 피고 2에게 주었다", "party"),
        ("A는 B에게 팔았다", "letter"),
        ("갑은 을에게 팔았다", "letter"),
        ("○○등대가 섰다", "letter"),
        ("OOO가 섰다", "letter"),
    ],
)
def test_words_that_point_elsewhere_are_recognized(text: str, reason: str) -> None:
    [morphemes] = tagged_sentences(text)
    assert why_pointing(morphemes) == reason


@pytest.mark.parametrize(
    ("text", "answer", "reason"),
    [
        ("등대는 입장료를 밝힌다.", "입장료", ""),
        ("등대는 관리비용으로 3,000원을 받는다.", "3,000원", ""),
        ("등대는 피고인을 밝힌다.", "피고인", "party"),
        ("등대는 밝기·입장료를 정한다.", "입장료", "part of a word"),
        ("등대가 선 경우 관리비용을 받는다.", "경우 관리비용", "no name"),
        ("등대는 관리인을 밝힌다.", "관리인", "person or body"),
        ("등대는 입장료에게 밝힌다.", "입장료", "person or body"),
        ("등대는 10월 유신을 밝힌다.", "10월", "part of a name"),
        ("등대는 7천만 겨레를 밝힌다.", "7천만 겨레", "part of a name"),
        ("등대는 3년 또는 5년이 걸린다.", "3년", "alternatives"),
        ("등대는 2억에서 4억원이 든다.", "2억", "alternatives"),
        ("등대는 4대강 사업을 밝힌다.", "4대", "part of a name"),
        ("등대는 1주 평균 5일을 비춘다.", "1주", "part of a name"),
        ("등대는 위원 3분의 1이 지킨다.", "위원 3분", "part of a number"),
        ("등대는 입장료도 밝힌다.", "입장료", "even"),
        ("등대는 입장료의 도를 밝힌다.", "입장료", ""),
        ("등대는 관리비용보다 안전이 우선이다.", "관리비용", "comparison"),
        ("등대는 3개월보다 오래 비춘다.", "3개월", ""),
        ("등대는 관리비용과 입장료를 받는다.", "관리비용", "one of several"),
        ("등대는 관리비용과 입장료를 받는다.", "입장료", ""),
        ("등대는 관리비용이나 입장료를 받는다.", "입장료", "one of several"),
        ("등대는 관리비용의 3배를 밝힌다.", "관리비용", ""),
        ("등대는 3개월간 바다를 비춘다.", "3개월", ""),
        ("입장료는 등대가 정한다.", "입장료", ""),
        ("등대는 연구과제별로 밝힌다.", "연구과제별", "no name"),
    ],
)
def test_only_whole_names_and_numbers_are_asked_for(text: str, answer: str, reason: str) -> None:
    [sentence] = tagged_sentences(text)
    assert why_not_asked_for(candidate_of(text, answer), sentence) == reason


@pytest.mark.parametrize(
    ("text", "answer", "reason"),
    [
        ("호미곶 등대는 동해안의 관리비용을 오래 받았다.", "관리비용", "attribute"),
        ("호미곶 등대는 동해안에서 관리비용을 오래 받았다.", "관리비용", ""),
        ("이 등대는 동해안에서 관리비용을 오래 받았다.", "관리비용", "pointer"),
        ("동해안에서 관리비용을 오래 받았다.", "관리비용", "no subject"),
        ("어부가 세운 등대에서 관리비용을 오래 받았다.", "관리비용", "no subject"),
        ("등대는 관리비용을 받았다.", "관리비용", "few words"),
        ("등대는 호미곶을 동해안의 밤바다에 오래 비추었다.", "호미곶", "guess"),
        ("관리비용은 호미곶에서 오래 받을 수 있다.", "관리비용", "topic"),
        ("호미곶 등대는 동해안에서 관리비용을 오래 받지 않았다.", "관리비용", "negation"),
        ("호미곶 등대는 관리비용을 받아서는 아니 된다.", "관리비용", "subordinate clause"),
        ("호미곶 등대는 관리비용을 받고 배를 부르는 오래된 탑이다.", "관리비용", "relative clause"),
        ("호미곶 등대는 동해안에서 관리비용을 오래 받고 배를 불러야 한다.", "관리비용", "obligation"),
        ("호미곶 등대는 동해안에서 관리비용을 오래 받고 배를 부른다.", "관리비용", ""),
        ("기자 호미곶 등대는 동해안에서 관리비용을 오래 받았다.", "관리비용", "label"),
        ("호미곶 등대는 왜 동해안에서 관리비용을 받았는지 오래 밝혔다.", "관리비용", "two questions"),
    ],
)
def test_a_question_is_made_only_where_it_can_be_understood_alone(text: str, answer: str, reason: str) -> None:
    [sentence] = tagged_sentences(text)
    candidate = candidate_of(text, answer)
    question = ask_in_place(sentence, candidate, random.Random(1))
    assert question and why_unclear(question, sentence, candidate, is_cleft=False) == reason, join(question)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("포항시는 호미곶에서 배의 주인에게 관리비용을 물렸다.", ""),
        ("어부가 사는 호미곶에서 배의 주인에게 관리비용을 물렸다.", "no subject"),
        ("포항시는 호미곶에서 배의 주인에게 관리비용을 내라고 말했다.", "quoted"),
        ("포항시의 등대가 호미곶에서 배의 주인에게 관리비용이 되었다.", "complement"),
        ("없으면 포항시는 호미곶에서 배의 주인에게 관리비용을 물렸다.", "begins inside a phrase"),
    ],
)
def test_what_is_left_of_a_statement_describes_the_answer_of_a_cleft(text: str, reason: str) -> None:
    [sentence] = tagged_sentences(text)
    candidate = candidate_of(text, "관리비용")
    question = ask_by_cleft(sentence, candidate, random.Random(1))
    assert question and why_unclear(question, sentence, candidate, is_cleft=True) == reason, join(question)


def test_an_adverb_that_joins_sentences_is_left_out() -> None:
    question = [Morph("다만", "MAG"), Morph(",", "SP"), Morph("등대", "NNG"), Morph("는", "JX")]
    assert without_conjunction(question) == question[2:]
    assert without_conjunction(question[2:]) == question[2:]


JUDGMENT = (
    "【이유】 1. 이 사건 처분의 경위 가. 원고 A는 2001. 3. 5. 피고에게 3,000만 원을 빌려 주었다. 나. 피고는 같은 "
    "해 5월 위 돈을 갚겠다고 하였다(대법원 2001. 2. 3. 선고 2000다1234 판결 참조). 다. 등대관리법 "
    "시행령은 항로표지의 관리비용을 선박의 소유자에게 물린다. 라. 당해 규정은 제3항에 따라 그 효력이 없다."
)


def test_of_a_judgment_only_what_can_be_understood_is_asked() -> None:
    examples = [example for index in range(20) for example in examples_of(f"d#{index}", JUDGMENT, 3, JUDGMENT)]
    assert len({example["question"] for example in examples}) > 3
    assert all("선박의 소유자에게 물" in example["question"] for example in examples)
