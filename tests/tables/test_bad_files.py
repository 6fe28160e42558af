"""Every bad file or row, the reason of its refusal (None: a UserError) and one key word of the sentence, which names
the file."""

import gzip
import json
import pickle
import random
from pathlib import Path

import pyarrow
import pytest
from sample_files import COMPRESSIONS, parquet, squad, write

from kobert_pipeline.errors import UserError, UserErrors
from kobert_pipeline.tables import csv, open_text
from kobert_pipeline.tables.columns import RowField, find_columns
from kobert_pipeline.tables.csv import read_csv
from kobert_pipeline.tables.open_text import open_binary, open_lines
from kobert_pipeline.tables.rows import read_each, read_lines, read_parquet, read_rows, stream_each
from kobert_pipeline.tables.squad import paragraphs
from kobert_pipeline.tables.unreadable import Location, Row, UnreadableInput, readable, tried

BROKEN = "한글은 좋다".encode()[:-1]
"""Half of the last character is missing."""

FILES = [
    ("a.tsv", "", "empty", "is empty"),
    ("a.jsonl", "\n \n", "empty", "only blank lines"),
    ("a.tsv", b"\x00\x01\x02", "binary", "binary file"),
    ("a.csv", b"text\n\x00\x00\x01", "binary", "`encoding`"),
    ("a.csv", b"%PDF-1.7\n", "pdf", "pdftotext"),
    ("a.csv", b"PK\x03\x04 xlsx", "office_file", "xlsx"),
    ("a.xlsx", b"PK\x03\x04 xlsx", "office_file", "xlsx"),
    ("a.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 xls", "office_file", "without a password"),
    ("a.xlsx", "text,label\n", "damaged", "not a complete Excel file"),
    ("a.xlsx", b"PK\x05\x06" + bytes(18), "damaged", "not an Excel file that can be read"),
    ("a.xlsx", "", "empty", "is empty"),
    ("a.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 xls", "office_file", "hwp"),
    ("a.csv", gzip.compress(b"text\n", mtime=0), "compressed", "ends in .gz"),
    ("a.csv.gz", b"text\n1\n" * 99, "damaged", "damaged"),
    ("a.csv.gz", gzip.compress(b"text\n" * 999, mtime=0)[:-9], "damaged", "damaged"),
    ("a.csv", "text,label\nあいうえおかきくけこ,0\n".encode("euc-jp"), "encoding", "UTF-16"),
    ("a.csv", "text\n가나다\n".encode()[:-2], "damaged", "truncated"),
    ("a.csv", "text\n가나다\n".encode("cp949")[:-2], "damaged", "truncated"),
    ("a.hwp", "글", None, "ends with .tsv"),
    ("a.parquet.gz", gzip.compress(b"x", mtime=0), None, "ends with .tsv"),
    ("a.csv", "\n,\n가,나\n다\n", "columns", "line 4: 1 columns, 2 were expected"),
    ("a.csv", "text,text\n가,나\n", "columns", "called 'text'"),
    ("a.tsv", "text;label\n가;0\n", "columns", "semicolons and no tabs"),
    ("a.csv", "text\tlabel\n가\t0\n", "columns", 'set delimiter: "\\t"'),
    ("a.tsv", "text,label\n가,0\n", "columns", "commas and no tabs"),
    ("a.tsv", "text\tlabel\n가\t0\n나\n", "columns", "line 3: 1 columns, 2 were expected"),
    ("a.tsv", 'text\tlabel\n가\t0\n"나"\n', "columns", "as in the first line"),
    ("a.txt", 'text\tlabel\n가\t0\n"나\n', "columns", "here no cell goes over several lines"),
    ("a.csv", "text,label\n가,0\n나,다,1\n", "columns", "line 3: 3 columns"),
    ("a.csv", "text;label\n가;0\n나;다;1\n", "columns", "line 3: 3 columns"),
    ("a.csv", 'text,label\n"가\n나",0\n다,1,2\n', "columns", "line 4 (row 2 below the first): 3 columns"),
    ("a.csv", 'text,label\n가,0\n"나,1\n', "not_csv", "line 3: not CSV (unexpected end of data)"),
    ("a.csv", 'text,label\n"가"나,0\n', "not_csv", "line 2: not CSV"),
    ("a.csv", "text,label\r가,0\n", "not_csv", "line 1: not CSV"),
    ("a.csv", "sep=;\ntext;label\n가;0\n", "columns", "delete that line"),
    ("a.csv", '"SEP=,"\ntext,label\n가,0\n', "columns", "delete that line"),
    ("a.csv", b"text,label\n" + "가나다라,0\n".encode() * 9 + BROKEN + b",1\n", "encoding", "line 11: it has bytes"),
    ("a.jsonl", '{"text": "가"}\n{"text": \n', "not_json", "line 2: not JSON"),
    ("a.jsonl", '{"text": "가"}\n' + "[" * 100_000, "not_json", "line 2: not JSON (its lists and objects are nested"),
    ("a.jsonl", '{"a":' * 950 + "1" + "}" * 950, "not_json", "nested"),
    ("a.jsonl", '{"text": %s}' % ("9" * 5000), "not_json", "too many digits"),
    ("a.jsonl", '{"a": "가"}\n{"a": "나", "a": "다"}\n', "not_json", "line 2: not JSON (the key 'a' appears twice"),
    ("a.json", '[{"text": "가", "text": "나"}]', "not_json", "the key 'text' appears twice in one object"),
    ("a.jsonl", '{"text": "가"}\n\n["나"]\n', "wrong_type", "line 3: an object was expected, not list"),
    ("a.jsonl", '{"text": "가"}\n'.encode() * 9 + b'{"text": "\xff"}\n', "encoding", "line 10: it has bytes"),
    ("a.json", "[", "not_json", "not a JSON file"),
    ("a.json", "[" * 100_000, "not_json", "not a JSON file"),
    ("a.json", ("[" + '"가나다라",\n' * 9).encode() + b'"\xff"]', "encoding", "line 10: it has bytes"),
    ("a.json", '"가"', "other_form", "was expected, not str; a file with one object per line ends with .jsonl"),
    ("a.json", '[{"text": "가"}, "나"]', "wrong_type", "entry 2: an object was expected, not str"),
    ("a.json", "{}", "other_form", "SQuAD form"),
    ("a.json", '{"data": 3}', "other_form", "data > paragraphs"),
    ("a.json", '{"columns": ["text"], "index": [0], "data": [["가"]]}', "other_form", "orient='records'"),
    ("a.json", '{"text": {"0": "가"}}', "other_form", "orient='records'"),
    ("a.json", '{"train": [{"text": "가"}], "test": [{"text": "나"}]}', "other_form", "a list of objects"),
    ("a.jsonl", '"가"', "other_form", "was expected, not str"),
    ("a.jsonl", '[{"text": "가"},', "not_json", "line 1: not JSON"),
    ("a.json", '{\n"text": "가"\n}\n{\n"text": \n}\n', "not_json", "not a JSON file"),
    ("a.json", '{"data": ["가"]}', "other_form", "entry 1 of data"),
    ("a.json", '{"data": [{"paragraphs": [{"context": "가"}]}]}', "other_form", "context and qas"),
    ("a.json", squad(context=1), "other_form", "context and qas"),
    ("a.json", squad("누가?"), "other_form", "question 1 of the context '민수가 갔다': it is '누가?'"),
    ("a.parquet", "PAR1", "damaged", "not a complete Parquet file"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "reason", "word"), FILES)
def test_a_bad_file_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: str | bytes, reason: str | None, word: str
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(UserError) as caught:
        list(readable(read_rows(path)))
    assert getattr(caught.value, "reason", None) == reason
    assert word in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


OTHER_READERS = [
    (lambda path: read_csv(path), "a.dat", "text\n가\n", None, "option delimiter"),
    (lambda path: read_csv(path, columns={"text": "; do this"}), "a.csv", "txet\n가\n", "columns", "'txet'? (found"),
    (lambda path: read_csv(path, columns={"text": "; do this"}), "a.csv", "\n", "columns", "(found: nothing); do this"),
    (lambda path: read_csv(path, columns={"text": ""}), "a.csv", b"\xef\xbb\xbf", "columns", "no column 'text'"),
    (lambda path: read_csv(path, encoding="utf-8"), "a.csv", "글\n".encode("cp949"), "encoding", "is not utf-8"),
    (lambda path: read_csv(path, encoding="utf-8"), "a.csv", b"a\x00", "binary", "not text in utf-8"),
    (lambda path: read_csv(path, encoding="utf-9"), "a.csv", "글\n", None, "there is no encoding 'utf-9'"),
    (lambda path: read_lines(path), "a.txt", "가나다라\n".encode() * 9 + b"\xff\n", "encoding", "line 10: it has"),
    (lambda path: paragraphs(path), "a.json", "[]", "other_form", "SQuAD form"),
]  # fmt: skip


@pytest.mark.parametrize(("read", "name", "content", "reason", "word"), OTHER_READERS)
def test_what_a_caller_asks_for_and_the_file_does_not_have_is_refused(
    tmp_path: Path, read, name: str, content: str | bytes, reason: str | None, word: str
) -> None:
    with pytest.raises(UserError) as caught:
        list(readable(read(write(tmp_path / name, content))))
    assert (getattr(caught.value, "reason", None), word in str(caught.value)) == (reason, True), str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.csv is not a file; check the path and data_dir"):
        list(read_rows(tmp_path / "a.csv"))


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESSIONS if suffix])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_truncated_compressed_file_is_damaged_not_short(tmp_path: Path, suffix: str, share: float) -> None:
    letters = "".join(random.Random(1).choices([chr(code) for code in range(0xAC00, 0xD7A4)], k=150_000))
    whole = COMPRESSIONS[suffix]("\n".join(letters[i : i + 50] for i in range(0, len(letters), 50)).encode())
    path = write(tmp_path / f"a.txt{suffix}", whole[: int(len(whole) * share)])
    with pytest.raises(UnreadableInput, match="damaged"), open_lines(path) as lines:
        list(lines)


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESSIONS if suffix])
def test_a_compressed_file_with_flipped_bits_is_damaged(tmp_path: Path, suffix: str) -> None:
    whole = bytearray(COMPRESSIONS[suffix](random.Random(5).randbytes(200_000).hex().encode()))
    for position in range(len(whole) // 2, len(whole) // 2 + 300):
        whole[position] ^= 0x5A
    path = write(tmp_path / f"a.txt{suffix}", bytes(whole))
    with pytest.raises(UnreadableInput, match=r"a\.txt"), open_binary(path) as file:
        file.read()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [random.Random(seed).randbytes(60).hex() for seed in range(4000)]
    return parquet(tmp_path / "a.parquet", {"text": rows, "number": list(range(4000))})


@pytest.mark.parametrize("share", [0.001, 0.5, 0.99])
def test_a_truncated_parquet_file_is_damaged(table: Path, share: float) -> None:
    content = table.read_bytes()
    with pytest.raises(UnreadableInput, match="not a complete Parquet file"):
        list(read_parquet(write(table, content[: int(len(content) * share)])))


def test_a_parquet_file_damaged_in_its_middle_is_refused(table: Path) -> None:
    content = bytearray(table.read_bytes())
    for position in range(len(content) // 3, len(content) // 3 + 500):
        content[position] ^= 0x5A
    with pytest.raises(UnreadableInput, match="not a complete Parquet file"):
        list(read_parquet(write(table, bytes(content))))


def test_a_missing_parquet_column_is_answered_with_a_guess_and_what_to_do(table: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"did you mean 'text'\? .*; do this$"):
        list(read_parquet(table, {"txet": "; do this"}))


@pytest.mark.parametrize("column", ["text", "key"])
def test_bytes_in_a_text_column_of_parquet_that_are_no_text_have_their_row(tmp_path: Path, column: str) -> None:
    values = ["가".encode()] * 10_500
    intact = pyarrow.array(values, pyarrow.binary()).cast(pyarrow.string())
    values[10_233] = "가".encode("cp949")
    buffers = pyarrow.array(values, pyarrow.binary()).buffers()
    broken = pyarrow.Array.from_buffers(pyarrow.string(), len(values), buffers)
    path = parquet(tmp_path / "a.parquet", {"text": intact, "key": intact} | {column: broken})
    rows = list(read_parquet(path))
    assert len(rows) == 10_500
    [bad] = [row for row in rows if isinstance(row, UnreadableInput)]
    assert str(bad).endswith("row 10234: not UTF-8, though its column says so")


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "가" * 200_000  # csv itself stops at 131,072
    [row] = readable(read_csv(write(tmp_path / "a.csv", f'text,x\n"{long}",1\n')))
    assert row.cells["text"] == long
    monkeypatch.setattr(csv, "LONGEST_CELL", 1000)
    csv.csv.field_size_limit(500)  # the limit is the process's; what was read above raised it
    with pytest.raises(UnreadableInput, match=r"line 3: a cell has more than 1,000 characters; is its quote never"):
        list(readable(read_csv(write(tmp_path / "a.csv", f'text,x\n가,1\n"{long}\n'))))
    monkeypatch.setattr(open_text, "LARGEST_JSON", 1000)
    with pytest.raises(UnreadableInput, match=r"a\.json holds more than 1,000 characters"):
        list(read_rows(write(tmp_path / "a.json", json.dumps(["가" * 2000]))))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt"])
def test_a_line_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(open_text.open_lines.__wrapped__, "__defaults__", (None, 50))
    monkeypatch.setattr("kobert_pipeline.tables.rows.read_json_lines.__defaults__", (None, 50, False))
    path = write(tmp_path / name, '{"text": "가"}\n' + "x" * 99 + "\n")
    with pytest.raises(UnreadableInput, match="line 2: it has more bytes than a line may have") as caught:
        list(readable(read_rows(path)))
    assert caught.value.reason == "too_long"


BAD_ROWS = "text,label\n가,0\n나\n다,1\n라,2,3\n" + "마\n" * 30


def test_all_bad_rows_of_a_file_are_named_in_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", BAD_ROWS)
    with pytest.raises(UserErrors) as caught:
        list(readable(read_rows(path), "; do this"))
    lines = ", ".join(f"line {n}" for n in range(5, 25))
    first = f"{path}, line 3: 1 columns, 2 were expected, as in the first line; do this"
    assert str(caught.value) == f"{first} (also refused: {lines} and 11 more)"
    assert len(caught.value.sentences) == 21 and caught.value.sentences[0] == first
    assert caught.value.sentences[-1] == f"{path}: 12 more rows are refused, the next at line 24"


def test_what_is_wrong_in_a_row_is_listed_with_what_is_wrong_in_its_form(tmp_path: Path) -> None:
    def label(row: Row) -> int:
        if row.cells["label"] not in ("0", "1"):
            raise UserError(f"the label is {row.cells['label']}")
        return int(row.cells["label"])

    path = write(tmp_path / "a.csv", "text,label\n가,0\n나,7\n다\n라,1\n")
    for read in (read_each, stream_each):
        with pytest.raises(UserErrors, match=r"a\.csv, line 3: the label is 7 \(also refused: line 4\)$"):
            list(read(path, lambda first: label))
    write(path, "text,label\n가,0\n나,1\n")
    assert read_each(path, lambda first: label) == list(stream_each(path, lambda first: label)) == [0, 1]


def test_a_stream_gives_nothing_before_all_rows_were_tried(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "가"}\n' * 50 + "[]\n")
    with pytest.raises(UnreadableInput, match="line 51"):
        next(stream_each(path, lambda first: lambda row: row.cells["text"]))
    with pytest.raises(UserError, match="has no rows; add some"):
        next(stream_each(write(tmp_path / "a.csv", "text\n"), lambda first: lambda row: row))


def test_a_file_of_another_form_is_not_read_to_its_end() -> None:
    asked = []

    def rows():
        for n in range(5000):
            asked.append(n)
            yield UnreadableInput("columns", "no", Location(Path("a.csv"), "line", n))

    with pytest.raises(UserErrors, match=r"line 0: no \(also refused: line 1, .* and at least 979 more\)"):
        list(readable(rows()))
    assert len(asked) == 1000


def test_the_end_of_a_file_that_cannot_be_read_is_among_its_problems(tmp_path: Path) -> None:
    content = gzip.compress(b"text,label\n1\n" + random.Random(3).randbytes(90_000).hex().encode() + b",1\n")[:-2000]
    with pytest.raises(UserErrors, match=r"line 2: 1 columns.* \(also refused: the end of the file\)"):
        list(readable(read_rows(write(tmp_path / "a.csv.gz", content))))


def test_what_the_first_row_shows_is_about_the_file_not_about_a_row() -> None:
    rows = [Row({"text": "가"}, Location(Path("a.csv"), "line", n), n - 1) for n in (2, 3)]
    with pytest.raises(UserError, match=r"^no label$"):
        list(readable(tried(rows, lambda first: refuse("no label"))))


def refuse(message: str):
    raise UserError(message)


COLUMNS = [
    (RowField("text", "lable"), "a.csv", "there is no column 'lable' - did you mean 'label'? (found: a, label, a.b)"),
    (RowField("text", "lable"), "a.csv", "; name the column by the option text of the task (kobert evaluate: --set"),
    (RowField("text", "lable"), "a.csv", "; the first line of the file must hold the names of the columns"),
    (RowField("id", "nr"), "a.jsonl", "--set id=NAME), or set id to null for the numbers of the rows"),
    (RowField("text", known=("text", "글")), "a.jsonl", "no column is the text of the task nli (known are text, 글;"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "name", "word"), COLUMNS)
def test_a_column_that_is_not_there_is_refused_with_what_to_do(field: RowField, name: str, word: str) -> None:
    first = Row({"a": {"b": 1}, "label": 0}, Location(Path(name), "line", 2), 1)
    with pytest.raises(UserError) as caught:
        find_columns(first, [field], "nli")
    assert word in str(caught.value)
    assert ("the first line" in str(caught.value)) == (name == "a.csv")


def test_a_refusal_survives_its_way_back_from_a_worker() -> None:
    problem = UnreadableInput("columns", "two columns", Location(Path("a.csv"), "line", 3))
    copy = pickle.loads(pickle.dumps(problem))
    assert (copy.reason, str(copy)) == ("columns", "a.csv, line 3: two columns")


def test_several_mistakes_come_back_whole_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(UserErrors(["a is wrong", "b is wrong"], " (also refused: b)")))
    assert (str(error), error.sentences) == ("a is wrong (also refused: b)", ["a is wrong", "b is wrong"])


def test_a_last_line_of_utf8_in_a_file_of_cp949_is_not_truncated(tmp_path: Path) -> None:
    """Its odd number of bytes is no incomplete character."""
    (tmp_path / "a.txt").write_bytes("배우들 연기가 좋은 영화\n".encode("cp949") * 5 + "굿".encode())
    assert [row.cells["line"] for row in readable(read_lines(tmp_path / "a.txt"))][-1] == "굿"
