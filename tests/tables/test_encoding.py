"""The encodings of Korean files are detected and decoded, and files in no known encoding are refused or marked."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_files import COMPRESSIONS, write

from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.encoding import Undecodable, decode_line, detect, is_korean
from kobert_pipeline.tables.open_text import TooLong, bounded_lines, open_lines

KOREAN = "안녕하세요, 영화가 정말 재미있었습니다.\n둘째 문단 123\n"


def text_of(path: Path, encoding: str | None = None) -> str:
    with open_lines(path, encoding) as lines:
        return "".join(lines)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("repeat", [1, 5000])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "cp949", "euc-kr", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_the_encoding_is_detected(tmp_path: Path, suffix: str, repeat: int, encoding: str) -> None:
    path = write(tmp_path / f"a.txt{suffix}", COMPRESSIONS[suffix]((KOREAN * repeat).encode(encoding)))
    assert text_of(path) == KOREAN * repeat


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_compressed_file_may_have_its_suffix_in_capitals(tmp_path: Path, suffix: str) -> None:
    assert text_of(write(tmp_path / f"A.TXT{suffix.upper()}", COMPRESSIONS[suffix](KOREAN.encode()))) == KOREAN


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("repeat", [1, 5000])
@pytest.mark.parametrize("given", [False, True])
def test_line_ends_of_old_macs_are_line_ends(tmp_path: Path, encoding: str, repeat: int, given: bool) -> None:
    path = write(tmp_path / "a.txt", (KOREAN * repeat).replace("\n", "\r"), encoding)
    assert text_of(path, encoding if given else None) == KOREAN * repeat


def test_a_lone_carriage_return_ends_no_line_of_another_file(tmp_path: Path) -> None:
    assert text_of(write(tmp_path / "a.txt", KOREAN + "셋째\r문단\n")) == KOREAN + "셋째\r문단\n"


@pytest.mark.parametrize("count", [1, 2])
def test_byte_order_marks_are_no_part_of_a_text(tmp_path: Path, count: int) -> None:
    assert text_of(write(tmp_path / "a.txt", "\ufeff" * count + KOREAN)) == KOREAN


@pytest.mark.parametrize("encoding", ["cp949", "utf-16", "utf-8", "UTF-8", "utf8", "UTF-16"])
def test_a_given_encoding_is_kept_to(tmp_path: Path, encoding: str) -> None:
    prefix = "\ufeff" if "8" in encoding else ""
    assert text_of(write(tmp_path / "a.txt", prefix + KOREAN, encoding), encoding) == KOREAN


def test_what_is_called_euc_kr_is_read_as_cp949(tmp_path: Path) -> None:
    assert text_of(write(tmp_path / "a.txt", "똠방각하, 펲시콜라".encode("cp949")), "euc-kr") == "똠방각하, 펲시콜라"


def test_a_damaged_byte_in_a_given_encoding_is_called_that(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", KOREAN.encode("cp949") * 9 + b"\xff\n")
    with pytest.raises(UserError, match=r"is not cp949 .*; some of its bytes are damaged: without the option encoding"):
        text_of(path, "cp949")


@pytest.mark.parametrize(("first", "second"), [("utf-8", "cp949"), ("cp949", "utf-8")])
@pytest.mark.parametrize("repeat", [1, 5000])
def test_lines_of_two_encodings_in_one_file_are_each_read_right(
    tmp_path: Path, first: str, second: str, repeat: int
) -> None:
    one, two = "첫째 줄은 유니코드\n", "둘째 줄은 완성형\n"
    path = write(tmp_path / "a.txt", one.encode(first) * repeat + two.encode(second) + one.encode(first))
    assert text_of(path) == one * repeat + two + one


def test_short_lines_in_utf_8_are_read_right_in_a_file_of_cp949(tmp_path: Path) -> None:
    """Many are valid CP949, too, where they are Hanja."""
    short = ["강력 추천", "감동...", "최악", "2점 ㅋㅋ"]
    lines = [("배우들 연기가 정말 좋았다", "cp949")] * 20 + [(line, "utf-8") for line in short]
    assert short[1].encode().decode("cp949") == "媛먮룞..."
    path = write(tmp_path / "a.txt", b"\n".join(line.encode(codec) for line, codec in lines))
    assert text_of(path).split("\n") == [line for line, _ in lines]


def test_a_line_in_no_encoding_is_marked_not_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "가나다라마바사\n".encode() * 5000 + b"\xff\xfe\x80 \xc0\n")
    with open_lines(path) as lines:
        *others, last = lines
    assert isinstance(last, Undecodable) and "\ufffd" in last
    assert not any(isinstance(line, Undecodable) for line in others)


@pytest.mark.parametrize("empty", [b"", ""])
@pytest.mark.parametrize("length", [9, 10, 11, 95])
def test_a_line_beyond_the_limit_is_skipped_and_marked(empty: bytes | str, length: int) -> None:
    x, end = (b"x", b"\n") if isinstance(empty, bytes) else ("x", "\n")
    file = io.BytesIO() if isinstance(empty, bytes) else io.StringIO()
    file.write(x * length + end + x + end + x * length)  # type: ignore[operator, arg-type]
    file.seek(0)
    first, second, third = bounded_lines(file, 10)  # type: ignore[type-var]
    assert second == x + end
    assert (first == x * length + end) == (length < 10) and isinstance(first, TooLong) == (length >= 10)
    assert (third == x * length) == (length <= 10)


@pytest.mark.parametrize(
    "text",
    [
        "ㅋㅋㅋㅋ 이거 웃김 ㅋㅋㅋ\nㅠㅠㅠ 슬프다 ㅎㅎ",
        "“정부는” ‘새 정책’을 …\n■ 한편 ● 내일",
        "① 예\n② 예\n③ 위와 같음\nⅡ 답\n",
    ],
)
def test_slang_and_marks_do_not_hide_that_a_file_is_cp949(tmp_path: Path, text: str) -> None:
    assert text_of(write(tmp_path / "a.txt", text, "cp949")) == text
    content = ("첫째 줄\n" * 9).encode() + text.encode("cp949")
    assert text_of(write(tmp_path / "b.txt", content)) == "첫째 줄\n" * 9 + text


MIXED_SCRIPT = """悠久한 歷史와 傳統에 빛나는 우리들 大韓國民은 己未三一運動으로 大韓民國을 建立하여 世界에 宣布한
偉大한 獨立精神을 繼承하여 이제 民主獨立國家를 再建함에 있어서 正義人道와 同胞愛로써 民族의 團結을 鞏固히 하며
吾等은 玆에 我朝鮮의 獨立國임과 朝鮮人의 自主民임을 宣言하노라. 此로써 世界萬邦에 告하야 人類平等의 大義를 克明하며
"""
"""Of the constitution of 1948 and the declaration of independence of 1919."""


def test_hanja_do_not_hide_that_a_file_is_korean(tmp_path: Path) -> None:
    content = MIXED_SCRIPT.encode("cp949")
    assert not is_korean(MIXED_SCRIPT)
    for size in range(230, len(content)):  # also where the head ends inside a character
        assert detect(content[:size]) == "cp949", size
    assert text_of(write(tmp_path / "a.txt", content)) == MIXED_SCRIPT


CHINESE = (
    "中华人民共和国的一切权力属于人民。人民行使国家权力的机关是全国人民代表大会和地方各级人民代表大会。人民依照法律规定，"
    "通过各种途径和形式，管理国家事务，管理经济和文化事业。国家保障自然资源的合理利用，保护珍贵的动物和植物。\n"
).encode("gbk")
HANJA = "天地玄黃 宇宙洪荒 寒來暑往 秋收冬藏\n".encode("cp949")
KANA = "이것은 그의 말이다. ".encode("cp949") * 4 + "これはにほんごのぶんです。\n".encode("euc-jp") * 4


@pytest.mark.parametrize("content", [CHINESE, CHINESE * 50, HANJA * 50, KANA])
def test_chinese_that_is_valid_cp949_is_not_taken_for_hangul_and_hanja(tmp_path: Path, content: bytes) -> None:
    assert CHINESE.decode("cp949").startswith("櫓빽훙췽")
    with pytest.raises(UserError, match=r"not text in UTF-8, CP949 or UTF-16; (?!it looks like)"):
        text_of(write(tmp_path / "a.txt", content))


@pytest.mark.parametrize("encoding", ["utf-8", "cp949"])
def test_a_null_byte_in_a_text_does_not_make_it_binary(tmp_path: Path, encoding: str) -> None:
    text = "가나다라 마바사\x00아자차카 타파하. " * 20
    path = write(tmp_path / "a.txt", text.replace("\x00", "", 18), encoding)
    assert text_of(path).count("\x00") == 2
    with pytest.raises(UserError, match=r"null bytes.*`encoding`"):
        text_of(write(path, text.replace("\x00", "\x00\x00"), encoding))


JAPANESE = "日本語の文章です。「漢字」とかなをまぜて書くことが、とても多い……せっかくだから。\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (JAPANESE, "euc-jp"),
        (JAPANESE, "shift-jis"),
        ("中华人民共和国的一切权力属于人民。“他说”，他在这里……不要担心！\n", "gb18030"),
        ("Il était déjà né, señor Müller größer\n", "latin-1"),
    ],
)
def test_the_encoding_of_another_country_is_refused(tmp_path: Path, text: str, encoding: str) -> None:
    with pytest.raises(UserError, match="not text in UTF-8, CP949 or UTF-16"):
        text_of(write(tmp_path / "a.txt", text * 50, encoding))


@given(
    st.text(st.sampled_from("가나다라힣 abc,.!\n"), min_size=1), st.sampled_from(["utf-8", "cp949"]), st.integers(0, 3)
)
def test_a_head_cut_inside_a_character_does_not_disturb(text: str, encoding: str, cut: int) -> None:
    content = (text + "가나다").encode(encoding)
    assert detect(content[: len(content) - cut]) in (
        {encoding} if any(c > "\x7f" for c in text) or not cut else {"utf-8", encoding}
    )


@given(st.binary(), st.sampled_from(["utf-8", "cp949"]))
def test_any_bytes_become_text(line: bytes, codec: str) -> None:
    decode_line(line, codec).encode("utf-8")
