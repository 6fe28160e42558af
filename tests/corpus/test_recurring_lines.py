"""`max_documents_per_line`: which lines are dropped, from which documents, and what is counted."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kobert_pipeline.corpus.document import Document, document_parts, read_documents, write_documents
from kobert_pipeline.corpus.readers.text import Text
from kobert_pipeline.corpus.recurring_lines import (
    CountLines,
    SelectLines,
    line_hashes,
    recurring_lines,
    remove_recurring,
)
from kobert_pipeline.corpus.stage import CorpusOptions, run
from kobert_pipeline.corpus.task_report import SAMPLES, TaskReport

LINES = st.lists(st.sampled_from(["가", "나", "다라", "다 라", " 가\t", "", "마", "바\r", "바"]), max_size=6)


@settings(deadline=None, max_examples=40)
@given(texts=st.lists(LINES, max_size=12), size=st.integers(1, 4), limit=st.integers(1, 5))
def test_lines_are_counted_over_all_chunks_as_a_counter_would(
    tmp_path_factory: Any, texts: list[list[str]], size: int, limit: int
) -> None:
    work = tmp_path_factory.mktemp("work")
    documents = [Document(str(n), "s", "\n".join(lines)) for n, lines in enumerate(texts)]
    documents.append(Document("r", "s", "가\n나\n마", ordered=False))
    parts = [documents[start : start + size] for start in range(0, len(documents), size)]
    for number, part in enumerate(parts):
        write_documents(work / "raw" / f"{number:06d}.parquet", part)
    for number in range(len(parts)):
        CountLines(work)(None, number, len(parts))
    SelectLines(limit, work, len(parts))(None, 0, 1)
    different = {squeezed("".join(lines)): lines for lines in texts}.values()  # copies count as one
    having = Counter(line for lines in different for line in set(map(squeezed, lines)) - {""})
    for document, lines in zip(documents, texts, strict=False):
        report = TaskReport()
        found = remove_recurring(document, recurring_lines(work), report).text
        kept = [line for line in lines if having[squeezed(line)] <= limit]
        assert found == "\n".join(kept)
        assert report.counts["paragraphs_dropped_recurring"] == len(lines) - len(kept)
    assert remove_recurring(documents[-1], recurring_lines(work), TaskReport()) == documents[-1]


def squeezed(text: str) -> str:
    return "".join(text.split())


def article(number: int, words: int = 40) -> str:
    """Different words for each article."""
    rng = random.Random(number)
    return " ".join("".join(chr(rng.randrange(0xAC00, 0xD7A4)) for _ in range(4)) for _ in range(words))


def cleaned(folder: Path, limit: int | None, **more: Any) -> tuple[list[str], dict[str, Any]]:
    """The corpus stage on six articles with a menu, one of which is nothing else, in several chunks."""
    menu, notice = "홈 > 뉴스 > 사회", "무단 전재 및 재배포 금지 reporter@example.org"
    texts = [f"{menu}\n{article(n)}\n{notice}" for n in range(5)]
    texts += [f"{menu}\n{notice}", f"{menu}\n{article(0, 38)}"]
    (folder / "web.txt").write_text("\n\n".join(texts), encoding="utf-8")
    options = {"sources": [Text(path="web.txt", **more)], "part_characters": 300}
    if limit:
        options["deduplicate"] = {"max_documents_per_line": limit}
    counts = run(CorpusOptions.model_validate(options), folder, folder / "out")
    return [one.text for part in document_parts(folder / "out") for one in read_documents(part)], counts


def test_the_lines_that_most_documents_have_are_dropped_before_copies_are_looked_for(tmp_path: Path) -> None:
    texts, counts = cleaned(tmp_path, 3)
    # the last one is a part of the first, whose frame it shares no more
    assert texts == [article(n) for n in range(5)]
    assert counts["documents_dropped_recurring_lines"] == 1
    assert counts["documents_dropped_near_duplicate"] == 1
    assert counts["paragraphs_dropped_recurring"] == 5 * 2 + 2 + 1
    assert counts["recurring_samples"] == ["홈 > 뉴스 > 사회", "무단 전재 및 재배포 금지 user@example.com"]
    assert not list((tmp_path / "out" / "work").rglob("*.npy"))


def test_an_article_that_was_printed_often_keeps_its_lines(tmp_path: Path) -> None:
    texts = [article(1)] * 5 + [f"{article(2)}\n{article(3)}"] * 4
    (tmp_path / "web.txt").write_text("\n\n".join(texts), encoding="utf-8")
    options = {"sources": [Text(path="web.txt")], "deduplicate": {"max_documents_per_line": 1}, "part_characters": 300}
    counts = run(CorpusOptions.model_validate(options), tmp_path, tmp_path / "out")
    kept = [one.text for part in document_parts(tmp_path / "out") for one in read_documents(part)]
    assert kept == [texts[0], texts[-1]]
    assert counts["documents_dropped_duplicate"] == 7


def test_lines_stay_below_the_limit_without_the_option_and_where_they_are_texts_of_their_own(tmp_path: Path) -> None:
    for number, (limit, more) in enumerate(((7, {}), (None, {}), (3, {"ordered": False}))):
        folder = tmp_path / str(number)
        folder.mkdir()
        texts, counts = cleaned(folder, limit, **more)
        assert sum("홈 > 뉴스" in text for text in texts) == len(texts) >= 6
        assert not counts.get("paragraphs_dropped_recurring")
        assert "recurring_samples" not in counts


def test_only_the_first_recurring_lines_are_quoted_and_each_once() -> None:
    lines = [f"메뉴 {number // 2}" for number in range(2 * SAMPLES + 6)]
    report = TaskReport()
    left = remove_recurring(Document("1", "s", "\n".join([*lines, "글"])), np.unique(line_hashes(lines)), report)
    assert left.text == "글"
    assert report.counts["paragraphs_dropped_recurring"] == len(lines)
    assert report.recurring_samples == [f"메뉴 {number}" for number in range(SAMPLES)]
