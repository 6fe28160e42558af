"""Mojibake is repaired or dropped, personal data redacted, and repetition measured."""

import random
import re
import time
from typing import Any

import pytest
from front_end import CORPORA, PROPERTY, any_text
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.filters import FilterOptions, reason_to_drop, repeated_eojeols, repeated_lines, shares
from kobert_pipeline.corpus.mojibake import LATIN, LETTER, RUN, misread_as_latin, repair
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.pii import luhn, redact
from kobert_pipeline.corpus.stage import run

TEXT = "안녕하세요. 영화가 정말 재미있었습니다!"


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        (TEXT, "utf-8", "latin-1"),
        (TEXT, "cp949", "latin-1"),
        (TEXT, "cp949", "cp1252"),
        ("배우 연기 좋다", "utf-8", "cp1252"),
        ("배우 감동 최고", "utf-8", "cp949"),
    ],
)
def test_text_read_in_a_wrong_encoding_is_put_right(text: Any, right: Any, wrong: Any):
    misread = text.encode(right).decode(wrong)
    assert misread != text
    assert repair(misread) == (text, 1, 0)


def test_only_the_misread_paragraphs_are_touched():
    wrong = TEXT.encode("cp949").decode("latin-1")
    assert repair(f"앞 문단\n{wrong}\n뒤 문단") == (f"앞 문단\n{TEXT}\n뒤 문단", 1, 0)


def test_a_line_that_was_read_as_cp949_is_put_right():
    wrong = "배우 감동 최고".encode().decode("cp949")
    assert repair(f"앞 문단\n{wrong}\n뒤 문단") == ("앞 문단\n배우 감동 최고\n뒤 문단", 1, 0)


@pytest.mark.parametrize(
    "lost", ["잃은 \ufffd 글자", "¾È³çÇÏ¼¼¿äÀ", "ì•ˆë…•í•˜ì„¸ìš", "諛곗넚?씠 鍮좊Ⅴ怨? ?룷?옣?룄 醫뗭븘?슂"]
)
def test_what_cannot_be_put_right_is_dropped_by_the_paragraph(lost: Any):
    text, _, dropped = repair(f"앞 문단\n{lost}\n뒤 문단")
    assert (text, dropped) == ("앞 문단\n뒤 문단", 1), lost


@pytest.mark.parametrize(
    "text",
    [
        "그래서…… 말이다.",
        "――그렇군요――",
        "····",
        "“인용‘안’”",
        "café déjà vu, Müller",
        "£€¥©®",
        "大韓民國",
        "乃어릴떄봣던 한국명화~ 뷁",
        "똠방각하와 펲시콜라, 뷁?",
        "아햏햏 乃 진짜?",
        "뷁!! 뷁!! 뷁!! 乃",
        "由대감",  # its bytes in CP949 are valid UTF-8
        "ㅋㅋㅋ😀",
        "ﾊﾝｶｸ",
        "±°²³",
        "독일어는 라틴 문자 스물여섯 자와 ÄÖÜß를 쓴다. 움라우트는 소리가 바뀐 모음이다.",
    ],
)
def test_undamaged_text_stays_as_it_is(text: Any):
    assert repair(text) == (text, 0, 0)


def test_bundled_documents_stay_as_they_are():
    for path in sorted((CORPORA / "documents").glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        assert repair(text) == (text, 0, 0)


@PROPERTY
@given(any_text)
def test_no_mark_of_a_lost_character_is_passed_on(text):
    assert "\ufffd" not in repair(text)[0]


@pytest.mark.parametrize(
    ("text", "kind", "hidden"),
    [
        ("연락은 hong.gil-dong@example.co.kr로", "email", "연락은 user@example.com로"),
        ("@멘션은 그대로", "email", None),
        ("전화 010-1234-5678번", "phone", "전화 000-0000-0000번"),
        ("(02)345-6789, 031.123.4567", "phone", "(00)000-0000, 000.000.0000"),
        ("+82 10-1234-5678", "phone", "+00 00-0000-0000"),
        ("010 - 1234 - 5678, 010 . 1234 . 5678", "phone", "000 - 0000 - 0000, 000 . 0000 . 0000"),
        ("전화는 ０１０－１２３４－５６７８, 010–1234–5678", "phone", "전화는 000-0000-0000, 000-0000-0000"),
        ("2024-1234-5678호, 110-123-456789", "phone", None),
        ("대표 1588-1234, 1899.1234, 무료 080-123-4567", "phone", "대표 0000-0000, 0000.0000, 무료 000-000-0000"),
        ("1588-2100으로", "phone", "0000-0000으로"),
        ("임진왜란(1592-1598), 1588-1592년, 1800-2000년, 1588 1234, 1588-1234-5", "phone", None),
        ("기원전 1800-1650년, 기원전 약 1600–1500 무렵, 1644-1911년, 1600-1850 年", "phone", None),
        ("KBC 1588-1234, BC 1588-4000, BC 1588-1234", "phone", "KBC 0000-0000, BC 0000-0000, BC 0000-0000"),
        ("1588-3000 년중무휴, 1588-1900년중무휴", "phone", "0000-0000 년중무휴, 0000-0000년중무휴"),
        ("1588-9999 년, 1588-1234년", "phone", "0000-0000 년, 0000-0000년"),
        ("부품 010-2000-3000X와 010-2000-3000X", "phone", None),
        ("-010-1234-5678, 문의-010-1234-5678", "phone", "-000-0000-0000, 문의-000-0000-0000"),
        ("–010-1234-5678, 02-123-4567—담당", "phone", "–000-0000-0000, 00-000-0000—담당"),
        ("123-010-1234-5678, 010-1234-5678-9", "phone", None),
        ("010-2000-3000FAX", "phone", "000-0000-0000FAX"),
        ("주민번호 9001011234568입니다", "resident_number", "주민번호 0000000000000입니다"),
        ("ISBN 9788901234567, 9013011234568, 90010112345680, 900101123456", "resident_number", None),
        ("주민번호 900101-1234567", "resident_number", "주민번호 000000-0000000"),
        ("991332-1234567 (13월 32일)", "resident_number", None),
        ("900101-9234567", "resident_number", None),
        ("900101 - 1234567", "resident_number", "000000 - 0000000"),
        ("카드 4111-1111-1111-1111", "card", "카드 0000-0000-0000-0000"),
        ("카드 ４１１１ １１１１ １１１１ １１１１ ！", "card", "카드 0000 0000 0000 0000 ！"),
        ("카드 ４１１１ １１１１ １１１１ １１１２ ！", "card", None),
        ("ｈｏｎｇ＠ｅｘａｍｐｌｅ．ｃｏｍ", "email", "user@example.com"),
        ("카드 4111 1111 1111 1112", "card", None),
        ("4111111111111111", "card", "0000000000000000"),
        ("1234-5678-9012-3456-7890", "card", None),
    ],
)
def test_what_identifies_a_person_is_hidden_only_when_it_is_asked_for(text: Any, kind: Any, hidden: Any):
    assert redact(text, (kind,)) == (hidden or text)
    assert redact(text, ()) == text
    assert redact(redact(text, (kind,)), (kind,)) == redact(text, (kind,))


def test_what_was_hidden_is_counted_by_kind(tmp_path):
    text = "그의 전화는 010-1234-5678이나 02-345-6789이고 주소는 hong@example.co.kr이다. 임진왜란은 1592-1598년이다."
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    for mask, found in [([], {}), (["phone", "email", "card"], {"masked_phone": 2, "masked_email": 1})]:
        options = {"sources": [{"name": "text", "path": "a.txt"}], "cleaning": {"mask": mask}}
        counts = run(CorpusOptions.model_validate(options), tmp_path, tmp_path / f"out{len(mask)}")
        assert {name: count for name, count in counts.items() if name.startswith("masked")} == found


LONG = 200_000


@pytest.mark.parametrize(
    "text", ["a" * LONG, "a.b-" * (LONG // 4), "a@" + "b." * (LONG // 2), "a" * 64 + "@" + "b" * LONG]
)
def test_a_long_run_of_letters_without_an_address_is_searched_in_time(text: Any):
    began = time.process_time()
    assert redact(text, ("email",)) == text
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", ["…" * LONG, "é" + "…" * LONG, "é…ab" * (LONG // 4)])
def test_a_long_run_of_signs_is_searched_in_time(text: Any):
    began = time.process_time()
    assert RUN.search(text) is None, text
    assert time.process_time() - began < 5, text


def test_an_address_after_a_long_run_is_redacted():
    assert redact("-" * 100 + "hong@example.co.kr", ("email",)).endswith("user@example.com")
    assert "hong" not in redact("-" * 100 + "hong@example.co.kr", ("email",))


@PROPERTY
@given(st.text(st.sampled_from("é÷…–ab가"), max_size=12))
def test_a_run_has_four_signs_and_two_letters(text):
    plain = re.compile(f"(?=[{LATIN}]{{4}})[{LATIN}]*[{LETTER}][{LATIN}]*[{LETTER}]")
    assert bool(RUN.search(text)) == bool(plain.search(text))


def test_the_check_digit_is_that_of_the_standard():
    assert luhn("79927398713")
    assert not any(luhn(f"7992739871{digit}") for digit in "012456789")
    assert not luhn("0000000000000000")


@pytest.mark.parametrize(
    ("text", "share"), [("가\n나\n다", 0), ("가나\n가나", 0.5), ("가나\n다라\n가나\n가나", 0.5), ("", 0), ("한 줄", 0)]
)
def test_repeated_lines(text: Any, share: Any):
    assert repeated_lines(text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("가 나 다 라 마", 0),
        ("가 나 다", 0),
        ("가 " * 5, 0.5),
        ("가 나 다 라 가 나 다 라", 0.2),
        ("", 0),
    ],
)
def test_repeated_eojeols(text: Any, share: Any):
    assert repeated_eojeols(text) == pytest.approx(share)


def test_repeated_eojeols_equal_a_plain_count():
    chosen = random.Random(3)
    for size in (4, 50, 400):
        words = [chosen.choice("가나다") for _ in range(size)]
        grams = [tuple(words[i : i + 4]) for i in range(size - 3)]
        assert repeated_eojeols(" ".join(words)) == pytest.approx(1 - len(set(grams)) / len(grams))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("참 좋다 " + "★" * 30, "symbols"),
        ("광고 문구를 되풀이합니다\n" * 40, "repeated_lines"),
        ("이 말을 또 하고 다시 또 합니다 " * 30, "repeated_eojeols"),
        ("이 말을 또 하고 다시 또 합니다 " * 3, None),
    ],
)
def test_repetition_and_symbols_have_their_reason(text: Any, reason: Any):
    assert reason_to_drop(Document("1", "s", text), FilterOptions()) == reason
    assert (
        reason_to_drop(
            Document("1", "s", text), FilterOptions(max_symbols=1, max_repeated_lines=1, max_repeated_eojeols=1)
        )
        is None
    )


@PROPERTY
@given(any_text)
def test_shares_equal_a_plain_count(text):
    letters = sum(map(str.isalpha, text))
    hangul = sum(
        "\uac00" <= one <= "\ud7a3" or "\u3131" <= one <= "\u318e" or "\u1100" <= one <= "\u11ff" for one in text
    )
    assert shares(text)[0] == pytest.approx(hangul / letters if letters else 0)


def test_rare_hanja_are_letters_and_no_symbols():
    """Hanja of the second plane, as in names."""
    assert shares("한자 \U00020000\U0002a6d6 ★") == pytest.approx((0.5, 0.2))


def test_a_document_of_lost_characters_alone_is_dropped_as_mojibake(tmp_path):
    (tmp_path / "lost.txt").write_text("잃은 \ufffd 글자", encoding="utf-8")
    options = CorpusOptions.model_validate({"sources": [{"name": "text", "path": ["lost.txt", "documents/*.txt"]}]})
    (tmp_path / "documents").symlink_to(CORPORA / "documents")
    counts = run(options, tmp_path, tmp_path / "out")
    assert counts["documents_dropped_mojibake"] == 1


@pytest.mark.parametrize("line", ["¿¡¿¡ ¡¡", "¢¢£££¤¤", "Ωμέγα"])
def test_signs_that_give_no_korean_in_any_encoding_are_not_put_right(line: str):
    assert misread_as_latin(line) is None
