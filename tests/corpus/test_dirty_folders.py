"""Folders with unreadable files: `kobert check` names all of them at once, and a run refuses or skips them."""

import gzip
import json
import random
import sys
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import yaml
import zstandard

from kobert_pipeline.config import recipe_file
from kobert_pipeline.corpus import sampling
from kobert_pipeline.corpus.document import documents_from
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.reader import LISTED, Reader, Skipped
from kobert_pipeline.corpus.readers.datasets import HubDataset
from kobert_pipeline.corpus.readers.html import Html
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.sampling import ROWS, check_sources, read_sample
from kobert_pipeline.corpus.stage import run
from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.unreadable import UnreadableInput
from kobert_pipeline.tokenizer.stage import ReportOptions

SENTENCE = "그는 오늘도 학교에 가서 친구들과 이야기를 나누었다."
WORDS = "바다 하늘 구름 나무 마을 사람 아침 저녁 여름 겨울 노래 그림 편지 기차 시장 부엌 창문 우산 거울 연필"


def prose(seed, lines=40):
    """Korean text that no filter drops and that no other seed gives."""
    draw = random.Random(seed)
    return "".join(
        f"{' '.join(draw.choices(WORDS.split(), k=9))}에 대한 {seed}번째 이야기이다.\n" for _ in range(lines)
    )


def page(seed):
    return (
        f"<!DOCTYPE html><html><head><title>글 {seed}</title><script>var x = '광고';</script></head><body><nav><a "
        "href='/'>홈</a></nav>"
        f"<article><p>{'</p><p>'.join(prose(seed, 6).splitlines())}</p></article></body></html>"
    )


@pytest.fixture
def dirty(tmp_path):
    """A folder with every kind of unfit file, and fit files of the same kinds."""

    def rows(seed):
        return [{"id": str(i), "text": line} for i, line in enumerate(prose(seed, 60).splitlines())]

    broken = [json.dumps(row, ensure_ascii=False) for row in rows("줄")]
    broken[3], broken[5], broken[7] = broken[3][:20], '{"id": "5", "body": "열쇠가 다르다"}', '{"id": "7", "text": 7}'
    table = pyarrow.table({"text": [line * 3 for line in prose("표", 900).splitlines()]})
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet")
    lengthy = "\n".join(prose(f"긴{i}") for i in range(60)).encode()
    files = {
        "text/fit.txt": prose("맞는").encode(),
        "text/cp949.txt": prose("완성형").encode("cp949"),
        "text/binary.txt": b"\x00\x01\x02\x00\x00" + random.Random(1).randbytes(3000),
        "text/cut.txt.gz": gzip.compress(lengthy)[:-5000],
        "text/cut.txt.zst": zstandard.ZstdCompressor().compress(lengthy)[:-900],
        "text/empty.txt": b"",
        "text/page.txt": page("쪽").encode(),
        "text/report.txt": b"%PDF-1.7\n" + random.Random(2).randbytes(500),
        "text/letter.txt": b"PK\x03\x04\x14\x00\x06\x00[Content_Types].xml" + random.Random(3).randbytes(500),
        "text/office.txt": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + random.Random(4).randbytes(500),
        "rows/fit.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows("행")).encode(),
        "rows/broken.jsonl": "\n".join(broken).encode(),
        "tables/fit.csv": ("text,label\n" + "".join(f"{line},1\n" for line in prose("칸").splitlines())).encode(),
        "tables/tabs.csv": ("text\tlabel\n" + "".join(f"{line}\t1\n" for line in prose("탭").splitlines())).encode(),
        "tables/columns.csv": f"text,label\n{SENTENCE},1\n{SENTENCE}\n".encode(),
        "parquet/fit.parquet": (tmp_path / "table.parquet").read_bytes(),
        "parquet/cut.parquet": (tmp_path / "table.parquet").read_bytes()[:-2000],
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


def corpus(on_error="refuse", **more):
    sources = [
        {"name": "text", "path": "text/*", "on_error": on_error},
        {"name": "jsonl", "path": "rows/*.jsonl", "on_error": on_error},
        {"name": "csv", "path": "tables/*.csv", "on_error": on_error},
        {"name": "parquet", "path": "parquet/*.parquet", "on_error": on_error},
    ]
    return CorpusOptions.model_validate({"sources": sources, "part_characters": 20_000, **more})


UNFIT = {
    "text/binary.txt": "binary", "text/cut.txt.gz": "damaged", "text/cut.txt.zst": "damaged", "text/empty.txt": "empty",
    "text/page.txt": "html", "text/report.txt": "pdf", "text/letter.txt": "office_file",
    "text/office.txt": "office_file",
    "rows/broken.jsonl": "not_json", "tables/tabs.csv": "columns", "tables/columns.csv": "columns",
    "parquet/cut.parquet": "damaged",
}  # fmt: skip
WAYS_OUT = {
    "text/page.txt": "reader html", "text/report.txt": "pdftotext", "text/letter.txt": "docx", "text/office.txt": "hwp",
    "tables/tabs.csv": "tabs and no commas; save the table",
    "rows/broken.jsonl": "line 4: not JSON",
}  # fmt: skip


def test_check_names_every_unfit_file_at_once_with_the_way_out(dirty, tmp_path, kobert):
    content = recipe_file.load("tiny", []) | {
        "data_dir": str(dirty),
        "features": {},
        "finetune": {},
        "publish": {},
    }
    content["corpus"] = {"sources": corpus().dump()["sources"]}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    result = kobert("check", tmp_path / "r.yaml")
    assert result.complaint.endswith(f"(the first of {len(UNFIT)} problems, each on a line above)")
    read = [line for line in result.out.splitlines() if " is read as " in line or " files there, and no" in line]
    assert any(line.startswith("parquet/*.parquet is read as parquet") for line in read), "what can be read is shown"
    *lines, memory = result.out.splitlines()[len(read) :]
    assert memory.startswith("Pretraining needs about ") and len(lines) == len(UNFIT)
    for name in UNFIT:
        line = next(line for line in lines if f"{dirty / name}" in line)
        assert "on_error: skip" in line and WAYS_OUT.get(name, "") in line
    assert "(also refused: line 6, line 8)" in next(line for line in lines if "broken.jsonl" in line)
    as_json = kobert("check", tmp_path / "r.yaml", "--json")
    assert as_json.code == 2 and json.loads(as_json.out)["problems"] == lines
    skipping = [f"corpus.sources.{i}.on_error=skip" for i in range(4)]
    checked = kobert("check", tmp_path / "r.yaml", *(word for setting in skipping for word in ("--set", setting)))
    assert checked.code == 0 and checked.out.count("would be skipped: ") == len(UNFIT) and "valid" in checked.out


def test_a_run_refuses_the_first_with_the_way_to_skip_it_in_any_number_of_processes(dirty, tmp_path):
    (dirty / "text" / "empty.txt").unlink()
    for workers in (1, 2):
        with pytest.raises(UserError, match=r"text/binary\.txt is a binary file.*on_error: skip$"):
            run(corpus(executor={"name": "local", "workers": workers}), dirty, tmp_path / f"out{workers}")
    assert corpus().dump() != corpus("skip").dump(), "another choice is another fingerprint"


@pytest.mark.slow
def test_what_is_skipped_is_counted_by_reason_and_listed_alike_by_any_number_of_processes(dirty, tmp_path):
    one, two = (
        run(corpus("skip", executor={"name": "local", "workers": workers}), dirty, tmp_path / f"{workers}")
        for workers in (1, 2)
    )
    assert one == two
    parts = [sorted(path.read_bytes() for path in (tmp_path / name).glob("part-*.parquet")) for name in "12"]
    assert parts[0] == parts[1]
    expected = {
        "files_skipped": 8, "files_skipped_binary": 1, "files_skipped_empty": 1, "files_skipped_html": 1,
        "files_skipped_pdf": 1,
        "files_skipped_office_file": 2, "files_skipped_columns": 1, "files_skipped_damaged": 1,
        "files_read_in_part": 2, "files_read_in_part_damaged": 2,
        "rows_skipped": 4, "rows_skipped_not_json": 1, "rows_skipped_missing_key": 1, "rows_skipped_wrong_type": 1,
        "rows_skipped_columns": 1,
    }  # fmt: skip
    assert {key: value for key, value in one.items() if key.startswith(("files_", "rows_"))} == expected
    assert one["sources"]["rows/*.jsonl"]["rows_skipped"] == 3
    assert len(one["skipped"]) == 14 and str(dirty) not in "".join(one["skipped"])
    assert one["documents_read"] > 60 + 57 + 40 + 1 + 900


def test_a_source_of_which_nothing_can_be_read_is_described_wrongly_not_dirty(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        "".join(f'{{"id": "{i}", "body": "{SENTENCE}"}}\n' for i in range(LISTED + 50)), encoding="utf-8"
    )
    (tmp_path / "a.txt").write_text(prose("곁"), encoding="utf-8")
    sources = [{"name": "text", "path": "a.txt"}, {"name": "jsonl", "path": "a.jsonl", "on_error": "skip"}]
    with pytest.raises(UserError, match=r"nothing of a\.jsonl could be read.*there is no key 'text'.*found: id, body"):
        run(CorpusOptions.model_validate({"sources": sources}), tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "content", "reader"),
    [
        ("rows.csv", "id,text\n", {"name": "csv"}),
        ("old.xml", "<mediawiki><page><title>글</title></page></mediawiki>", {"name": "wikipedia"}),
        ("qa.json", '{"data": []}', {"name": "squad"}),
    ],
)
def test_files_in_which_nothing_is_found_are_refused_by_a_check_and_by_a_run(name, content, reader, tmp_path):
    (tmp_path / "a.txt").write_text(prose("글"), encoding="utf-8")
    (tmp_path / name).write_text(content, encoding="utf-8")
    text, empty = {"name": "text", "path": "a.txt"}, reader | {"path": name}
    for option, options in (
        ("sources", {"sources": [text, empty]}),
        ("decontaminate", {"sources": [text], "decontaminate": [empty]}),
    ):
        message = f"corpus.{option}: {name} has no text that the reader {reader['name']} finds"
        chosen = CorpusOptions.model_validate(options)
        assert [finding.sentence[: len(message)] for finding in check_sources(chosen, tmp_path)[0]] == [message], option
        with pytest.raises(UserError, match=message):
            run(chosen, tmp_path, tmp_path / f"out-{option}", num_workers=1)


def test_a_source_of_which_nothing_can_be_read_quotes_its_own_problem(tmp_path):
    (tmp_path / "a.jsonl").write_text(f'{{"txt": "{SENTENCE}"}}\n' * 3, encoding="utf-8")
    (tmp_path / "a.txt").write_text(prose("곁"), encoding="utf-8")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(f'{{"id": 1, "text": "{SENTENCE}"}}\n'.encode() * 2000)[:-9])
    sources = [
        {"name": name, "path": f"*.{end}", "on_error": "skip"} for name, end in [("text", "txt"), ("jsonl", "jsonl")]
    ]
    options = CorpusOptions.model_validate({"sources": sources})
    with pytest.raises(
        UserError, match=r"nothing of \*\.jsonl could be read.*a\.jsonl, line 1: there is no key 'text'"
    ):
        run(options, tmp_path, tmp_path / "out")
    refused = [finding.sentence for finding in check_sources(options, tmp_path)[0] if not finding.skipped]
    assert (
        len(refused) == 1
        and "nothing of *.jsonl could be read" in refused[0]
        and "there is no key 'text'" in refused[0]
    )
    # where one row can be read, as in a file that breaks off, the run skips the others
    sources[1]["path"] = "*.jsonl*"
    found, _ = check_sources(CorpusOptions.model_validate({"sources": sources}), tmp_path)
    assert len(found) == 3 and all(finding.skipped for finding in found)


def test_files_of_the_same_name_have_ids_and_sources_of_their_own(tmp_path):
    for name in ("2024년/보고서.txt", "2025년/보고서.txt", "2025년/회의.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{prose(name, 3)}\n{prose(name + '2', 3)}", encoding="utf-8")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "회의.txt").write_text(f'{{"id": "7", "text": "{prose("행", 1).strip()}"}}', encoding="utf-8")
    texts = {"name": "text", "path": ["*/보고서.txt", "2025년/회의.txt"]}
    rows = {"name": "jsonl", "path": "rows/*"}
    deduplicate = {"exact": False, "minhash": None}
    for sources, meeting in [([texts], "회의.txt"), ([texts, rows], "2025년/회의.txt")]:
        out = tmp_path / f"out{len(sources)}"
        run(CorpusOptions.model_validate({"sources": sources, "deduplicate": deduplicate}), tmp_path, out)
        files = ("2024년/보고서.txt", "2025년/보고서.txt", meeting)
        expected = [(f"{name}#{i}", name) for name in files for i in (0, 1)]
        # ids from the data stay as they are
        expected += [("7", "rows/회의.txt")] if rows in sources else []
        assert [(document.id, document.source) for document in documents_from(out, [])] == expected
        assert len(list(documents_from(out, ["보고서.txt"]))) == 4
        assert len(list(documents_from(out, ["2024년/보고서.txt"]))) == 2


@pytest.mark.parametrize("name", ("text", "jsonl"))
def test_a_file_of_blank_lines_is_as_good_as_empty(name: Any, tmp_path):
    (tmp_path / f"blank.{name}").write_text("\n  \n\r\n\t\n", encoding="utf-8")
    reader = Reader.choose({"name": name, "path": f"blank.{name}"})
    with pytest.raises(UnreadableInput, match=r"has only blank lines.*on_error: skip"):
        list(reader.read_files([tmp_path / f"blank.{name}"], Skipped()))
    skipped = Skipped()
    reader = reader.model_copy(update={"on_error": "skip"})
    assert not list(reader.read_files([tmp_path / f"blank.{name}"], skipped))
    assert skipped.counts == {"files_skipped": 1, "files_skipped_empty": 1}


def test_files_of_keys_and_columns_are_not_read_as_text(tmp_path):
    row = json.dumps({"id": 1, "text": SENTENCE}, ensure_ascii=False)
    for name, content, reader in [
        ("a.jsonl", "아무 글", "jsonl"),
        ("a.csv", f"text,label\n{SENTENCE},1\n", "csv"),
        ("a.TSV.gz", "text\tlabel\n", "csv"),
        ("a.json", '{\n"text": 1}', "json"),
        ("a.txt", f"\n{row}\n{row}\n", "jsonl"),
    ]:
        data = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        with pytest.raises(UnreadableInput, match=f"use the reader {reader}") as caught:
            list(Reader.choose({"name": "text", "path": name}).read(tmp_path))
        assert caught.value.reason == reader
    for content in [f"{{이름}}은 {SENTENCE}", "{}\n" + SENTENCE, f"{SENTENCE}\n{row}"]:
        (tmp_path / "a.txt").write_text(content, encoding="utf-8")
        assert list(Reader.choose({"name": "text", "path": "a.txt"}).read(tmp_path))


def test_every_reader_skips_rows_and_broken_files(tmp_path):
    """Per reader: a file with two fit rows and one that is not, and one that is another thing altogether."""
    paragraph = {"context": SENTENCE, "qas": []}
    fit = {"id": "1", "paragraph": [{"form": SENTENCE}]}
    cells = pyarrow.array([b"\xea\xb0\x80", b"\xb0\xa1", b"\xea\xb0\x81"], pyarrow.binary())
    undecodable = pyarrow.Array.from_buffers(pyarrow.string(), 3, cells.buffers())
    pyarrow.parquet.write_table(
        pyarrow.table({"text": undecodable, "film": ["가", "가", "나"]}), tmp_path / "rows.parquet"
    )
    contents = {
        "jsonl": f'{{"id": 1, "text": "{SENTENCE}"}}\n[]\n{{"id": 2, "text": "{SENTENCE}"}}\n',
        "csv": f'text,film\n{SENTENCE},가\n"나"다,가\n{SENTENCE},나\n',
        "nsmc": f"id\tdocument\tlabel\n1\t{SENTENCE}\t1\n2\t나\n3\t{SENTENCE}\t0\n",
        "json": json.dumps([{"body": SENTENCE}, {"bdy": SENTENCE}, {"body": SENTENCE}]),
        "modu": json.dumps({"document": [fit, {"id": "2"}, fit]}),
        "squad": json.dumps({"data": [{"paragraphs": [paragraph, {"context": 3}, paragraph]}]}),
    }
    options = {"json": {"documents_at": "*", "text": "body"}}
    for name in (*contents, "parquet", "wikipedia", "text", "html"):
        reader = Reader.choose(
            {"name": name, "path": [f"rows.{name}", f"broken.{name}"], "on_error": "skip", **options.get(name, {})}
        )
        if name == "csv":
            reader = reader.model_copy(update={"delimiter": ","})
        (tmp_path / f"broken.{name}").write_bytes(b"\x00\x00\x01\x02" + random.Random(6).randbytes(500))
        if name in contents:
            (tmp_path / f"rows.{name}").write_text(contents[name], encoding="utf-8")
        rows = name in contents or name == "parquet"
        skipped = Skipped()
        files = [tmp_path / file for file in reader.path][0 if rows else 1 :]
        read = list(reader.read_files(files, skipped))
        assert (len(read), skipped.counts["rows_skipped"], skipped.counts["files_skipped"]) == (
            (2, 1, 1) if rows else (0, 0, 1)
        ), name
        strictly = reader.model_copy(update={"on_error": "refuse"})
        with pytest.raises(UserError, match="on_error: skip"):
            list(strictly.read_files(files, Skipped()))
        if name in ("parquet", "csv"):
            grouped, skipped = reader.model_copy(update={"group_by": "film"}), Skipped()
            assert [document.id.rpartition(":")[2] for document in grouped.read_files(files, skipped)] == ["가", "나"]
            assert (skipped.counts["rows_skipped"], skipped.counts["files_skipped"]) == (1, 1)


def test_texts_that_are_measured_or_kept_out_of_training_are_never_skipped():
    skipping = {"name": "text", "path": "a", "on_error": "skip"}
    for make in (
        lambda: corpus(decontaminate=[skipping]),
        lambda: ReportOptions.model_validate({"sources": {"a": skipping}}),
    ):
        with pytest.raises(ValueError, match="must be read completely, so a cannot have on_error: skip"):
            make()


def test_a_folder_is_answered_with_a_pattern_for_its_files(tmp_path):
    (tmp_path / "docs").mkdir()
    with pytest.raises(
        UserError, match=r"docs is a folder; give a pattern for the files in it, such as docs/\*\*/\*\.txt$"
    ):
        Reader.choose({"name": "text", "path": "docs"}).files(tmp_path)


def test_a_sample_says_nothing_of_the_rows_after_it(tmp_path):
    lines = [f'{{"id": {i}, "text": "가"}}' for i in range(ROWS)] + ["broken"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    options = CorpusOptions.model_validate({"sources": [{"name": "jsonl", "path": "a.jsonl"}]})
    assert check_sources(options, tmp_path)[0] == []
    (tmp_path / "a.jsonl").write_text("\n".join(lines[1:]), encoding="utf-8")
    assert f"line {ROWS}: not JSON" in check_sources(options, tmp_path)[0][0].sentence


def test_text_with_some_markup_is_text(tmp_path):
    texts = [
        f"{SENTENCE} <b>굵게</b> 쓰려면 <html> 안에 <p>를 쓴다. a < b이고 c > d이다.\n" * 30,
        "<br>".join(prose("줄바꿈").splitlines()),
        "<원문>\n" + prose("괄호"),
    ]
    for text in texts:
        (tmp_path / "a.txt").write_text(text, encoding="utf-8")
        assert list(Reader.choose({"name": "text", "path": "a.txt"}).read(tmp_path))
    for markup in (
        "<!-- 저장 --> <!doctype HTML>",
        '<?xml version="1.0"?>\n<html>',
        "<div><p>가</p></div>" * 30,
        "<!---->" * 5000 + "<html>",
    ):
        (tmp_path / "a.txt").write_text(markup + prose("쪽", 2), encoding="utf-8")
        with pytest.raises(UnreadableInput, match="use the reader html"):
            list(Reader.choose({"name": "text", "path": "a.txt"}).read(tmp_path))


def test_what_cannot_be_sampled_is_no_problem_of_a_file(tmp_path, monkeypatch):
    assert read_sample(HubDataset(path="owner/name", revision="abc"), tmp_path / "owner" / "name", True)[0] is None
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    (tmp_path / "page.html").write_text(page("쪽"), encoding="utf-8")
    found, _ = read_sample(Html(path="page.html"), tmp_path / "page.html", True)
    assert "kobert-pipeline[html]" in found.sentence and not found.skipped


@pytest.mark.parametrize(("unpacked", "is_damaged"), [(2, False), (2**20, True)])
def test_only_the_beginning_of_a_compressed_file_is_unpacked_by_a_check(unpacked, is_damaged, tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "UNPACKED", unpacked)
    monkeypatch.setattr(sampling, "BLOCK", 1)
    monkeypatch.setattr(sampling, "ROWS", 1)
    text = "".join(f'{{"text": "{random.random()}"}}\n' for _ in range(5_000)).encode()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text)[:-40])
    found, _ = read_sample(JsonLines(path="a.jsonl.gz", id=None), tmp_path / "a.jsonl.gz", True)
    assert (found is not None) == is_damaged


def test_a_folder_that_datasets_reads_is_named_as_the_recipe_names_it(tmp_path):
    (tmp_path / "reviews").mkdir()
    reader = HubDataset(path="reviews")
    assert reader.files_to_check(tmp_path) == [tmp_path / "reviews"]
    assert reader.source_of(tmp_path / "reviews", {}) == "reviews"
    with pytest.raises(UserError, match=r"gone is not a folder below .*; for a data set of the Hub set the revision"):
        HubDataset(path="gone").files_to_check(tmp_path)
