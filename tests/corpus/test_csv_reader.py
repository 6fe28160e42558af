"""The reader of CSV and TSV files: what a CSV writer writes it reads, wrong files are reported in a sentence,
evaluation sets of pairs are kept out of the corpus by both of their texts."""

import bz2
import csv
import gzip
import io
import itertools
import lzma
from pathlib import Path
from typing import Any

import pytest
import zstandard
from front_end import PROPERTY
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kobert_pipeline.corpus import stage
from kobert_pipeline.corpus.document import Document, read_documents
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.readers import csv as module
from kobert_pipeline.corpus.readers.csv import Csv
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.tables import rows

COMPRESSIONS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
CSV = 'id,text,film\r\na,"첫 줄, 그리고\r\n""둘째"" 줄",1\r\n\r\nb,별로,1\r\nc,,2\r\n'
TSV = 'id\ttext\tfilm\na\t"열기만 한 따옴표\t1\n\nb\t별로, 정말\t1\nc\t\t2\n'
WANTED = {"a.csv": ['첫 줄, 그리고\r\n"둘째" 줄', "별로", ""], "a.tsv": ['"열기만 한 따옴표', "별로, 정말", ""]}


def read(folder: Path, name: str, content: str | bytes, **options: Any) -> list[Document]:
    """The documents of a file with this content."""
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return list(Csv(path=name, **options).read(folder))


def test_the_ending_tells_the_delimiter_in_every_compression_and_encoding(tmp_path):
    for (name, content), suffix, encoding in itertools.product(
        [("a.csv", CSV), ("a.tsv", TSV)], COMPRESSIONS, ["utf-8", "utf-8-sig", "cp949", "utf-16"]
    ):
        found = read(tmp_path, f"{name}{suffix}", COMPRESSIONS[suffix](content.encode(encoding)))
        assert [document.text for document in found] == WANTED[name], (name, suffix, encoding)
        assert {document.source for document in found} == {f"{name}{suffix}"}, (name, suffix, encoding)


cells = st.text(
    st.one_of(
        st.sampled_from('",\t;\r\n 가'), st.characters(exclude_categories=["Cs"], exclude_characters="\x00\ufeff")
    ),
    max_size=9,
)
"""Neither null bytes, which no text holds, nor byte order marks, which are swallowed at the beginning of lines."""


@PROPERTY
@given(
    table=st.integers(1, 3).flatmap(
        lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), max_size=5)
    ),
    delimiter=st.sampled_from(",;\t|"),
    ends=st.sampled_from(["\n", "\r\n"]),
    every=st.booleans(),
)
@example(table=[[""], ["\n"], ['"']], delimiter=",", ends="\n", every=False)
@example(table=[["\u2028가", "\x85\x0b"]], delimiter="\t", ends="\r\n", every=False)
def test_what_a_csv_writer_writes_is_read(tmp_path_factory, table, delimiter, ends, every):
    assume(
        every or ends == "\r\n" or not any("\r" in cell for row in table for cell in row)
    )  # Python 3.11 forgets to quote those
    path = tmp_path_factory.getbasetemp() / "written.csv"
    columns = ["가", "나", "다"][: len(table[0]) if table else 1]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(
            file, delimiter=delimiter, lineterminator=ends, quoting=csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL
        )
        writer.writerows([columns, *table])
    reader = Csv(path=str(path), text=columns, delimiter=delimiter, quoted=True, encoding="utf-8")
    assert [document.text for document in reader.read(path.parent)] == [cell for row in table for cell in row]


def test_rows_are_numbered_by_their_first_line_or_called_by_their_id(tmp_path):
    assert [document.id for document in read(tmp_path, "a.csv", CSV)] == ["a.csv#2", "a.csv#5", "a.csv#6"]
    assert [document.id for document in read(tmp_path, "a.csv", CSV, id="id", ordered=False)] == ["a", "b", "c"]
    assert [document.ordered for document in read(tmp_path, "a.csv", CSV, ordered=False)] == [False] * 3


def test_each_of_several_columns_is_a_document(tmp_path):
    found = read(tmp_path, "a.csv", "sentence1,sentence2,label\n가,나,0\n다,라,1\n", text=["sentence1", "sentence2"])
    assert [document.text for document in found] == ["가", "나", "다", "라"]
    assert [document.id for document in found][:3] == ["a.csv#2:sentence1", "a.csv#2:sentence2", "a.csv#3:sentence1"]


def test_groups_are_pseudo_documents_of_one_line_a_cell_without_order(tmp_path):
    found = read(tmp_path, "a.csv", CSV, group_by="film")
    assert [document.text for document in found] == ['첫 줄, 그리고 "둘째" 줄\n별로', ""]
    assert not any(document.ordered for document in found)
    assert [document.id for document in found] == ["a.csv#0:1", "a.csv#1:2"]
    assert [document.text for document in read(tmp_path, "a.csv", CSV, group_by="film", text=["id", "text"])][
        1
    ] == "c\n"


def test_the_delimiter_and_the_meaning_of_quotes_can_be_said(tmp_path):
    assert [document.text for document in read(tmp_path, "a.dat", 'text|x\n"가|나"|1\n', delimiter="|")] == ["가|나"]
    assert [document.text for document in read(tmp_path, "a.csv", 'text;x\n"가";1\n', delimiter=";", quoted=False)] == [
        '"가"'
    ]
    assert [document.text for document in read(tmp_path, "a.tsv", 'text\tx\n"가\n나"\t1\n', quoted=True)] == ["가\n나"]
    assert [document.text for document in read(tmp_path, "A.CSV", "text,x\n가,1\n")] == ["가"]


def test_semicolons_are_found_in_the_first_line_of_a_csv_file_unless_the_delimiter_is_said(tmp_path):
    content = 'id;text\r\na;"가; 나"\r\nb;다, 라\r\n'
    assert [document.text for document in read(tmp_path, "a.csv", content)] == ["가; 나", "다, 라"]
    with pytest.raises(UserError, match="no column 'text'"):
        read(tmp_path, "a.csv", content, delimiter=",")


WRONG_FILES = [
    ("a.csv", "txet,label\n가,0\n", {},
     r" - did you mean 'txet'\? \(found: label, txet\); the source's option text names the column$"),
    ("a.csv", "text,label\n가,0\n", {"text": ["text", "text2"]},
     "no column 'text2' in its first line - did you mean 'text'"),
    ("a.csv", "text,label\n가,0\n", {"id": "nr"},
     r"no column 'nr' in its first line \(found: label, text\); the source's option id names"),
    ("a.csv", "text,label\n가,0\n", {"group_by": "lable"}, "no column 'lable' .*did you mean 'label'"),
    ("a.tsv", "text;label\n가;0\n", {},
     "which has semicolons and no tabs; set the source's option delimiter: \";\""),
    ("a.csv", "text\tlabel\n가\t0\n", {},
     r'which has tabs and no commas; set the source\'s option delimiter: "\\t"'),
    ("a.csv", "label\n0\n", {}, "found: label.*if ',' does not separate its cells, set the option delimiter"),
    ("a.csv", "\n\n", {}, r"no column 'text' in its first line \(found: nothing\)"),
    ("a.csv", b"\xef\xbb\xbf", {}, "no column 'text'"),
    ("a.csv", "text,text\n가,나\n", {}, "two columns of its first line are called 'text'; rename one"),
    ("a.csv", 'text,label\n가,0\n"나,1\n', {},
    r"line 3: not CSV \(unexpected end of data\); a cell with a quote in it"),
    ("a.csv", 'text,label\n"가"나,0\n', {}, "line 2: not CSV"),
    ("a.csv", "text,label\r가,0\r", {}, r"line 1: not CSV \(new-line character seen in unquoted field\);"),
    ("a.csv", "text,label\n가,0\n나\n", {}, "line 3: 1 columns, 2 were expected, as in the first line"),
    ("a.csv", 'text,label\n"가\n나",0\n다,1,2\n', {}, "line 4: 3 columns, 2 were expected"),
    ("a.tsv", "text\tlabel\n가\t0\t1\n", {}, "line 2: 3 columns, 2 were expected"),
    ("a.csv", b"", {}, "is empty"),
    ("a.csv", b"text\n\x00\x00\x01", {},
    r"binary file .*text in UTF-8, CP949 or UTF-16 was expected; of a source .*`encoding`"),
    ("a.csv", "text,label\nあいうえおかきくけこ,0\n".encode("euc-jp"), {},
    "not text in UTF-8, CP949 or UTF-16.*option `encoding`"),
    ("a.csv", "text\n가나다\n".encode("cp949"), {"encoding": "utf-8"}, "is not utf-8"),
    ("a.csv", "text\n가나다\n".encode()[:-2], {}, "truncated in the middle of a character"),
    ("a.csv.gz", gzip.compress(b"text\n" * 999, mtime=0)[:-9], {}, "damaged"),
    ("a.xls", "text\n가\n", {},
    r"set the option delimiter to what separates its cells; only \.csv, \.tsv, \.txt files"),
]  # fmt: skip


def test_a_wrong_file_is_told_in_one_sentence(tmp_path):
    for name, content, options, said in WRONG_FILES:
        with pytest.raises(UserError, match=said) as raised:
            read(tmp_path, name, content, **options)
        assert "\n" not in str(raised.value), (name, content, options)
        assert str(tmp_path / name) in str(raised.value), (name, content, options)


A_WRONG_OPTION_IS_REFUSED_ROWS = [
    (
        {"delimiter": r"\t"},
        r"delimiter: must be one character other than a quote or a line end, not .* "
        r'\(a tab in YAML: "\\t", in double quotes\)',
    ),
    ({"delimiter": ""}, "delimiter: must be one character other than a quote or a line end, not ''"),
    ({"delimiter": '"'}, "delimiter: must be one character"),
    ({"delimiter": "\n"}, "delimiter: must be one character"),
    ({"text": []}, "text: needs the name of a column, or a list of names"),
    ({"text": ""}, "text: needs the name of a column, or a list of names"),
]


def test_a_wrong_option_is_refused():
    for options, said in A_WRONG_OPTION_IS_REFUSED_ROWS:
        with pytest.raises(Exception, match=said):
            Reader.choose({"name": "csv", "path": "a.csv"} | options)


def test_a_text_longer_than_the_library_s_limit_is_read_and_an_unclosed_quote_reported(tmp_path, monkeypatch):
    long = "가" * 200_000  # csv itself stops at 131,072
    assert [document.text for document in read(tmp_path, "a.csv", f'text,x\n"{long}",1\n')] == [long]
    csv.field_size_limit(500)  # the limit is the process's; what was read above raised it
    monkeypatch.setattr(module, "LONGEST_CELL", 1000)
    with pytest.raises(UserError, match=r"line 3: a cell has more than 1,000 characters; is its quote never closed\?"):
        read(tmp_path, "a.csv", f'text,x\n가,1\n"{long}\n')


def test_a_stray_null_byte_is_left_to_the_cleaning(tmp_path):
    assert read(tmp_path, "a.csv", "text,x\n" + "가\x00나,1\n" + "다,1\n" * 99)[0].text == "가\x00나"


def test_a_task_and_the_corpus_read_the_same_texts(tmp_path):
    for name, content in (("a.csv", CSV), ("a.tsv", TSV)):
        found = read(tmp_path, name, content)
        assert [row.cells["text"] for row in rows(tmp_path / name)] == [document.text for document in found]


PAIRS = [("첫째 글은 가을 하늘이 높다고 한다", "둘째 글은 하늘이 높고 말이 살찐다고 한다")]


@pytest.mark.parametrize(("columns", "kept"), [("sentence1", 2), (["sentence1", "sentence2"], 1)])
def test_both_texts_of_pairs_are_kept_out_of_the_corpus(tmp_path, columns, kept):
    line = io.StringIO()
    csv.writer(line).writerows([("sentence1", "sentence2"), *PAIRS])
    (tmp_path / "pairs.csv").write_text(line.getvalue(), encoding="utf-8")
    (tmp_path / "a.txt").write_text("\n\n".join([*PAIRS[0], "이 글은 어디에도 없는 글이라서 남는다"]), encoding="utf-8")
    options = CorpusOptions(
        sources=[{"name": "text", "path": "a.txt"}],
        decontaminate=[{"name": "csv", "path": "pairs.csv", "text": columns}],
    )
    counts = stage.run(options, tmp_path, tmp_path / "out", num_workers=1)
    assert counts["documents_kept"] == kept
    assert counts["documents_dropped_contaminated"] == 3 - kept
    texts = [document.text for part in sorted((tmp_path / "out").glob("part-*")) for document in read_documents(part)]
    assert len(texts) == kept and "이 글은 어디에도 없는 글이라서 남는다" in texts


@pytest.mark.parametrize("group_by", [None, "movie"])
def test_gathered_reviews_of_an_evaluation_set_are_each_kept_out(tmp_path, group_by):
    (tmp_path / "test.csv").write_text(
        "movie,text\n1,배우들 연기가 정말 좋았다\n1,지루해서 졸다가 나왔음\n", encoding="utf-8"
    )
    (tmp_path / "a.txt").write_text("지루해서 졸다가 나왔음\n\n이 글은 어디에도 없는 글이라서 남는다", encoding="utf-8")
    held = {"name": "csv", "path": "test.csv", "group_by": group_by}
    options = CorpusOptions(sources=[{"name": "text", "path": "a.txt"}], decontaminate=[held])
    assert stage.run(options, tmp_path, tmp_path / "out", num_workers=1)["documents_dropped_contaminated"] == 1
