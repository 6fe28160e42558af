"""What readers refuse beyond the forms of files (tests/tables): columns and keys, and files before they are read."""

import json
import os

import pyarrow
import pyarrow.parquet
import pytest

from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.errors import UserError

READERS = [
    "text",
    "jsonl",
    "nsmc",
    "parquet",
    "squad",
    "csv",
    "wikipedia",
    "html",
    "modu",
    "wikiextractor",
    "subtitles",
    "chat",
]
COLUMNS = {
    "text": ["가", None],
    "number": [1, 2],
    "list": [["가"], []],
    "bytes": [b"a", b"b"],
}

REFUSED = [
    ({"name": "jsonl"}, '{"id": 3, "txt": "가"}', "missing_key", "line 1: there is no key 'text' - did you mean 'txt'"),
    ({"name": "jsonl"}, '{"id": 3, "txt": "가"}', "missing_key", "set the source's option text"),
    ({"name": "jsonl", "id": "key"}, '{"text": "가"}', "missing_key", "set id: null to number the documents"),
    ({"name": "jsonl"}, '{"id": 3, "text": ["가"]}', "wrong_type", "'text' holds list"),
    ({"name": "nsmc"}, "id\tdocumnet\tlabel\n1\t가\t1\n", "columns", "did you mean 'documnet'"),
    ({"name": "nsmc"}, "2\t가\t1\n", "columns", "no column 'id'"),
    ({"name": "nsmc"}, "id\tdocument\tlabel\n1\t가\t1\n2\t나\n", "columns", "line 3: 2 columns"),
    ({"name": "parquet", "text": "txet"}, COLUMNS, "columns", "'text'? (found: text, number, list, bytes);"),
    ({"name": "parquet", "group_by": "movie"}, COLUMNS, "columns", "the source's option group_by names the column"),
    ({"name": "parquet", "text": "number"}, COLUMNS, None, "row 1: the column 'number' holds int, text was expected"),
    ({"name": "parquet", "text": "list"}, COLUMNS, None, "holds list"),
    ({"name": "parquet", "text": "bytes", "group_by": "text"}, COLUMNS, None, "holds bytes"),
    ({"name": "csv", "delimiter": ","}, "id;text\n1;가\n", "columns", "there is no column 'text'"),
    ({"name": "csv"}, "text\tlabel\n가\t0\n", "columns", 'set delimiter: "\\t"'),
    ({"name": "squad"}, json.dumps({"data": [{"title": "가"}]}), "other_form", "SQuAD form"),
    ({"name": "text", "encoding": "utf-9"}, "가", None, "utf-9"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "content", "reason", "word"), REFUSED)
def test_what_a_reader_cannot_read_is_refused_in_one_sentence(tmp_path, options, content, reason, word):
    path = tmp_path / ("a.csv" if options["name"] == "csv" else "a")
    if isinstance(content, dict):
        pyarrow.parquet.write_table(pyarrow.table(content), path)
    else:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        list(Reader.choose(options | {"path": path.name}).read(tmp_path))
    assert (getattr(caught.value, "reason", None), word in str(caught.value)) == (reason, True), str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_a_missing_empty_or_forbidden_file_is_named_before_anything_is_read(tmp_path, monkeypatch, name):
    (tmp_path / "a").write_text("가", encoding="utf-8")
    (tmp_path / "b").touch()
    (tmp_path / "folder").mkdir()
    for path, word in (
        (["a", "b"], r"/b is empty"), (["a", "no.txt"], r"no\.txt.*data_dir"), ("no-*.txt", "data_dir"),
        ("folder", "is a folder"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=word):
            Reader.choose({"name": name, "path": path}).files(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "a")  # whoever runs as root may read everything
    with pytest.raises(UserError, match=r"/a cannot be read"):
        Reader.choose({"name": name, "path": "a"}).files(tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_a_binary_file_is_refused_by_every_reader(tmp_path, name):
    (tmp_path / "a").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00" + bytes(range(256)) * 20)
    with pytest.raises(UserError) as caught:
        list(Reader.choose({"name": name, "path": "a"}).read(tmp_path))
    assert str(tmp_path / "a") in str(caught.value) and "\n" not in str(caught.value)
