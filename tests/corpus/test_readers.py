"""The five readers on good files: what becomes a document, whatever the compression."""

import csv
import gzip
import io
import json
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from front_end import CORPORA, PROPERTY
from hypothesis import example, given
from hypothesis import strategies as st

from kobert_pipeline.corpus.document import Document, read_documents, write_documents
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.readers.nsmc import Nsmc, read_reviews, unquoted
from kobert_pipeline.corpus.readers.parquet import Parquet
from kobert_pipeline.corpus.readers.squad import Squad
from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.unreadable import readable

PLAIN = "첫 문단\n둘째 문단\n\n\n다음 문서\n"
LINES = '{"id": "a", "text": "첫 문서"}\n\n{"id": "b", "text": "둘째\\n문단"}\n'
TABLE = "id\tdocument\tlabel\n1\t재밌다\t1\n2\t\t0\n3\t별로 \t0\n"
FORMS = {
    "text": (Text, PLAIN, ["첫 문단\n둘째 문단", "다음 문서"]),
    "jsonl": (JsonLines, LINES, ["첫 문서", "둘째\n문단"]),
    "nsmc": (Nsmc, TABLE, ["재밌다", "별로 "]),
}


def texts(reader, folder):
    return [document.text for document in reader.read(folder)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("name", FORMS)
def test_files_are_read_plain_and_compressed_and_with_line_ends_of_windows(tmp_path, name, ends, suffix):
    kind, content, wanted = FORMS[name]
    data = content.replace("\n", ends).encode()
    (tmp_path / f"file{suffix}").write_bytes(gzip.compress(data) if suffix else data)
    assert texts(kind(path=f"file{suffix}"), tmp_path) == wanted


@pytest.mark.parametrize(
    ("by", "wanted"), [("blank_line", ["가\n나", "다"]), ("line", ["가", "나", "다"]), ("file", ["가\n나\n다"])]
)
def test_text_documents_end_where_they_are_told_to(by: Any, wanted: Any, tmp_path):
    (tmp_path / "a.txt").write_text("\n가\n나\n \n\n다", encoding="utf-8")
    documents = list(Text(path="a.txt", documents_by=by, ordered=False).read(tmp_path))
    assert [document.text for document in documents] == wanted, by
    assert [document.id for document in documents] == [f"a.txt#{i}" for i in range(len(wanted))], by
    assert not any(document.ordered for document in documents), by


def test_json_lines_take_other_keys_and_number_lines_without_ids(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "가"}\n\n{"body": "나", "id": "b"}\n', encoding="utf-8")
    documents = list(JsonLines(path="a.jsonl", text="body", ordered=False).read(tmp_path))
    assert documents == [Document("a.jsonl#1", "a.jsonl", "가", False), Document("b", "a.jsonl", "나", False)]
    numbered = list(JsonLines(path="a.jsonl", text="body", id=None).read(tmp_path))
    assert [document.id for document in numbered] == ["a.jsonl#1", "a.jsonl#3"]


@pytest.fixture
def reviews(tmp_path):
    table = pyarrow.table(
        {"movie": [1, 1, 2, 2, 1], "body": ["가\n나", None, "다", "라", "마"], "key": ["a", "b", "c", "d", "e"]}
    )
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet")
    return tmp_path


def test_parquet_rows_are_documents(reviews):
    documents = list(Parquet(path="r.parquet", text="body", id="key").read(reviews))
    assert [(document.id, document.text) for document in documents] == [
        ("a", "가\n나"),
        ("b", ""),
        ("c", "다"),
        ("d", "라"),
        ("e", "마"),
    ]
    assert [document.id for document in Parquet(path="r.parquet", text="body").read(reviews)][:2] == [
        "r.parquet#0",
        "r.parquet#1",
    ]


def test_parquet_groups_are_pseudo_documents_of_one_line_a_row_without_order(reviews):
    documents = list(Parquet(path="r.parquet", text="body", group_by="movie").read(reviews))
    assert [document.text for document in documents] == ["가 나\n", "다\n라", "마"]
    assert not any(document.ordered for document in documents)
    assert len({document.id for document in documents}) == 3


def test_squad_contexts_are_documents(tmp_path):
    content = {
        "data": [
            {"paragraphs": [{"context": "가", "qas": []}, {"context": "나", "qas": [{"id": "1"}]}]},
            {"paragraphs": []},
        ]
    }
    (tmp_path / "qa.json").write_text(json.dumps(content), encoding="utf-8-sig")
    assert texts(Squad(path="qa.json"), tmp_path) == ["가", "나"]


def test_patterns_are_read_in_sorted_order_and_lists_in_their_own(tmp_path):
    for name in ("b2.txt", "b1.txt", "a.txt"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    assert texts(Text(path=["b*.txt", "a.txt"]), tmp_path) == ["b1.txt", "b2.txt", "a.txt"]
    assert texts(Text(path=str(tmp_path / "a.txt")), tmp_path / "elsewhere") == ["a.txt"]


def test_an_absolute_pattern_is_resolved_like_an_absolute_path(tmp_path):
    (tmp_path / "b1.txt").write_text("가", encoding="utf-8")
    assert texts(Text(path=str(tmp_path / "b*.txt")), tmp_path / "elsewhere") == ["가"]


def test_the_limit_stops_after_the_document_that_reaches_it(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("가나\n\n다라\n", encoding="utf-8")
    for limit, count in [(1, 1), (2, 1), (3, 2), (100, 4), (None, 4)]:
        assert len(texts(Text(path="*.txt", limit_characters=limit), tmp_path)) == count, (limit, count)


def test_the_bundled_corpora_are_what_their_readme_says():
    assert len(texts(Text(path="documents/*.txt"), CORPORA)) == 82
    assert [len(texts(Nsmc(path=f"reviews_{name}.txt"), CORPORA)) for name in ("train", "test")] == [180, 60]
    assert [len(texts(Squad(path=f"qa_{name}.json"), CORPORA)) for name in ("train", "dev")] == [22, 8]


def test_real_files_are_read_whole(real_data):
    for name, rows in (("train", 150_000), ("test", 50_000)):
        reviews = list(readable(read_reviews(real_data / f"nsmc/ratings_{name}.txt.zst")))
        assert len(reviews) == rows
        assert {review.cells["label"] for review in reviews} == {"0", "1"}
    assert len(texts(Squad(path="qa/KorQuAD_v1.0_dev.json.zst"), real_data)) == 964
    articles = texts(JsonLines(path="kowiki/kowiki-12m.jsonl.zst"), real_data)
    assert sum(map(len, articles)) == pytest.approx(12_000_000, abs=5_000)


def written_twice(text):
    """The line of a review as NSMC's authors made it: a CSV writer's output given to a CSV writer as one cell."""
    for _ in range(2):
        line = io.StringIO()
        csv.writer(line, delimiter="\t", lineterminator="").writerow(["1", text, "0"])
        text = line.getvalue().removeprefix("1\t").removesuffix("\t0")
    return text


@PROPERTY
@given(text=st.text(st.one_of(st.sampled_from('"",가 .'), st.characters(exclude_categories=["Cs", "Cc"])), max_size=12))
@example(text='"')
@example(text='""')
@example(text='"좋다"')
@example(text='그는 "좋다"고 했다')
def test_quotes_written_twice_are_undone(text):
    assert unquoted(written_twice(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        '그는 "좋다"고 했다',
        '"좋다" "나쁘다"',
        '"연기',
        '연기"',
        '좋다""',
        '""좋다',
        '"',
        "",
        "좋다",
        '"가"나"',
        "'좋다'",
    ],
)
def test_texts_that_merely_hold_quotes_stay(text: Any):
    assert unquoted(text) == text


def test_reviews_come_unquoted_from_a_file(tmp_path):
    wanted = ['"최고"라는 말', 'a"b', "없다", ""]
    (tmp_path / "r.txt").write_text(
        "id\tdocument\tlabel\n" + "".join(f"{i}\t{written_twice(text)}\t1\n" for i, text in enumerate(wanted)),
        encoding="utf-8",
    )
    assert [review.cells["document"] for review in readable(read_reviews(tmp_path / "r.txt"))] == wanted


@PROPERTY
@given(
    documents=st.lists(
        st.builds(Document, *[st.text(st.characters(exclude_categories=["Cs"]), max_size=20)] * 3, st.booleans()),
        max_size=6,
    )
)
def test_documents_come_back_from_their_part(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("part") / "part-00000.parquet"
    write_documents(path, documents)
    assert list(read_documents(path)) == documents


def test_an_unknown_reader_or_key_is_answered_with_a_guess():
    with pytest.raises(UserError, match="did you mean 'json'"):
        Reader.variant("json1")
    with pytest.raises(ValueError, match="did you mean 'encoding'"):
        Text(path="a", encodign="utf-8")


@pytest.mark.parametrize(
    ("folder", "pattern", "names"),
    [
        ("da[ta]", "*.txt", ["a.txt", "x[2024].txt"]),
        ("da[ta]", "x[2024].txt", ["x[2024].txt"]),
        ("data", "x[2024].txt", ["x[2024].txt"]),
        ("data", "[a-z].txt", ["a.txt"]),
        ("data", "../data/?.txt", ["a.txt"]),
    ],
)
def test_brackets_in_a_name_are_no_pattern_and_folders_no_files(folder: Any, pattern: Any, names: Any, tmp_path):
    data = tmp_path / folder
    (data / "b.txt").mkdir(parents=True, exist_ok=True)
    for name in ("a.txt", "x[2024].txt"):
        (data / name).write_text("글", encoding="utf-8")
    assert [path.name for path in Text(path=pattern).files(data)] == names, (folder, pattern, names)
    assert len(list(Text(path=pattern).read(data))) == len(names), (folder, pattern, names)
    if folder == "data":
        assert [path.name for path in Text(path=str(data / pattern)).files(tmp_path / "elsewhere")] == names, (
            folder,
            pattern,
            names,
        )


@pytest.mark.parametrize(
    "kind", [pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())]
)
def test_text_columns_of_every_kind_are_read(kind: Any, tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array(["가", "나"]).cast(kind)}), tmp_path / "a.parquet")
    assert texts(Parquet(path="a.parquet"), tmp_path) == ["가", "나"], kind


TWO_LINES = "동해의 물결이 인다.\n둘째 줄이다."


@pytest.mark.parametrize(
    ("options", "content", "text"),
    [
        ({"name": "json", "text": "text"}, {"text": TWO_LINES}, TWO_LINES),
        ({"name": "json", "text": "a.*"}, {"a": [TWO_LINES, "셋"]}, f"{TWO_LINES}\n셋"),
        (
            {"name": "json", "text": "a.*", "ordered": False},
            {"a": [TWO_LINES, "셋"]},
            "동해의 물결이 인다. 둘째 줄이다.\n셋",
        ),
        ({"name": "json", "text": "text", "ordered": False}, {"text": TWO_LINES}, TWO_LINES),
        ({"name": "modu"}, {"document": [{"id": "1", "paragraph": [{"form": TWO_LINES}]}]}, TWO_LINES),
        ({"name": "squad"}, {"data": [{"paragraphs": [{"context": TWO_LINES, "qas": []}]}]}, TWO_LINES),
    ],
)
def test_line_ends_in_a_text_of_json_are_paragraphs(tmp_path, options, content, text):
    (tmp_path / "a.json").write_text(json.dumps(content), encoding="utf-8")
    assert [document.text for document in Reader.choose(options | {"path": "a.json"}).read(tmp_path)] == [text]
