"""The reader of CSV and TSV files: what becomes a document, and that evaluation sets of pairs are kept out of the
corpus by both of their texts."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.corpus import stage
from kobert_pipeline.corpus.document import Document, read_documents
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.readers.csv import Csv
from kobert_pipeline.errors import UserError

CSV = 'id,text,film\r\na,"첫 줄, 그리고\r\n""둘째"" 줄",1\r\n\r\nb,별로,1\r\nc,,2\r\n'
TSV = 'id\ttext\tfilm\na\t"열기만 한 따옴표\t1\n\nb\t별로, 정말\t1\nc\t\t2\n'


def read(folder: Path, name: str, content: str | bytes, **options: Any) -> list[Document]:
    """The documents of a file with this content."""
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return list(Csv(path=name, **options).read(folder))


def test_rows_are_numbered_with_blank_ones_or_called_by_their_id(tmp_path):
    assert [document.id for document in read(tmp_path, "a.csv", CSV)] == ["a.csv#1", "a.csv#3", "a.csv#4"]
    assert [document.id for document in read(tmp_path, "a.csv", CSV, id="id", ordered=False)] == ["a", "b", "c"]
    assert [document.ordered for document in read(tmp_path, "a.csv", CSV, ordered=False)] == [False] * 3


def test_each_of_several_columns_is_a_document(tmp_path):
    found = read(tmp_path, "a.csv", "sentence1,sentence2,label\n가,나,0\n다,라,1\n", text=["sentence1", "sentence2"])
    assert [document.text for document in found] == ["가", "나", "다", "라"]
    assert [document.id for document in found][:3] == ["a.csv#1:sentence1", "a.csv#1:sentence2", "a.csv#2:sentence1"]


def test_groups_are_pseudo_documents_of_one_line_a_cell_without_order(tmp_path):
    found = read(tmp_path, "a.csv", CSV, group_by="film")
    assert [document.text for document in found] == ['첫 줄, 그리고 "둘째" 줄\n별로', ""]
    assert not any(document.ordered for document in found)
    assert [document.id for document in found] == ["a.csv#0:1", "a.csv#1:2"]
    assert [document.text for document in read(tmp_path, "a.csv", CSV, group_by="film", text=["id", "text"])][
        1
    ] == "c\n"


def test_a_merged_cell_names_no_group(tmp_path):
    """Excel writes the value of merged cells into the first of them."""
    with pytest.raises(UserError, match="line 3: the column 'film' is empty; of merged cells only the first"):
        read(tmp_path, "a.csv", "film,text\n기생충,가\n,나\n", group_by="film")


def test_a_document_without_an_id_has_the_number_of_its_row(tmp_path):
    found = read(tmp_path, "a.csv", "id,text\na,가\n,나\n,다\n", id="id")
    assert [document.id for document in found] == ["a", "a.csv#2", "a.csv#3"]


def test_the_options_of_the_file_are_passed_on(tmp_path):
    [document] = read(tmp_path, "a.dat", 'text|x\n"가|나"|1\n'.encode("cp949"), delimiter="|", encoding="cp949")
    assert document.text == "가|나"
    assert [document.text for document in read(tmp_path, "a.csv", 'text,x\n"가",1\n', quoted=False)] == ['"가"']


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"text": ["text", "text2"]}, "no column 'text2' in its first line - did you mean 'text'"),
        ({"id": "nr"}, r"no column 'nr' in its first line \(found: text, label\); the source's option id names"),
        ({"group_by": "lable"}, "no column 'lable' .*did you mean 'label'"),
    ],
)
def test_a_column_that_an_option_names_must_be_there(tmp_path, options, word):
    with pytest.raises(UserError, match=word):
        read(tmp_path, "a.csv", "text,label\n", **options)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"delimiter": r"\t"}, r"delimiter: must be one character other than .* \(a tab in YAML: \"\\t\", in double"),
        ({"delimiter": ""}, "delimiter: must be one character other than a quote or a line end, not ''"),
        ({"delimiter": '"'}, "delimiter: must be one character"),
        ({"delimiter": "\n"}, "delimiter: must be one character"),
        ({"text": []}, "text: needs the name of a column, or a list of names"),
        ({"text": ""}, "text: needs the name of a column, or a list of names"),
    ],
)
def test_a_wrong_option_is_refused(options, word):
    with pytest.raises(Exception, match=word):
        Reader.choose({"name": "csv", "path": "a.csv"} | options)


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


@pytest.mark.parametrize("ordered", [False, True])
def test_a_cell_of_several_lines_is_kept_out_whether_lines_have_an_order_or_not(tmp_path, ordered):
    for name, others in (("test.csv", ""), ("a.csv", "이 글은 어디에도 없는 글이라서 남는다\n")):
        (tmp_path / name).write_text(f'text\n"배우들 연기가\n정말 좋았다"\n{others}', encoding="utf-8")
    source, held = ({"name": "csv", "path": name, "ordered": ordered} for name in ("a.csv", "test.csv"))
    options = CorpusOptions(sources=[source], decontaminate=[held])
    assert stage.run(options, tmp_path, tmp_path / "out", num_workers=1)["documents_dropped_contaminated"] == 1


@pytest.mark.parametrize("group_by", [None, "movie"])
def test_gathered_reviews_of_an_evaluation_set_are_each_kept_out(tmp_path, group_by):
    (tmp_path / "test.csv").write_text(
        "movie,text\n1,배우들 연기가 정말 좋았다\n1,지루해서 졸다가 나왔음\n", encoding="utf-8"
    )
    (tmp_path / "a.txt").write_text("지루해서 졸다가 나왔음\n\n이 글은 어디에도 없는 글이라서 남는다", encoding="utf-8")
    held = {"name": "csv", "path": "test.csv", "group_by": group_by}
    options = CorpusOptions(sources=[{"name": "text", "path": "a.txt"}], decontaminate=[held])
    assert stage.run(options, tmp_path, tmp_path / "out", num_workers=1)["documents_dropped_contaminated"] == 1
