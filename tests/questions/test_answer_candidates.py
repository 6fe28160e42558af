"""What can be asked for in a text: dates, numbers, titles, names and nouns."""

import pytest

from kobert_pipeline.questions.answer_candidates import candidates_in_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "김유신(金庾信, 595년 3월 1일 ~ 673년)은 서라벌에서 난 장군이다. 이 책 (1970년)은 얇다.",
            ["김유신", "서라벌", "595년 3월 1일", "595년", "673년", "1970년"],
        ),
        ("김유신은 (595년 (을묘년) 3월 1일에) 났다. " + "(" * 3000 + ")", ["김유신", "595년", "3월 1일"]),
    ],
    ids=["brackets", "nested brackets"],
)
def test_candidates_are_also_in_brackets(text: str, expected: list[str]) -> None:
    assert [text[candidate.start : candidate.end] for candidate in candidates_in_text(text)] == expected


@pytest.mark.parametrize("date", ["2016. 4. 22.", "2016.4.22", "2016-04-22", "1999/12/31"])
def test_a_date_in_numbers_is_one_candidate(date: str) -> None:
    text = f"원고는 {date} 피고와 매매계약을 체결하였다."
    found = [(text[part.start : part.end], part.type) for part in candidates_in_text(text)]
    assert (date, "date") in found and (date[:4], "year") in found


@pytest.mark.parametrize("number", ["1.2.3", "2016. 13. 1.", "02-123-4567", "2016. 4. 32."])
def test_other_numbers_with_points_or_hyphens_are_no_dates(number: str) -> None:
    found = candidates_in_text(f"그는 {number} 번을 보았다.")
    assert not [part for part in found if part.type in ("date", "year")]
