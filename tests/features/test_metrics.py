"""KorQuAD's scores, compared with a second implementation of the official definition (evaluate-v1.0.py)."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.features.metrics import (
    korquad_exact_match,
    korquad_f1,
    korquad_normalize,
    korquad_scores,
)

OFFICIAL_SYMBOLS = ["'", '"', "\u300a", "\u300b", "<", ">", "\u3008", "\u3009", "(", ")", "\u2018", "\u2019"]
"""The twelve characters that the official script replaces by a space, by code: ' " 《 》 < > 〈 〉 ( ) ‘ ’."""


def plain_words(text: str) -> list[str]:
    """The words that count: the twelve symbols separate words, case is ignored, other ASCII punctuation is removed."""
    kept = ""
    for character in text:
        kept += " " if character in OFFICIAL_SYMBOLS else character
    return "".join(character for character in kept.lower() if character not in string.punctuation).split()


def plain_f1(prediction: str, answer: str) -> float:
    """Twice the shared characters over all characters; shared ones are removed one by one."""
    given_characters, left = list("".join(plain_words(prediction))), list("".join(plain_words(answer)))
    total, shared = len(given_characters) + len(left), 0
    for character in given_characters:
        if character in left:
            left.remove(character)
            shared += 1
    return 2 * shared / total if shared else 0.0


telling = st.sampled_from("가나다 라a Bİß井漢1٣.,!?-~·…“”「」『』【】'\"《》<>〈〉()‘’\t\n\u3000\u00a0ㅋA")
answers = st.text(telling | st.characters(codec="utf-8"), max_size=14)


@given(answers, answers)
def test_exact_match_and_f1_equal_the_official_definition(prediction: str, answer: str) -> None:
    assert korquad_exact_match(prediction, answer) == float(plain_words(prediction) == plain_words(answer))
    assert korquad_f1(prediction, answer) == pytest.approx(plain_f1(prediction, answer), abs=1e-12)


@given(st.lists(st.tuples(answers, st.lists(answers, min_size=1, max_size=3)), min_size=1, max_size=6))
def test_scores_are_means_of_the_best_over_the_answers_in_percent(questions: list[tuple[str, list[str]]]) -> None:
    found = korquad_scores([prediction for prediction, _ in questions], [wanted for _, wanted in questions])
    best = [max(plain_f1(prediction, one) for one in wanted) for prediction, wanted in questions]
    exact = [any(plain_words(prediction) == plain_words(one) for one in wanted) for prediction, wanted in questions]
    assert found["f1"] == pytest.approx(100 * sum(best) / len(best))
    assert found["exact_match"] == pytest.approx(100 * sum(exact) / len(exact))


@pytest.mark.parametrize(
    ("prediction", "answer", "exact", "f1"),
    [
        ("서울", "서울", 1, 1),
        ("서울시", "서울", 0, 0.8),
        ("", "서울", 0, 0),
        ("서울", "", 0, 0),
        ("", "", 1, 0),  # the official script: equal, but no character is shared
        ("...", "!?", 1, 0),
        ("...", "서울", 0, 0),
        ("1", "1", 1, 1),
        ("1", "2", 0, 0),
        ("漢字", "漢文", 0, 0.5),
        ("《춘향전》", "춘향전", 1, 1),
        ("〈아리랑〉", "‘아리랑’", 1, 1),
        ("이(李)순신", "이 李 순신", 1, 1),
        ("이(李)순신", "이李순신", 0, 1),  # a symbol becomes a space, which parts words; F1 does not see spaces
        ("U.S.A", "usa", 1, 1),
        ("Korea University", "korea  university\n", 1, 1),
        ("3,000", "3000", 1, 1),
        ("「무정」", "무정", 0, 2 * 2 / 6),  # corner brackets are not in the official set
        ("“무정”", "무정", 0, 2 * 2 / 6),
        ("가나", "나가", 0, 1),  # a multiset: order does not count
        ("가가가", "가", 0, 0.5),
    ],
)
def test_known_answers(prediction: Any, answer: Any, exact: Any, f1: Any) -> None:
    assert (korquad_exact_match(prediction, answer), korquad_f1(prediction, answer)) == (exact, pytest.approx(f1))


def test_every_symbol_is_replaced_removed_or_kept_as_officially() -> None:
    for code in [*range(33, 127), 0x300A, 0x300B, 0x3008, 0x3009, 0x2018, 0x2019, 0x201C, 0x300C, 0x00B7, 0x3001]:
        text = f"가{chr(code)}나"
        assert korquad_normalize(text) == " ".join(plain_words(text))
