"""What a question asks for, and which phrases of a context fit it."""

import pytest

from kobert_pipeline.features.asked_for import asked_for
from kobert_pipeline.features.phrases import phrases_to_answer


@pytest.mark.parametrize(
    ("question", "kinds", "noun"),
    [
        ("훈민정음이 반포된 해는?", ("year",), "해"),
        ("훈민정음은 몇 년도에 반포되었나요?", ("year",), "훈민정음"),
        ("훈민정음이 반포된 날짜는 언제야?", ("date", "year"), "날짜"),
        ("세종은 언제 태어났는가?", ("date", "year"), "세종"),
        ("세종은 몇 년 동안 왕이었는가?", ("number",), "세종"),
        ("이 도시의 인구는?", ("number",), "인구"),
        ("한라산의 높이는 얼마인가?", ("number",), "높이"),
        ("해설서를 지은 사람은 누구인가?", ("name",), "사람"),
        ("세종이 태어난 곳은 어디야?", ("name",), "곳"),
        ("김유신이 다닌 대학교의 이름은 무엇인가?", ("name",), "대학교"),
        ("김유신은 어느 사립 대학교에 다녔나?", ("name",), "대학교"),
        ("이 감독이 1990년에 만든 영화의 제목이 뭐야?", ("title",), "제목"),
        ("백제와 맺은 조약은?", (), "조약"),
        ("왜 그랬을까?", (), ""),
        ("", (), ""),
    ],
)
def test_a_question_says_what_it_asks_for(question: str, kinds: tuple[str, ...], noun: str) -> None:
    assert asked_for(question) == (kinds, noun)


def test_phrases_fit_by_their_kind_and_by_their_last_noun() -> None:
    context = "김유신은 595년에 경주에서 태어나 신라대학교를 10년 동안 다녔고, 황산벌전투를 이겼다."

    def fits(question: str) -> dict[str, int]:
        return {context[start:end]: fit for start, end, fit in phrases_to_answer(question, context)}

    born = fits("김유신이 태어난 해는 언제인가?")
    # what the question contains is no answer
    assert "김유신" not in born and born["595년"] == 1 and born["경주"] == 0
    school = fits("김유신은 어느 대학교에 다녔나?")
    assert school["신라대학교"] == 2 and school["경주"] == 1 and school["595년"] == 0
    assert fits("김유신이 이긴 전투는?")["황산벌전투"] == 1
