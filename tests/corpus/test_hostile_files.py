"""Files made to fill the memory or to take for ever are read within bounds, and what is left out is counted."""

import gzip
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kobert_pipeline.corpus.document import TOO_LONG, Document, limit_size
from kobert_pipeline.corpus.readers.csv import Csv
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.corpus.readers.wikipedia import BROKEN, MAX_COST, Wikipedia, pages, parsing_cost, without_comments
from kobert_pipeline.errors import UserError

MOST = 10_000
PAGE = "<page><title>제목</title><ns>0</ns><id>{}</id><revision><id>9</id><text>{}</text></revision></page>"


def dump(folder: Path, *pages: str) -> Path:
    path = folder / "wiki.xml"
    path.write_text(f"<mediawiki>{''.join(pages)}</mediawiki>", encoding="utf-8")
    return path


def growth(function: Callable[[str], object], text: str) -> float:
    """How many times longer eight times the text takes (the least of three, and not counting a hundredth of a
    second)."""

    def seconds(text: str) -> float:
        taken = []
        for _ in range(3):
            began = time.process_time()
            function(text)
            taken.append(time.process_time() - began)
        return min(taken)

    return max(0.0, seconds(text * 8) - 0.01) / max(seconds(text), 1e-4)


def test_documents_that_are_too_long_are_dropped_by_every_reader_of_lines(tmp_path) -> None:
    long, short = "가" * MOST, "짧은 글입니다."
    documents = [short, f"머리\n{long}\n꼬리", short, f"{short}\n" * MOST, short]
    (tmp_path / "a.txt").write_text("\n\n".join(documents), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"id": i, "text": text, "more": more}, ensure_ascii=False) + "\n" for i, text, more in
                [(1, short, ""), (2, long, ""), (3, short, "x" * 2_000_000), (4, short, "")]),
                encoding="utf-8")  # fmt: skip
    dump(tmp_path, PAGE.format(1, short), PAGE.format(2, long), PAGE.format(3, short))
    for reader, expected in (
        (Text(path="a.txt", max_document_bytes=MOST), "._._."),
        (JsonLines(path="a.jsonl", max_document_bytes=MOST), ".__."),
        (Wikipedia(path="wiki.xml", max_document_bytes=MOST), "._."),
    ):
        found = [limit_size(document, MOST) for document in reader.read(tmp_path)]
        assert "".join("_" if one.dropped == TOO_LONG else "." for one in found) == expected
        assert all((one.text == "") == bool(one.dropped) for one in found)
    assert limit_size(Document("a", "b", "가" * 10), 30).text
    assert limit_size(Document("a", "b", "가" * 10), 29).dropped == TOO_LONG


def test_bombs_are_read_in_bounded_memory(tmp_path, fresh) -> None:
    """96 MB of one letter, in some kilobytes, with a limit of 60 MB on what the process may add."""
    with gzip.open(tmp_path / "a.txt.gz", "wb", 1) as file:
        for _ in range(96):
            file.write(b"x" * 2**20)
        file.write("\n\n짧은 글입니다.\n".encode())
    with (tmp_path / "a.txt.zst").open("wb") as raw, zstandard.ZstdCompressor().stream_writer(raw) as file:
        for _ in range(96):
            file.write(b"x" * 2**20)
        file.write("\n\n짧은 글입니다.\n".encode())
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom kobert_pipeline.corpus.readers.text import Text\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for name in ('a.txt.gz', 'a.txt.zst'):\n"
        "    found = list(Text(path=name, max_document_bytes=10_000_000).read(Path(sys.argv[1])))\n"
        "    assert [one.dropped for one in found] == ['too_long', ''], found\n"
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000, 'kilobytes'\nprint('read')"
    )
    result = fresh(code, tmp_path)
    assert result.out == "read\n", result.err
    assert resource  # the limit is that of the other process


def test_a_dropped_document_is_counted_and_kept_out_of_evaluation_sets(tmp_path, corpora, kobert) -> None:
    data = tmp_path / "data"
    data.mkdir()
    sentence = "한국어 위키백과의 글입니다. 내용은 여러 가지가 있습니다.\n"
    (data / "a.txt").write_text(
        f"{sentence}\n{sentence * 1000}\n\n이것은 다른 글입니다. 짧지만 글은 글입니다.\n", encoding="utf-8"
    )
    source = "{name: text, path: a.txt, max_document_bytes: 5000}"
    text = f"data_dir: {data}\ncorpus:\n  sources: [{source}]\n  keep_dropped: true\n"
    (tmp_path / "r.yaml").write_text(text, encoding="utf-8")
    assert kobert("corpus", tmp_path / "r.yaml", "--run-dir", tmp_path / "x").code == 0
    counts = json.loads((tmp_path / "x" / "corpus" / "manifest.json").read_text(encoding="utf-8"))["counts"]
    assert (counts["documents_read"], counts["documents_kept"], counts["documents_dropped_too_long"]) == (3, 2, 1)
    held = "  decontaminate: [{name: text, path: a.txt, max_document_bytes: 5000}]\n"
    (tmp_path / "r.yaml").write_text(text + held, encoding="utf-8")
    assert "max_document_bytes" in kobert("corpus", tmp_path / "r.yaml", "--run-dir", tmp_path / "y").complaint


@pytest.mark.parametrize("columns", (60_000, 60_001))
def test_a_header_of_sixty_thousand_columns_costs_no_square_and_no_page_of_names(columns: Any, tmp_path) -> None:
    names = [f"c{i}" for i in range(columns)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join(names).upper() + "\n", encoding="utf-8")
    began = time.process_time()
    assert len(list(Csv(path="a.csv", text="c59999").read(tmp_path))) == 1
    assert time.process_time() - began < 20  # it took minutes
    with pytest.raises(UserError, match="there is no column 'text'") as raised:
        list(Csv(path="a.csv").read(tmp_path))
    assert len(str(raised.value)) < 2000


NEVER_CLOSED = {
    "templates": "{{a|", "links": "[[a|", "notes": "<ref>", "named notes": '<ref name="a">', "tables": "{|\n|-\n|a\n",
    "outer links": "[http://a ", "parameters": "{{{a|", "crossing": "{{a|<ref>}}</ref>", "cut tags": "<div a=b ",
    "hidden ends": "{{a|<!--}}-->", "mixed": "<ref>{{a|[[b|",
}  # fmt: skip


def test_wiki_pages_of_marks_that_never_close_are_dropped_before_they_take_minutes(tmp_path) -> None:
    intact = "'''서울'''은 [[대한민국]]의 수도이다.<ref>{{웹 인용|url=http://a}}</ref>\n" * 200
    assert parsing_cost(intact) == len(intact)
    for name, unit in NEVER_CLOSED.items():
        assert parsing_cost(without_comments(unit * 20_000)) > MAX_COST, name
        assert growth(lambda text: parsing_cost(without_comments(text)), unit * 1000) < 24, name
    path = dump(
        tmp_path,
        PAGE.format(1, "{{a|" * 20_000),
        PAGE.format(2, "서울은 수도이다."),
        PAGE.format(3, "&lt;!--" * 20_000),
    )
    assert [(one.text, one.dropped) for one in Wikipedia(path=path.name).read(tmp_path)] == [
        ("", BROKEN),
        ("제목\n서울은 수도이다.", ""),
    ]


def test_a_dump_of_pages_in_pages_or_endless_tags_is_refused(tmp_path) -> None:
    laughs = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 9))
    for content, said in {
        "<page>" * 200_000: "elements nested more than",
        f"<page a='{'x' * 300_000}'>": "a tag or comment of more than",
        f"<!--{'x' * 300_000}-->": "a tag or comment of more than",
        f'<!DOCTYPE a [<!ENTITY a0 "xxxxxxxxxx">{laughs}]><a>&a8;</a>': "amplification",
    }.items():
        (tmp_path / "wiki.xml").write_text(
            content if content.startswith("<!DOC") else f"<mediawiki>{content}", encoding="utf-8"
        )
        with pytest.raises(UserError, match=f"not a complete MediaWiki XML dump.*{said}"):
            list(pages(tmp_path / "wiki.xml", 100_000))
