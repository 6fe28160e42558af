"""The type of answer that a question asks for, and which candidates in a context match it."""

import pytest

from kobert_pipeline.questions.answer_priors import candidates_for
from kobert_pipeline.questions.question_type import classify_question


@pytest.mark.parametrize(
    ("question", "types", "noun"),
    [
        ("훈민정음이 반포된 해는?", ("year",), ""),
        ("훈민정음은 어느 해에 반포되었는가?", ("year",), ""),
        ("훈민정음은 몇 년도에 반포되었나요?", ("year",), "년도"),
        ("전쟁은 몇년에 끝났는가?", ("year",), "년"),
        ("훈민정음이 반포된 날짜는 언제야?", ("date", "year"), ""),
        ("전쟁은 언제 끝났는가?", ("date", "year"), ""),
        ("전쟁이 끝난 건 언제인가요?", ("date", "year"), ""),
        ("이 탑은 몇 세기에 지어졌는가?", ("date", "number"), "세기"),
        ("이 축제는 몇 월에 열리는가?", ("date", "number"), "월"),
        # not years but numbers of years
        *(
            (f"전쟁은 몇 년{rest}?", ("number",), "년")
            for rest in (" 동안 이어졌는가", " 만에 끝났나", "이 걸렸나", "간 이어졌나")
        ),
        ("이 춤은 몇 년대에 유행했나?", ("number",), "년대"),
        ("이 왕은 몇 번째 왕인가?", ("number",), "번째"),
        ("15명 중 몇 명이 살아남았나?", ("number",), "명"),
        ("그 해는 몇 명이 참가했는가?", ("number",), "명"),
        ("이 산은 몇 m인가?", ("number",), "m"),
        ("이 도시의 인구는?", ("number",), ""),
        ("이 도시의 인구는 얼마나 되나요?", ("number",), ""),
        ("한라산의 높이는 얼마인가?", ("number",), ""),
        ("등대를 짓는 데 얼마가 들었나?", ("number",), ""),
        ("등대가 선 지 얼마나 된 해였나?", ("number",), ""),
        ("등대가 쉰 시기는 얼마 동안인가?", ("number",), ""),
        ("등대는 얼마큼 떨어져 있나?", ("number",), ""),
        ("해설서를 지은 사람은 누구인가?", ("name",), ""),
        ("누가 해설서를 지었는가?", ("name",), ""),
        ("어느 날 그가 만난 사람은 누구인가?", ("name",), ""),
        ("1592년은 누가 왕이었는가?", ("name",), ""),
        ("어릴 때는 어디에 살았나?", ("name",), ""),
        ("세종이 태어난 곳은 어디야?", ("name",), ""),
        ("서울에서 가장 유명한 거리는 어디인가?", ("name",), ""),
        ("이 영화를 만든 감독은?", ("name",), "감독"),
        ("가수 이름은 뭐야?", ("name",), "가수"),
        ("그의 본명은?", ("name",), ""),
        ("서울은 어느 강 옆에 있는가?", ("name",), "강"),
        ("김유신이 다닌 대학교의 이름은 무엇인가?", ("name",), "대학교"),
        ("김유신은 어느 사립 대학교에 다녔나?", ("name",), "대학교"),
        ("이 감독이 1990년에 만든 영화의 제목이 뭐야?", ("title",), "제목"),
        ("백제와 맺은 조약은?", (), "조약"),
        # these question words ask for nothing
        ("누구나 참여할 수 있는 대회는?", (), "대회"),
        ("언제 어디서나 볼 수 있는 꽃은?", (), "꽃"),
        ("언제까지나 함께하자는 노래의 제목은?", ("title",), "제목"),
        ("얼마 전 나온 노래의 제목은?", ("title",), "제목"),
        ("얼마 되지 않아 나온 노래의 제목은?", ("title",), "제목"),
        ("몇 안 되는 학자가 주장한 이론은?", (), "이론"),
        ("백제가 이길 수는 없었는가?", (), ""),
        ("1년은 왜 긴가?", (), ""),
        ("왜 그랬을까?", (), ""),
        ("", (), ""),
    ],
)
def test_a_question_says_what_it_asks_for(question: str, types: tuple[str, ...], noun: str) -> None:
    assert classify_question(question)[:2] == (types, noun)


@pytest.mark.parametrize(
    ("question", "unit"),
    [
        ("손해배상금은 얼마인가?", "원"),
        ("피고가 지급해야 하는 금액은?", "원"),
        ("원고는 얼마를 받았나?", "원"),
        ("얼마의 벌금이 선고되었나?", "원"),
        ("이 섬의 면적은?", "㎢"),
        ("한라산의 높이는 얼마나 되나요?", "m"),
        ("얼마나 많은 인구가 살고 있는가?", "명"),
        ("등대가 쉰 시기는 얼마 동안인가?", "개월"),
        ("한국의 자살률은 얼마인가?", "%"),
        # nothing says what is measured
        ("나트륨의 원자 수는 얼마인가?", ""),
        ("얼마나 빠른가?", ""),
        ("금은 어디에 묻혔는가?", ""),
        ("거리를 걸은 사람은 누구인가?", ""),
    ],
)
def test_a_question_says_in_which_units_its_answer_is_given(question: str, unit: str) -> None:
    units = classify_question(question).units
    assert unit in units if unit else not units


FOUGHT = "김유신은 595년에 경주에서 태어나 신라대학교를 10년 동안 다녔고, 황산벌전투를 이겼다."


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # what the question contains is no answer
        ("김유신이 태어난 해는 언제인가?", {"595년": 1, "경주": 0, "신라대학교": 0, "10년": 0, "황산벌전투": 0}),
        ("김유신은 어느 대학교에 다녔나?", {"595년": 0, "경주": 1, "신라대학교": 2, "10년": 0, "황산벌전투": 1}),
        ("김유신이 이긴 전투는?", {"595년": 0, "경주": 0, "신라대학교": 0, "10년": 0, "황산벌전투": 1}),
        ("김유신은 몇 년 동안 학교를 다녔나?", {"595년": 1, "경주": 0, "신라대학교": 0, "10년": 2, "황산벌전투": 0}),
    ],
)
def test_candidates_match_by_their_type_and_by_their_last_noun(question: str, expected: dict[str, int]) -> None:
    candidates = candidates_for(question, FOUGHT)
    assert {FOUGHT[start:end]: type_matches for start, end, type_matches in candidates} == expected


DAMAGES = "1974년도에 피고는 원고 3명에게 손해배상금 12,000,000원을 2개월 안에 지급하라는 판결을 받았다."


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("손해배상금은 얼마인가?", {"1974년도": 0, "3명": 1, "12,000,000원": 2, "2개월": 1}),
        ("원고는 얼마를 받았나?", {"1974년도": 0, "3명": 1, "12,000,000원": 2, "2개월": 1}),
        ("지급하라는 기간은 얼마나 되는가?", {"1974년도": 0, "3명": 1, "12,000,000원": 1, "2개월": 2}),
        ("이 판결을 받은 해는?", {"1974년도": 1, "3명": 0, "12,000,000원": 0, "2개월": 0}),
    ],
)
def test_numbers_match_by_the_units_of_what_is_asked(question: str, expected: dict[str, int]) -> None:
    numbers = {DAMAGES[start:end]: matches for start, end, matches in candidates_for(question, DAMAGES)}
    assert {text: numbers.get(text) for text in expected} == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # 5명 is no part of 15명
        ("15명 중 몇 명이 살아남았나?", {"5명", "백제", "신라"}),
        ("백제와 신라 중 어느 나라가 이겼는가?", {"15명", "5명", "백제", "신라"}),
        ("백제는 누구를 이겼는가?", {"15명", "5명", "신라"}),
    ],
)
def test_only_what_a_question_names_without_a_choice_is_no_answer(question: str, expected: set[str]) -> None:
    context = "15명 중 5명이 살아남았고, 백제가 신라를 이겼다."
    assert {context[start:end] for start, end, _ in candidates_for(question, context)} == expected
