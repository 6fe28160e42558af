"""Contamination is found exactly as it is defined."""

from typing import Any

import pytest
from front_end import PROPERTY
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kobert_pipeline.corpus.decontaminate import (
    MIN_KINDS,
    MIN_WHOLE,
    RUN,
    EvaluationTexts,
    count_letters,
    is_distinctive,
    remove_whitespace,
)

small_alphabet = st.text(st.sampled_from("가나 .\n"), max_size=90)
any_alphabet = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def naive(evaluation, paragraph):
    """The definition, literally: a shared run of 30 characters, or the whole of a text of at least 10 letters of 3
    kinds, white space ignored."""
    text = "".join(paragraph.split())
    for one in ("".join(one.split()) for one in evaluation):
        found = list(filter(str.isalnum, one))
        if one in text and len(found) >= MIN_WHOLE and len(set(found)) >= MIN_KINDS:
            return True
        if any(one[i : i + RUN] in text for i in range(len(one) - RUN + 1)):
            return True
    return False


@PROPERTY
@given(
    evaluation=st.lists(st.one_of(small_alphabet, any_alphabet), max_size=4),
    paragraph=st.one_of(small_alphabet, any_alphabet),
)
@example(evaluation=["가나다라마바사아자차"], paragraph="가나다라마바사아자차")
@example(evaluation=[""], paragraph="")
def test_it_agrees_with_the_definition(evaluation, paragraph):
    assert EvaluationTexts(evaluation).overlaps(paragraph) == naive(evaluation, paragraph)


@PROPERTY
@given(
    data=st.data(),
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=40, max_size=120),
    blanks=st.integers(0, 9),
)
def test_a_planted_run_is_found_anywhere_and_however_spaced(data, text, blanks):
    run = remove_whitespace(text)
    assume(len(run) >= RUN)
    start = data.draw(st.integers(0, len(run) - RUN))
    run = run[start : start + RUN]
    spaced = run[:blanks] + " \n" + run[blanks:]
    assert EvaluationTexts([text]).overlaps("앞 " + spaced + " 뒤")


LETTERS = "".join(map(chr, range(0xAC00, 0xAC00 + 100)))


@PROPERTY
@given(
    data=st.data(),
    evaluation=st.lists(st.one_of(small_alphabet, any_alphabet), max_size=3),
    others=st.lists(st.one_of(small_alphabet, any_alphabet), max_size=3),
)
def test_lines_are_contaminated_by_themselves_or_by_what_goes_over_several(data, evaluation, others):
    wrapped = [text[start : start + 7] for text in evaluation[:1] for start in range(0, len(text), 7)]
    lines = "\n".join([*others, *wrapped]).split("\n")
    texts = EvaluationTexts(evaluation)
    found = texts.contaminated_lines(lines)
    # literally: which line each character besides white space is of, and which of them are in a shared run or text
    lines_of = [number for number, line in enumerate(lines) for _ in "".join(line.split())]
    joined = "".join("".join(line.split()) for line in lines)
    compact = list(map("".join, map(str.split, evaluation)))
    shared = {one[i : i + RUN] for one in compact for i in range(len(one) - RUN + 1)}
    shared |= {one for one in compact if naive([one], one)}
    expected = [False] * len(lines)
    for start in range(len(joined)):
        for text in shared:
            if joined.startswith(text, start):
                first, last = lines_of[start], lines_of[start + len(text) - 1]
                expected[first : last + 1] = [True] * (last + 1 - first)
    assert found == expected


def test_a_long_document_is_searched_to_its_end():
    text = "".join(chr(0xAC00 + 7 * number % 11_000) for number in range(200))
    lines = ["앞줄이다", *(text[start : start + 9] for start in range(0, 200, 9)), "뒷줄이다"]
    expected = [False, *[True] * (len(lines) - 2), False]
    assert EvaluationTexts([text]).contaminated_lines(lines) == expected
    shorter = [text[start : start + 20] for start in range(0, 200, 20)]
    assert EvaluationTexts(shorter).contaminated_lines(lines) == expected


def test_a_short_text_of_several_lines_is_found_where_it_is():
    text = "정말 재미있는 영화\n다시 보고 싶다"
    lines = ["정말 재미있는 책", *text.split("\n"), "끝"]
    assert EvaluationTexts([text]).contaminated_lines(lines) == [False, True, True, False]


@pytest.mark.parametrize(
    ("evaluation", "paragraph", "held"),
    [
        (LETTERS, "앞" + LETTERS[40:70] + "뒤", True),
        (LETTERS, "앞" + LETTERS[40:69] + "뒤", False),
        (LETTERS[:29], LETTERS[:29], True),
        (LETTERS[:10], LETTERS[:10], True),
        (LETTERS[:9], LETTERS[:9], False),
        (LETTERS[:9] + "!!!", LETTERS[:9] + "!!!", False),
        (LETTERS[:12], "앞 " + LETTERS[:12], True),
        (LETTERS[:10], LETTERS[20:60] + LETTERS[:10] + "뒤", True),
        (LETTERS[:29], "앞" + LETTERS[:28] + "뒤", False),
        (LETTERS[:9] + "!", "앞" + LETTERS[:9] + "!뒤", False),
        ("ㅋ" * 12, "웃기다 ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ", False),
        ("ㅋㅎ" * 6, "ㅋㅎ" * 6, False),
        ("정말 ㅋㅋㅋㅋㅋㅋㅋㅋ", "앞 정말ㅋㅋㅋㅋㅋㅋㅋㅋ", True),
        ("가 나 다 라 마 바 사 아 자 차", "가나다라 마바사아자차", True),
        ("ㅋ" * 30, "ㅋ" * 200, True),
    ],
)
def test_the_borders_of_the_rule(evaluation: Any, paragraph: Any, held: Any):
    assert EvaluationTexts([evaluation]).overlaps(paragraph) is held


def test_nothing_is_contaminated_without_an_evaluation_set():
    assert not EvaluationTexts([]).overlaps(LETTERS * 3)


def test_a_long_paragraph_is_searched_to_its_end():
    filler = "".join(chr(0xB000 + i % 997) for i in range(20_000))
    evaluation = EvaluationTexts([LETTERS])
    assert evaluation.overlaps(filler + LETTERS[-RUN:])
    assert not evaluation.overlaps(filler + LETTERS[: RUN - 1])


def test_letters_are_letters_and_digits():
    assert count_letters("가a1 ㅋ漢!😀") == 5


@PROPERTY
@given(data=st.data(), short=st.text(st.sampled_from("가나다라마바사아자차카.!"), min_size=10, max_size=29))
def test_a_whole_short_text_is_found_anywhere(data, short):
    assume(is_distinctive(short))
    others = data.draw(st.lists(st.text(st.sampled_from("가나다라마바사"), max_size=29), max_size=4))
    around = [data.draw(st.text(st.sampled_from("하타 파"), max_size=40)) for _ in range(2)]
    assert EvaluationTexts([*others, short]).overlaps(short.join(around))


def test_half_characters_are_no_reason_to_stop():
    assert not EvaluationTexts(["\ud83d" + LETTERS]).overlaps("앞" * 40 + "\ud83d")
