"""Files that cannot be read are refused in one sentence that names the file and says what is wrong."""

import bz2
import gzip
import itertools
import json
import lzma
import os
import random

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from kobert_pipeline.corpus.readers.csv import Csv
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.readers.nsmc import Nsmc
from kobert_pipeline.corpus.readers.parquet import Parquet
from kobert_pipeline.corpus.readers.squad import Squad
from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.errors import UserError

READERS = [Text, JsonLines, Nsmc, Parquet, Squad, Csv]
COMPRESSIONS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,  # as the zstd command writes it
}
KOREAN = "안녕하세요, 영화가 정말 재미있었습니다.\n"
random_bytes = random.Random(5).randbytes


def complaint(reader, folder, name):
    """The message of the error that reading raises; it must name the file."""
    with pytest.raises(UserError) as raised:
        list(reader.read(folder))
    message = str(raised.value)
    assert str(folder / name) in message
    assert "\n" not in message
    return message


def test_a_missing_file_is_named_with_the_folder_it_was_looked_for_in(tmp_path):
    (tmp_path / "folder").mkdir()
    for kind in READERS:
        assert "data_dir" in complaint(kind(path="no.txt"), tmp_path, "no.txt"), kind
        assert "data_dir" in complaint(kind(path="no-*.txt"), tmp_path, "no-*.txt"), kind
        complaint(kind(path="folder"), tmp_path, "folder")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    for kind in READERS:
        complaint(kind(path="empty"), tmp_path, "empty")


def test_an_empty_or_forbidden_file_is_found_before_anything_is_read(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("가", encoding="utf-8")
    (tmp_path / "b").touch()
    for kind in READERS:
        with pytest.raises(UserError, match=r"/b is empty"):
            kind(path=["a", "b"]).files(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "a")  # whoever runs as root may read everything
    for kind in READERS:
        with pytest.raises(UserError, match=r"/a cannot be read"):
            kind(path="a").files(tmp_path)


def test_a_binary_file_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00" + random_bytes(5000))
    for kind in READERS:
        complaint(kind(path="a.txt"), tmp_path, "a.txt")


def test_a_task_file_in_cp949_is_refused_with_the_way_to_convert_it(tmp_path):
    for suffix, repeat in itertools.product(["", *COMPRESSIONS], [1, 100, 5000]):
        content = ("id\tdocument\tlabel\n" + f"1\t{KOREAN.strip()}\t1\n" * repeat).encode("cp949")
        (tmp_path / f"a{suffix}").write_bytes(COMPRESSIONS.get(suffix, bytes)(content))
        assert "iconv -f cp949 -t utf-8" in complaint(Nsmc(path=f"a{suffix}"), tmp_path, f"a{suffix}"), (suffix, repeat)


def test_an_unknown_encoding_is_the_users_mistake(tmp_path):
    (tmp_path / "a.txt").write_text(KOREAN, encoding="utf-8")
    assert "utf-9" in complaint(Text(path="a.txt", encoding="utf-9"), tmp_path, "a.txt")


def test_a_compressed_file_that_was_cut_off_is_damaged_not_short(tmp_path):
    for first, last in ((0xAC00, 0xD7A3), (0x61, 0x7A)):  # three bytes a character, and one
        letters = random.Random(1).choices([chr(code) for code in range(first, last + 1)], k=150_000)
        lines = "".join("".join(letters[start : start + 50]) + "\n" for start in range(0, len(letters), 50)).encode()
        for suffix, compress in COMPRESSIONS.items():
            whole = compress(lines)
            for share in (0.3, 0.6, 0.95):
                (tmp_path / f"a{suffix}").write_bytes(whole[: int(len(whole) * share)])
                message = complaint(Text(path=f"a{suffix}"), tmp_path, f"a{suffix}")
                assert "damaged" in message, (suffix, share, letters[0])


def test_a_plain_file_with_a_compressed_name_is_refused(tmp_path):
    for suffix in COMPRESSIONS:
        (tmp_path / f"a{suffix}").write_text(KOREAN * 100, encoding="utf-8")
        complaint(Text(path=f"a{suffix}"), tmp_path, f"a{suffix}")


def test_a_compressed_file_with_flipped_bits_is_refused(tmp_path):
    for suffix in COMPRESSIONS:
        whole = bytearray(COMPRESSIONS[suffix](random_bytes(200_000).hex().encode()))
        for place in range(len(whole) // 2, len(whole) // 2 + 300):
            whole[place] ^= 0x5A
        (tmp_path / f"a{suffix}").write_bytes(whole)
        complaint(Text(path=f"a{suffix}"), tmp_path, f"a{suffix}")


BROKEN_LINES = [
    ("{nonsense", "not JSON"),
    ('{"id": 3', "not JSON"),
    ("[1, 2]", "list"),
    ('"text"', "str"),
    ('{"id": 3, "txt": "가"}', "did you mean 'txt'"),
    ('{"ID": 3, "text": "가"}', "'id'"),
    ('{"id": 3, "text": null}', "text"),
    ('{"id": 3, "text": ["가"]}', "text"),
    ("[" * 100_000, "JSON"),
]


def test_a_broken_json_line_is_numbered(tmp_path):
    for line, said in BROKEN_LINES:
        (tmp_path / "a.jsonl").write_text(f'{{"id": 1, "text": "가"}}\n\n{line}\n', encoding="utf-8")
        message = complaint(JsonLines(path="a.jsonl"), tmp_path, "a.jsonl")
        assert "line 3" in message, line
        assert said in message, line


WRONG_TABLES = [
    ("id\tdocumnet\tlabel\n1\t가\t1\n", "did you mean 'documnet'"),
    ("document\tlabel\n가\t1\n", "'id'"),
    ("1\t가\t1\n", "'id'"),
    ("id\tdocument\tlabel\n1\t가\t1\n2\t나\n", "line 3"),
    ("id\tdocument\tlabel\n1\t가\t나\t1\n", "line 2"),
    ("id\tdocument\tlabel\n\n1\t가\t1\n", "line 2"),
]


def test_a_table_of_another_form_is_refused_with_the_place(tmp_path):
    for content, said in WRONG_TABLES:
        (tmp_path / "a.txt").write_text(content, encoding="utf-8")
        assert said in complaint(Nsmc(path="a.txt"), tmp_path, "a.txt"), content


@pytest.fixture
def table(tmp_path):
    rows = [random_bytes(60).hex() for _ in range(4000)]
    pyarrow.parquet.write_table(pyarrow.table({"text": rows, "number": list(range(4000))}), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def test_a_truncated_parquet_file_is_refused(table):
    content = table.read_bytes()
    for keep in (10, len(content) // 2, int(len(content) * 0.99)):
        table.write_bytes(content[:keep])
        complaint(Parquet(path="a.parquet"), table.parent, "a.parquet")


def test_a_parquet_file_damaged_in_its_middle_is_refused(table):
    content = bytearray(table.read_bytes())
    for place in range(len(content) // 3, len(content) // 3 + 500):
        content[place] ^= 0x5A
    table.write_bytes(content)
    complaint(Parquet(path="a.parquet"), table.parent, "a.parquet")


def test_a_missing_parquet_column_is_answered_with_a_guess(table):
    for options, said in [
        ({"text": "txet"}, "did you mean 'text'"),
        ({"group_by": "movie"}, "'movie'"),
        ({"id": "numbr"}, "number"),
    ]:
        assert said in complaint(Parquet(path="a.parquet", **options), table.parent, "a.parquet"), options


def test_a_parquet_column_that_holds_no_text_is_refused(table):
    assert "number" in complaint(Parquet(path="a.parquet", text="number"), table.parent, "a.parquet")


def test_a_parquet_column_of_lists_or_bytes_holds_no_text(tmp_path):
    for kind in [pyarrow.list_(pyarrow.string()), pyarrow.binary()]:
        value = ["가"] if pyarrow.types.is_list(kind) else b"a"
        pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array([value], kind)}), tmp_path / "a.parquet")
        assert "text was expected" in complaint(Parquet(path="a.parquet"), tmp_path, "a.parquet"), kind


def test_bytes_in_a_text_column_that_are_no_text_have_their_row(tmp_path):
    for column in ["text", "key"]:
        values = ["가".encode()] * 10_500
        sound = pyarrow.array(values, pyarrow.binary()).cast(pyarrow.string())
        values[10_233] = "가".encode("cp949")
        broken = pyarrow.Array.from_buffers(
            pyarrow.string(), len(values), pyarrow.array(values, pyarrow.binary()).buffers()
        )
        table = pyarrow.table({"text": sound, "key": sound} | {column: broken})
        pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
        assert "row 10234: not UTF-8" in complaint(Parquet(path="a.parquet", id="key"), tmp_path, "a.parquet"), column


WRONG_SQUAD = [
    [],
    {},
    {"data": 3},
    {"data": [{"title": "가"}]},
    {"data": [{"paragraphs": [{"context": "가"}]}]},
    {"data": [{"paragraphs": [{"context": 1, "qas": []}]}]},
    {"data": ["가"]},
    "가",
    None,
]


def test_json_of_another_form_than_squad_is_refused(tmp_path):
    for content in WRONG_SQUAD:
        (tmp_path / "a.json").write_text(json.dumps(content), encoding="utf-8")
        assert "SQuAD" in complaint(Squad(path="a.json"), tmp_path, "a.json"), content


def test_a_squad_file_that_is_no_json_is_refused(tmp_path):
    for content in [b"{", '{"data": "안녕"}'.encode("cp949"), gzip.compress(b'{"data": []}')]:
        (tmp_path / "a.json").write_bytes(content)
        complaint(Squad(path="a.json"), tmp_path, "a.json")
