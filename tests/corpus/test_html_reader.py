"""Pages as Korean sites write them: title and main text are read in the charset of the page, menus and scripts are
not."""

import gzip
import re
import sys
from pathlib import Path

import pytest

from kobert_pipeline.corpus.reader import Skipped
from kobert_pipeline.corpus.readers.html import Html, count_characters, parse
from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.unreadable import UnreadableInput

MENU = (
    '<nav><ul><li><a href="/">홈</a></li><li><a href="/politics">정치</a></li>'
    '<li><a href="/login">로그인</a></li></ul></nav>'
)
FOOT = "<footer><p>Copyright 2026 한빛일보. 무단 전재 및 재배포 금지</p><p>대표 홍길동</p></footer>"
NEWS = (
    "시립 도서관이 다음 달부터 평일 밤 열 시까지 문을 연다. 시는 시민의 절반이 저녁 이용을 바란다고 밝혔다.",
    "도서관 관계자는 퇴근한 뒤에도 책을 읽을 곳이 필요하다는 의견이 많았다며 자료실도 함께 연다고 말했다.",
    "야간 운영에는 자원봉사자 서른 명이 참여한다. 똠방각하가 쓴 책도 밤에 빌릴 수 있다.",
)
PAGE = f"""<!DOCTYPE html>
<html lang="ko"><head><META><title>도서관, 밤에도 문을 연다</title>
<script>var advertisement = "지금 구매하세요";</script><style>p {{color: red}}</style></head><body>
<header>{MENU}</header><main><article><h1>도서관, 밤에도 문을 연다</h1>
<p>{NEWS[0]}</p><p>{NEWS[1].replace("자료실", '<a href="/room">자료실</a>')}</p><p>{NEWS[2]}</p></article></main>
<aside><h3>많이 본 뉴스</h3><ul><li><a href="/1">오늘의 운세</a></li></ul></aside>
<div class="comments"><h4>댓글 1</h4><p>기대됩니다</p></div>{FOOT}</body></html>"""
READ = "\n".join(["도서관, 밤에도 문을 연다", *NEWS])


def read(folder, name, content, **options):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [document.text for document in Html(path=name, **options).read(folder)]


def test_a_page_is_its_title_and_its_paragraphs_in_whatever_charset(tmp_path):
    """The word 똠방각하 is in CP949 and not in EUC-KR, which pages claim all the same."""
    declared = '<meta http-equiv="Content-Type" content="text/html; charset=%s">'
    cases = {
        "utf-8": PAGE.encode(),
        "mark": PAGE.encode("utf-8-sig"),
        "utf-16": PAGE.encode("utf-16"),
        "euc-kr": PAGE.replace("<META>", '<meta charset="euc-kr">').encode("cp949"),
        "ks_c": PAGE.replace("<META>", declared % "ks_c_5601-1987").encode("cp949"),
        "none": PAGE.encode("cp949"),
        "wrong": PAGE.replace("<META>", declared % "euc-kr").encode(),
        "unknown": PAGE.replace("<META>", declared % "hangul-97").encode("cp949"),
        "xhtml": ('<?xml version="1.0" encoding="euc-kr"?>\n' + PAGE).encode("cp949"),
    }
    for name, content in cases.items():
        assert read(tmp_path, f"{name}.html", content) == [READ], name
    damaged = cases["euc-kr"].replace("무단".encode("cp949"), b"\xff\xff")
    assert read(tmp_path, "damaged.html", damaged) == [READ], "the main text is whole"
    assert read(tmp_path, "a.htm.gz", gzip.compress(PAGE.encode("cp949"))) == [READ]
    assert read(tmp_path, "a.html", PAGE.encode("johab"), encoding="johab") == [READ]


def test_pages_of_other_makes(tmp_path):
    old = f"""<html><head><title>나의 홈페이지</title></head><body bgcolor=white>
<table><tr><td>{MENU}</td><td><font size=2>
오늘은 산에 다녀왔다. 날씨가 맑아서 바다까지 보였다.<br><br>
정상에서 김밥을 먹고 한참을 쉬었다.</font></td></tr></table></body>"""
    assert read(tmp_path, "old.html", old) == [
        "나의 홈페이지\n오늘은 산에 다녀왔다. 날씨가 맑아서 바다까지 보였다.\n정상에서 김밥을 먹고 한참을 쉬었다."
    ]
    listed = f"""<!doctype html><head><meta charset=utf-8><title>한글</title></head><body>{MENU}
    <div id="content"><h1>한글</h1>
    <p><b>한글</b>은 <a href="/k">한국어</a>의 공식 문자로서, 세종대왕이 1443년에 만들어 1446년에 반포하였다.</p>
    <h2>구조</h2>
    <p>자음 열네 글자와 모음 열 글자로 이루어지며, 이를 모아써서 한 음절을 나타낸다.</p>
<ul><li>초성은 첫소리를 적는다.</li></ul></div></body>"""
    assert read(tmp_path, "wiki.html", listed)[0].split("\n") == [
        "한글",
        "한글은 한국어의 공식 문자로서, 세종대왕이 1443년에 만들어 1446년에 반포하였다.",
        "구조",
        "자음 열네 글자와 모음 열 글자로 이루어지며, 이를 모아써서 한 음절을 나타낸다.",
        "초성은 첫소리를 적는다.",
    ]


def test_what_is_no_page_is_unfit(tmp_path):
    empty = "<html><head><title>앱</title><script src=app.js></script></head>"
    empty += "<body><div id=root></div><noscript>켜 주세요.</noscript></body>"
    cases = {
        "no_text": empty.encode(),
        "not_html": "그는 오늘도 학교에 갔다. 3 < 5".encode(),
        "binary": b"<html>\x00\x00\x01",
        "encoding": "<html><p>あいうえおかきくけこ".encode("euc-jp") + b"\xff\xff",
        "pdf": b"%PDF-1.4 <html>",
        "too_deep": b"<div>" * 3000 + b"<p>x",
        "too_large": b"<html>" + b" " * (20 * 2**20),
    }
    for reason, content in cases.items():
        skipped = Skipped()
        (tmp_path / "a.html").write_bytes(content)
        assert list(Html(path="a.html", on_error="skip").read_files([tmp_path / "a.html"], skipped)) == []
        assert skipped.counts[f"files_skipped_{reason}"] == 1, (reason, skipped)
    with pytest.raises(UnreadableInput, match=r"is not johab; set the option encoding"):
        read(tmp_path, "b.html", b"<html>\xff\xff", encoding="johab")
    with pytest.raises(UserError, match="there is no encoding 'utf-9'"):
        read(tmp_path, "b.html", PAGE, encoding="utf-9")


def test_the_library_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    with pytest.raises(UserError, match=r"pip install 'kobert-pipeline\[html\]'") as raised:
        read(tmp_path, "a.html", PAGE)
    assert not isinstance(raised.value, UnreadableInput), "a library that is missing is nothing to skip files for"


SENTENCES = [f"{number}번째 문단은 밤의 도서관을 조금 길게 소개한다." for number in range(300)]


@pytest.mark.parametrize("tag", ["font color=red", "div", "b", "ul", "blockquote", "dd", "li", "o:p"])
@pytest.mark.parametrize("end", ["", "</>"])
def test_no_paragraph_is_lost_however_deep_it_is(tmp_path, tag, end):
    """The parser leaves out what is nested in more than 256 elements, as many as sites forgot to close."""
    paragraphs = "".join(f"<{tag}><p>{sentence}</p>" for sentence in SENTENCES)
    ends = end.replace("</", f"</{tag.split()[0]}") * len(SENTENCES)
    (text,) = read(tmp_path, "deep.html", f"<html><head><title>밤</title></head><body>{paragraphs}{ends}</body></html>")
    assert text.split("\n") == ["밤", *SENTENCES]


PARAGRAPHS = [f"<p>{sentence}</p>" for sentence in SENTENCES]
OTHER_MAKES = {
    "the body ends early": f"<body>{''.join(PARAGRAPHS[:9])}</body></html>{''.join(PARAGRAPHS[9:])}",
    "pages joined": "".join(f"<html><body>{''.join(part)}</body></html>" for part in (PARAGRAPHS[:9], PARAGRAPHS[9:])),
    "a form as a whole": f"<html><body><form id=aspnetForm>{''.join(PARAGRAPHS)}</form></body></html>",
    "a null": f"<html><body>{''.join(PARAGRAPHS)}</body>\0</html>",
}


@pytest.mark.parametrize("page", OTHER_MAKES.values(), ids=OTHER_MAKES)
def test_no_paragraph_is_lost_in_pages_that_are_put_together_oddly(tmp_path, page):
    (text,) = read(tmp_path, "a.html", page)
    assert text.split("\n") == SENTENCES


def test_characters_of_a_page_are_counted_with_those_that_are_not_main_text(tmp_path):
    (tmp_path / "a.html").write_text(PAGE, encoding="utf-8")
    (document,) = Html(path="a.html").read(tmp_path)
    words = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", PAGE)
    assert len(document.text) < document.characters_in <= len(" ".join(words.split())) + 1


@pytest.mark.parametrize(
    ("page", "size"),
    [("", 0), ("<!-- x -->", 0), ("<p>가나</p><script>다</script>", 3), ("<b><i>가</i></b>", 2)],
)
def test_characters_of_a_page(page, size):
    assert count_characters(parse(Path("a.html"), page)) == size
