"""Cleaning keeps the meaning and is idempotent; filters give reasons."""

import os
import time
import unicodedata
from typing import Any

import pytest
from front_end import PROPERTY, any_text
from hypothesis import example, given
from hypothesis import strategies as st

from kobert_pipeline.corpus.cleaning import CleaningOptions, clean
from kobert_pipeline.corpus.document import Document, remove_surrogates
from kobert_pipeline.corpus.filters import FilterOptions, reason_to_drop, shares
from kobert_pipeline.morphemes.normalization import nfc_with_offsets, remove_invisible

entities = st.sampled_from(
    [
        "&amp;",
        "&lt;",
        "&#x200b;",
        "&#13;",
        "&nbsp;",
        "&quot;",
        "&amp",
        "amp;",
        "&#0;",
        "&#x70;",
        "&",
        ";",
        "lt;",
        "&nosuch;",
    ]
)
texts = st.lists(st.one_of(any_text, entities, st.text(st.characters(), max_size=5)), max_size=8).map("".join)


@PROPERTY
@given(text=texts)
@example(text="&amp;lt;")
@example(text="&a\u200bmp;")
@example(text="&amp\u037e")
@example(text="&am&#x70;;")
def test_cleaning_twice_is_cleaning_once(text):
    assert clean(clean(text)) == clean(text)


@PROPERTY
@given(text=texts)
def test_a_clean_text_is_nfc_without_control_characters_and_with_tidy_white_space(text):
    cleaned = clean(text)
    assert unicodedata.is_normalized("NFC", cleaned)
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in cleaned.replace("\n", ""))
    assert not set(cleaned) & set("\u200b\u2060\ufeff\u00ad\u2028\u2029\ufe0f\u200e")
    assert remove_invisible(cleaned) == cleaned
    assert {character for character in cleaned if character.isspace()} <= {" ", "\n"}
    assert all(line and line == line.strip() and "  " not in line for line in cleaned.split("\n")) or cleaned == ""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ㅋㅋㅋ ㅠㅠ", "ㅋㅋㅋ ㅠㅠ"),
        ("제목\x0b본문 이어짐\x0c다음 쪽", "제목\n본문 이어짐\n다음 쪽"),
        ("👨‍👩‍👧‍👦❤️🇰🇷", "👨‍👩‍👧‍👦❤🇰🇷"),
        ("가\u200d나 \u200e다\u200c", "가나 다"),
        ("Ａ１① ㎏", "Ａ１① ㎏"),
        (unicodedata.normalize("NFD", "했다 갔다"), "했다 갔다"),
        ("가\x00나\x07다\x7f라\x9f", "가나다라"),
        ("가\u200b나\u2060다\ufeff라\u00ad마", "가나다라마"),
        ("가\ud800나\udfff", "가나"),
        (" 가\t\t나 \u3000\xa0다 ", "가 나 다"),
        ("가\r\n나\r다\u2028라\u2029마\x85바", "가\n나\n다\n라\n마\n바"),
        ("\n\n가 \n \n\n 나\n", "가\n나"),
        ("&lt;b&gt; &quot;가&quot; &#44032; &#xac01; &amp;", '<b> "가" 가 각 &'),
        ("3m&sup2;, &frac12;, A&T1;", "3m², ½, A&T1;"),
        ("A&B; R&D &없음; &nosuch;", "A&B; R&D &없음; &nosuch;"),
        ("", ""),
    ],
)
def test_what_is_kept_and_what_goes(text: Any, wanted: Any):
    assert clean(text) == wanted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("가" * 9, "short"),
        ("", "short"),
        ("가" * 10, None),
        ("a" * 10, "not_korean"),
        ("1234567890", "not_korean"),
        ("가나" + "a" * 8, None),
        ("가" + "a" * 9, "not_korean"),
        ("ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ", None),
        ("ᄒᆞᆫ글ᄒᆞᆫ글ᄒᆞᆫ글", None),
        ("大韓民國 臨時政府 憲法", "not_korean"),
    ],
)
def test_a_dropped_document_has_its_reason(text: Any, reason: Any):
    assert reason_to_drop(Document("1", "s", text), FilterOptions(min_characters=10, min_hangul=0.2)) == reason


@PROPERTY
@given(text=any_text)
def test_the_hangul_share_is_a_share(text):
    assert all(0 <= share <= 1 for share in shares(text))


@pytest.mark.parametrize(("text", "share"), [("", 0), ("123 !", 0), ("가a", 0.5), ("가 나.", 1), ("abc", 0)])
def test_the_hangul_share_counts_letters_only(text: Any, share: Any):
    assert shares(text)[0] == share


HOSTILE = {
    "entities in entities": "&" + "amp;" * 4000,
    "entities that end entities": "&semi" * 4000 + ";",
    "entities never ended": "&amp" * 4000,
    "entities broken by others": "&am" * 4000 + "&#x70;" + ";" * 4000,
    "combining marks out of order": "e" + "\u0301\u0327" * 10_000,
    "marks that are two": "e" + "\u0f73" * 10_000,
    "marks in order": "e" + "\u0327" * 10_000 + "\u0301" * 10_000,
}


def seconds(function, text):
    """The minimum of three measurements, in seconds of CPU time."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        function(text)
        taken.append(time.process_time() - began)
    return min(taken)


def test_no_text_makes_cleaning_take_time_that_grows_with_its_square():
    """Four times the text takes about four times as long, where it took sixteen; a hundredth of a second is forgiven to
    the clock."""
    for name, text in HOSTILE.items():
        for function in (clean, nfc_with_offsets):
            assert seconds(function, text * 4) < 9 * seconds(function, text) + 0.01, f"{function.__name__}: {name}"


def test_what_entities_complete_is_decoded_however_deep_it_was_wrapped():
    assert clean("가 &" + "amp;" * 4000 + "lt; 나") == "가 < 나"
    assert clean("가 " + "&semi" * 300 + "; 나") == "가 ; 나"
    assert clean("가 &am&#x70;lt&#894; 나") == "가 < 나"


def test_of_endless_combining_marks_the_first_stay():
    cleaned = clean("e" + "\u0301\u0327" * 10_000 + "가", CleaningOptions(max_repeats=None))
    assert cleaned == unicodedata.normalize("NFC", "e" + "\u0301\u0327" * 15) + "가"


@pytest.mark.parametrize(
    ("limit", "expected"),
    (
        (1, "ㅋ! 가나 11"),
        (2, "ㅋㅋ!! 가나 11"),
        (3, "ㅋㅋㅋ!! 가나 11"),
        (9, "ㅋㅋㅋㅋ!! 가나 11"),
    ),
)
def test_runs_are_as_long_as_allowed(limit: Any, expected: Any):
    assert clean("ㅋㅋㅋㅋ!! 가나 11", CleaningOptions(max_repeats=limit)) == expected


@pytest.mark.parametrize(
    ("identity", "readable"),
    [
        (os.fsdecode("한글.txt#0".encode("cp949")), "한글.txt#0"),
        (os.fsdecode(b"\xff\xff.txt"), r"\xff\xff.txt"),
        *((os.fsdecode(f"{name}.txt".encode("cp949")), f"{name}.txt") for name in ("우리", "똠방각하1", "분석기가")),
        (os.fsdecode("뷁 글.txt".encode("cp949")) + "#3:본문", "뷁 글.txt#3:본문"),
        ("자료 " + os.fsdecode("한글a.txt".encode("cp949")), "자료 한글a.txt"),
        ("글\ud83d", "글"),
        ("글.txt", "글.txt"),
    ],
)
def test_a_file_name_that_is_no_utf_8_stays_a_name_of_its_own(identity: str, readable: str) -> None:
    assert remove_surrogates(Document(identity, identity, "글\ud83d")) == Document(
        readable, readable, "글", characters_in=2
    )
