"""The encodings of Korean files are detected and decoded, and files in no known encoding are refused or marked."""

import gzip
import itertools

import pytest
from front_end import PROPERTY
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.corpus.encoding import decode_line, detect, is_korean
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.errors import UserError

KOREAN = "안녕하세요, 영화가 정말 재미있었습니다.\n둘째 문단 123\n"
ENCODINGS = ["utf-8", "utf-8-sig", "cp949", "euc-kr", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


def test_the_encoding_is_found_out_and_the_text_is_right(tmp_path):
    for compress, encoding, repeat in itertools.product([bytes, gzip.compress], ENCODINGS, [1, 5000]):
        name = f"a{'.gz' if compress is gzip.compress else '.txt'}"
        (tmp_path / name).write_bytes(compress((KOREAN * repeat).encode(encoding)))
        (document,) = Text(path=name).read(tmp_path)
        assert document.text == (KOREAN * repeat).strip(), (compress, encoding, repeat)


def test_json_lines_in_cp949_are_read(tmp_path):
    (tmp_path / "a.jsonl").write_bytes('{"id": 1, "text": "안녕하세요"}\n'.encode("cp949"))
    assert [document.text for document in JsonLines(path="a.jsonl").read(tmp_path)] == ["안녕하세요"]


def test_lines_of_two_encodings_in_one_file_are_each_read_right(tmp_path):
    lines = ["첫째 줄은 유니코드", "둘째 줄은 완성형", "셋째 줄은 다시 유니코드"]
    for first, second in (("utf-8", "cp949"), ("cp949", "utf-8")):
        codes = [first, second, first]
        (tmp_path / "a.txt").write_bytes(b"\n".join(line.encode(code) for line, code in zip(lines, codes, strict=True)))
        (document,) = Text(path="a.txt").read(tmp_path)
        assert document.text.split("\n") == lines
        (tmp_path / "b.txt").write_bytes((lines[0] + "\n").encode(first) * 5000 + (lines[1] + "\n").encode(second))
        (document,) = Text(path="b.txt").read(tmp_path)
        assert document.text.split("\n") == [lines[0]] * 5000 + [lines[1]]


def test_short_lines_in_utf_8_are_read_right_in_a_file_of_cp949(tmp_path):
    """Many are valid CP949, too, where they are Hanja."""
    short = ["강력 추천", "감동...", "최악", "2점 ㅋㅋ"]
    lines = [("배우들 연기가 정말 좋았다", "cp949")] * 20 + [(line, "utf-8") for line in short]
    assert short[1].encode().decode("cp949") == "媛먮룞..."
    (tmp_path / "a.txt").write_bytes(b"\n".join(line.encode(codec) for line, codec in lines))
    (document,) = Text(path="a.txt").read(tmp_path)
    assert document.text.split("\n") == [line for line, _ in lines]


def test_a_line_in_no_encoding_is_marked_not_guessed(tmp_path):
    (tmp_path / "a.txt").write_bytes("가나다라마바사\n".encode() * 5000 + b"\xff\xfe\x80 \xc0\n")
    (document,) = Text(path="a.txt").read(tmp_path)
    assert "\ufffd" in document.text.split("\n")[-1]
    assert "\ufffd" not in "".join(document.text.split("\n")[:-1])


def test_slang_and_marks_do_not_hide_that_a_file_is_cp949(tmp_path):
    for text in ["ㅋㅋㅋㅋ 이거 웃김 ㅋㅋㅋ\nㅠㅠㅠ 슬프다 ㅎㅎ", "“정부는” ‘새 정책’을 …\n■ 한편 ● 내일"]:
        (tmp_path / "a.txt").write_bytes(text.encode("cp949"))
        assert [document.text for document in Text(path="a.txt").read(tmp_path)] == [text], text
        (tmp_path / "b.txt").write_bytes(("첫째 줄\n" * 9).encode() + text.encode("cp949"))
        assert [document.text for document in Text(path="b.txt").read(tmp_path)] == ["첫째 줄\n" * 9 + text], text


MIXED_SCRIPT = """悠久한 歷史와 傳統에 빛나는 우리들 大韓國民은 己未三一運動으로 大韓民國을 建立하여 世界에 宣布한
偉大한 獨立精神을 繼承하여 이제 民主獨立國家를 再建함에 있어서 正義人道와 同胞愛로써 民族의 團結을 鞏固히 하며
吾等은 玆에 我朝鮮의 獨立國임과 朝鮮人의 自主民임을 宣言하노라. 此로써 世界萬邦에 告하야 人類平等의 大義를 克明하며
"""
"""Of the constitution of 1948 and the declaration of independence of 1919."""


def test_hanja_do_not_hide_that_a_file_is_korean(tmp_path):
    content = MIXED_SCRIPT.encode("cp949")
    assert not is_korean(MIXED_SCRIPT)
    for size in range(230, len(content)):  # also where the head ends inside a character
        assert detect(content[:size]) == "cp949", size
    (tmp_path / "a.txt").write_bytes(content)
    assert [document.text for document in Text(path="a.txt").read(tmp_path)] == [MIXED_SCRIPT.strip()]


def test_chinese_that_is_valid_cp949_is_not_taken_for_hangul_and_hanja(tmp_path):
    chinese = (
        "中华人民共和国的一切权力属于人民。人民行使国家权力的机关是全国人民代表大会和地方各级人民代表大会。人民依照法律规定，"
        "通过各种途径和形式，管理国家事务，管理经济和文化事业。国家保障自然资源的合理利用，保护珍贵的动物和植物。\n"
    ).encode("gbk")
    hanja = "天地玄黃 宇宙洪荒 寒來暑往 秋收冬藏\n".encode("cp949")
    kana = "이것은 그의 말이다. ".encode("cp949") * 4 + "これはにほんごのぶんです。\n".encode("euc-jp") * 4
    assert chinese.decode("cp949").startswith("櫓빽훙췽")
    for content in (chinese, chinese * 50, hanja * 50, kana):
        (tmp_path / "a.txt").write_bytes(content)
        with pytest.raises(UserError, match=r"not text in UTF-8, CP949 or UTF-16; (?!it looks like)"):
            list(Text(path="a.txt").read(tmp_path))


def test_a_null_byte_in_a_text_does_not_make_it_binary(tmp_path):
    for encoding in ["utf-8", "cp949"]:
        text = "가나다라 마바사\x00아자차카 타파하. " * 20
        (tmp_path / "a.txt").write_bytes(text.replace("\x00", "", 18).encode(encoding))
        (document,) = Text(path="a.txt").read(tmp_path)
        assert document.text.count("\x00") == 2, encoding
        (tmp_path / "a.txt").write_bytes(text.replace("\x00", "\x00\x00").encode(encoding))
        with pytest.raises(UserError, match=r"null bytes.*`encoding`"):
            list(Text(path="a.txt").read(tmp_path))


def test_another_countrys_encoding_is_refused(tmp_path):
    for encoding in ["euc-jp", "shift-jis", "gb18030", "latin-1"]:
        text = {
            "latin-1": "Il était déjà né, señor Müller größer\n",
            "gb18030": "中华人民共和国的一切权力属于人民。“他说”，他在这里……不要担心！\n",
        }.get(encoding, "日本語の文章です。「漢字」とかなをまぜて書くことが、とても多い……せっかくだから。\n")
        (tmp_path / "a.txt").write_bytes((text * 50).encode(encoding))
        with pytest.raises(UserError, match="not text in UTF-8, CP949 or UTF-16"):
            list(Text(path="a.txt").read(tmp_path))


def test_an_encoding_that_is_given_is_kept_to(tmp_path):
    (tmp_path / "a.txt").write_bytes(KOREAN.encode("cp949"))
    with pytest.raises(UserError, match="is not utf-8"):
        list(Text(path="a.txt", encoding="utf-8").read(tmp_path))


@PROPERTY
@given(
    st.text(st.sampled_from("가나다라힣 abc,.!\n"), min_size=1), st.sampled_from(["utf-8", "cp949"]), st.integers(0, 3)
)
def test_a_head_cut_inside_a_character_does_not_disturb(text, encoding, cut):
    content = (text + "가나다").encode(encoding)
    assert detect(content[: len(content) - cut]) in (
        {encoding} if any(c > "\x7f" for c in text) or not cut else {"utf-8", encoding}
    )


@PROPERTY
@given(st.binary(), st.sampled_from(["utf-8", "cp949"]))
def test_any_bytes_become_text(line, codec):
    decode_line(line, codec).encode("utf-8")
