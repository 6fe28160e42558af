"""The readers of Wikipedia dumps, Modu corpora, JSON of any form and data sets of the Hub."""

import bz2
import json
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from front_end import PROPERTY
from hypothesis import example, given
from hypothesis import strategies as st
from mwparserfromhell.nodes import Tag
from plain_prose import plain_prose

from kobert_pipeline.corpus.readers.datasets import HubDataset
from kobert_pipeline.corpus.readers.json import Json
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.readers.modu import Modu
from kobert_pipeline.corpus.readers.parquet import Parquet
from kobert_pipeline.corpus.readers.wikipedia import Wikipedia, parsing_cost, prose
from kobert_pipeline.errors import UserError

PAGE = (
    "<page><title>{title}</title><ns>{ns}</ns><id>{id}</id>{redirect}"
    "<revision><id>9</id><text>{text}</text></revision></page>"
)
DUMP = (
    '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/"><siteinfo><sitename>위키백과</sitename></siteinfo>'
    + PAGE.format(
        title="한글",
        ns=0,
        id=1,
        redirect="",
        text="'''한글'''은 [[세종대왕|세종]]이 만들었다.&lt;ref&gt;출처&lt;/ref&gt;\n\n둘째 문단.",
    )
    + PAGE.format(title="훈민정음", ns=0, id=2, redirect='<redirect title="한글" />', text="#넘겨주기 [[한글]]")
    + PAGE.format(title="토론:한글", ns=1, id=3, redirect="", text="잡담")
    + PAGE.format(title="틀뿐", ns=0, id=4, redirect="", text="{{틀|가=나}}")
    + PAGE.format(title="서울", ns=0, id=5, redirect="", text="[[파일:a.jpg|섬네일|그림 설명]]\n서울은 수도이다.")
    + "</mediawiki>"
)


@pytest.mark.parametrize("name", ["dump.xml", "dump.xml.bz2"])
def test_a_dump_gives_its_articles_as_prose(name: Any, tmp_path):
    (tmp_path / name).write_bytes(bz2.compress(DUMP.encode()) if name.endswith("bz2") else DUMP.encode())
    found = {document.id: document.text for document in Wikipedia(path=name).read(tmp_path)}
    assert found == {
        f"{name}#1": "한글\n한글은 세종이 만들었다.\n둘째 문단.",
        f"{name}#5": "서울\n서울은 수도이다.",
    }, name


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("== 역사 ==\n옛날이다.", "옛날이다."),
        ('{| class="wikitable"\n! 가 !! 나\n|-\n| 1 || 2\n|}\n글이다.', "글이다."),
        ("* 하나\n* 둘", "하나\n둘"),
        ("이 언어는 C#\n\n그는 다음과 같이 말했다:\n: 가자;", "이 언어는 C#\n그는 다음과 같이 말했다:\n가자;"),
        ("[http://a.kr 누리집]이다. {{출처|가}}", "누리집이다."),
        ("값은 <math>x^2</math>이다.<br/>다음", "값은 이다.\n다음"),
        (
            "{{lang|en|Hangul}}(한글)은 {{nobr|{{llang|ja|ハングル}} 또는}} {{lang-en|[[Korean]]}}",
            "Hangul(한글)은 ハングル 또는 Korean",
        ),
        ("{{nobr}}{{lang|en}} 글", "글"),
        ("A &amp; B &lt; 다", "A & B < 다"),
        ("[[분류:한글]]\n[[파일:x.png|섬네일|[[세종]]의 {{틀}} 그림]]", ""),
        ("{{인용|[[파일:x.png]] 안}} 밖", "밖"),
        ("", ""),
    ],
)
def test_markup_becomes_prose(markup: Any, text: Any):
    assert prose(markup) == plain_prose(markup) == text


names = st.sampled_from(
    [
        "lang",
        "nobr",
        "lang-en",
        "출처",
        " Big ",
        "ref",
        "br",
        "table",
        "b",
        "math",
        "div",
        "파일:가.png",
        "분류:나",
        "문서",
    ]
)
words = st.sampled_from(
    [
        "가",
        "나 다",
        "\n",
        "* 라",
        " ",
        "== 마 ==\n",
        "|",
        "||",
        "}}",
        "{{",
        "]]",
        "[[",
        "<ref>",
        "</b>",
        "{|",
        "|}",
        "|-",
        "''",
        "&amp;",
        "=",
    ]
)


def around(inner):
    """Templates, links, tags and tables with `inner` in any of their places, names and attributes included."""
    one = st.one_of(names, inner)
    forms = [
        "{{%s|%s|%s}}",
        "[[%s|%s%s]]",
        "<%s a=%s>%s</%s>",
        "<%s %s/>%s",
        "{| %s\n|-\n| %s || %s\n|}",
        "[http://a.kr/%s %s]%s",
        "{{{%s|%s}}}%s",
    ]
    return st.builds(
        lambda form, *parts: form % (*parts, parts[0])[: form.count("%s")], st.sampled_from(forms), one, one, one
    )


markups = st.lists(st.recursive(st.one_of(words, names), around, max_leaves=12), max_size=8).map("".join)


@PROPERTY
@given(markup=markups)
@example(markup="<br><{{nobr|ref}}>가</{{nobr|ref}}><b {{lang|en|a}}='[[파일:가|나]]'>다</b>")
@example(markup="{{nobr|<ref>{{nobr|가}}</ref>{{lang|en|[[파일:가|{{nobr|나}}]]<br/>}}}}")
def test_prose_is_what_looking_for_each_node_gives(markup):
    assert prose(markup) == plain_prose(markup)


def test_a_page_is_walked_through_a_few_times_however_many_templates_it_has(monkeypatch):
    asked = []
    children = Tag.__children__
    monkeypatch.setattr(Tag, "__children__", lambda tag: asked.append(tag) or children(tag))
    assert len(prose("<b>글</b>{{nobr|이다}}[[파일:가.png]]\n" * 300).splitlines()) == 300
    assert len(asked) == 900  # for tags, templates, links


@pytest.mark.parametrize(
    "content", [DUMP.encode()[:300], "이것은 XML이 아니다".encode(), bz2.compress(DUMP.encode())[:-20]]
)
def test_half_a_dump_is_refused_by_name(content: Any, tmp_path):
    name = "d.xml.bz2" if content[:3] == b"BZh" else "d.xml"
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=name):
        list(Wikipedia(path=name).read(tmp_path))


def write(folder, content):
    (folder / "a.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def test_modu_corpora_are_read_by_paragraph_or_utterance(tmp_path):
    written = {"id": "W.1", "paragraph": [{"id": "W.1.1", "form": "첫 문단"}, {"id": "W.1.2", "form": "둘째\n문단"}]}
    spoken = {"id": "S.1", "utterance": [{"form": "네", "original_form": "(네)/(녜)"}]}
    write(tmp_path, {"id": "X", "metadata": {}, "document": [written, spoken]})
    assert [document.text for document in Modu(path="a.json").read(tmp_path)] == ["첫 문단\n둘째\n문단", "네"]
    assert [document.id for document in Modu(path="a.json").read(tmp_path)] == ["W.1", "S.1"]


def test_modu_corpora_are_read_in_the_given_encoding_and_a_line_may_be_empty(tmp_path):
    lines = [{"form": "첫 문단"}, {"form": None}, {"form": "셋째"}]
    content = json.dumps({"document": [{"id": "W.1", "paragraph": lines}]}, ensure_ascii=False)
    (tmp_path / "a.json").write_text(content, encoding="cp949")
    [document] = Modu(path="a.json", encoding="cp949").read(tmp_path)
    assert document.text == "첫 문단\n\n셋째"


def test_the_document_that_is_not_in_the_form_of_modu_is_numbered(tmp_path):
    (tmp_path / "a.json").write_text('{"document": [{"id": 1, "paragraph": []}, {"id": 2}]}', encoding="utf-8")
    with pytest.raises(UserError, match="document 2,"):
        list(Modu(path="a.json").read(tmp_path))


def test_rows_without_an_id_are_numbered_not_all_called_none(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": null, "text": "가"}\n{"id": 0, "text": "나"}\n', encoding="utf-8")
    assert [document.id for document in JsonLines(path="a.jsonl").read(tmp_path)] == ["a.jsonl#1", "0"]
    pyarrow.parquet.write_table(pyarrow.table({"id": [None, "b"], "text": ["가", "나"]}), tmp_path / "a.parquet")
    assert [document.id for document in Parquet(path="a.parquet", id="id").read(tmp_path)] == ["a.parquet#0", "b"]


@pytest.mark.parametrize(
    "content", [[], {"document": 3}, {"document": [{"id": 1}]}, {"document": [{"id": 1, "paragraph": [{"x": 1}]}]}]
)
def test_what_is_no_modu_corpus_is_refused(content: Any, tmp_path):
    write(tmp_path, content)
    with pytest.raises(UserError, match=r"a\.json.*Modu"):
        list(Modu(path="a.json").read(tmp_path))


AI_HUB = {
    "data": [
        {"doc": {"no": "7"}, "paragraphs": [{"context": "첫째"}, {"context": "둘째"}]},
        {"doc": {"no": "8"}, "paragraphs": []},
    ]
}


def test_paths_of_keys_lead_to_documents_texts_and_ids(tmp_path):
    write(tmp_path, AI_HUB)
    reader = Json(path="a.json", documents_at="data.*", text="paragraphs.*.context", id="doc.no")
    assert [(document.id, document.text) for document in reader.read(tmp_path)] == [("7", "첫째\n둘째"), ("8", "")]
    assert [document.text for document in Json(path="a.json", text="data.*.paragraphs.*.context").read(tmp_path)] == [
        "첫째\n둘째"
    ]
    write(tmp_path, {"가": {"t": "하나"}, "나": {"t": "둘"}})
    assert [document.text for document in Json(path="a.json", documents_at="*", text="t").read(tmp_path)] == [
        "하나",
        "둘",
    ]


WRONG_PATHS = [
    ({"text": "dta"}, "did you mean 'data'"),
    ({"text": "data.doc"}, "'doc' was looked for in list"),
    ({"text": "data.*.doc"}, "leads to dict"),
    ({"documents_at": "data.*", "text": "doc.no.*"}, "looked for in str"),
    ({"documents_at": "data.*", "text": "doc.no", "id": "nummer"}, "no key 'nummer'"),
]


def test_a_path_that_leads_nowhere_is_the_users_mistake(tmp_path):
    for options, said in WRONG_PATHS:
        write(tmp_path, AI_HUB)
        with pytest.raises(UserError, match=said.replace("*", r"\*")):
            list(Json(path="a.json", **options).read(tmp_path))


def test_a_folder_in_the_form_of_a_data_set_is_streamed(tmp_path):
    (tmp_path / "set").mkdir()
    for number in range(2):
        rows = {"key": [f"{number}a", f"{number}b"], "text": [f"글 {number}", f"또 글 {number}"]}
        pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / "set" / f"train-{number}-of-2.parquet")
    reader = HubDataset(path="set", id="key", limit_characters=8)
    assert [(document.id, document.text) for document in reader.read(tmp_path)] == [("0a", "글 0"), ("0b", "또 글 0")]
    assert len(reader.files(tmp_path)) == 2
    assert len(list(HubDataset(path="set").read(tmp_path))) == 4
    with pytest.raises(UserError, match="no column 'txt'"):
        list(HubDataset(path="set", text="txt").read(tmp_path))


def test_rows_without_a_text_or_an_id_are_empty_and_numbered(tmp_path):
    (tmp_path / "set").mkdir()
    pyarrow.parquet.write_table(
        pyarrow.table({"key": ["a", None], "text": [None, "글"]}), tmp_path / "set" / "train.parquet"
    )
    found = [(document.id, document.text) for document in HubDataset(path="set", id="key").read(tmp_path)]
    assert found == [("a", ""), ("set#1", "글")]


def test_a_folder_with_several_formats_is_refused_unless_its_card_says_what_is_data(tmp_path):
    folder = tmp_path / "set"
    (folder / ".cache").mkdir(parents=True)
    (folder / "a.jsonl").write_text('{"text": "글"}\n', encoding="utf-8")
    for other in ("b.json", "LICENSE.txt", ".cache/a.csv"):
        (folder / other).write_text('[{"text": "또"}]', encoding="utf-8")
    assert len(HubDataset(path="set").files_to_check(tmp_path)) == 1
    (folder / "c.csv").write_text("text\n셋째\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"set has files in CSV \(c\.csv\) and JSON \(a\.jsonl\), of which"):
        HubDataset(path="set").files_to_check(tmp_path)
    (folder / "README.md").write_text("---\nconfigs:\n- data_files: a.jsonl\n---\n", encoding="utf-8")
    assert len(HubDataset(path="set").files_to_check(tmp_path)) == 1


def test_a_data_set_of_the_hub_needs_its_commit(tmp_path):
    with pytest.raises(UserError, match="revision"):
        HubDataset(path="owner/name").files(tmp_path)
    assert HubDataset(path="owner/name", revision="abc").files(tmp_path) == []


def test_a_hub_out_of_reach_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="owner/name cannot be read as a data set"):
        list(HubDataset(path="owner/name", revision="abc").read(tmp_path))


def test_a_row_that_holds_no_text_is_named_by_its_number(tmp_path):
    (tmp_path / "set").mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"text": [7]}), tmp_path / "set" / "train.parquet")
    with pytest.raises(UserError, match="row 0: the column 'text' holds int, text was expected"):
        list(HubDataset(path="set").read(tmp_path))


def test_marks_that_need_no_end_cost_nothing():
    markup = "가<br>나<ref name=a />다<br/>"
    assert parsing_cost(markup) == len(markup)
    assert parsing_cost("<ref>" + markup) == 2 * len("<ref>" + markup)
