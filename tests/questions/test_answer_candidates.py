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
