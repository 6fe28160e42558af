"""HTML tags inside texts: what counts as one, what is left without them, and what is counted."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.cli.run_results import result_of
from kobert_pipeline.corpus.cleaning import CleaningOptions
from kobert_pipeline.corpus.document import document_parts, read_documents
from kobert_pipeline.corpus.readers.jsonl import JsonLines
from kobert_pipeline.corpus.stage import CorpusOptions, run
from kobert_pipeline.corpus.tags import has_tags, remove_tags

TAGGED = {
    "첫 줄<br>둘째 줄<BR/>셋째": ("첫 줄\n둘째 줄\n셋째", 2),
    "<p class='a'>문단</p>": ("\n문단\n", 2),
    '<b>배우</b>들의 <a href="https://example.org/?a=1&b=2">연기</a>': ("배우들의 연기", 4),
    "가<!-- 지울 말 -->나": ("가나", 1),
}
UNTAGGED = ("영화 <기생충>의 결말", "3 < 5, 7 > 2", "<Her>, <p1>", "&lt;br&gt;", "<b 닫지 않음", "<3 <br_>", "")


def test_tags_go_and_all_else_stays() -> None:
    for text, expected in TAGGED.items():
        assert has_tags(text) and remove_tags(text) == expected
    for text in UNTAGGED:
        assert not has_tags(text) and remove_tags(text) == (text, 0)
    assert remove_tags("한 줄<br>이다", " ") == ("한 줄 이다", 1)


@given(st.lists(st.sampled_from([*TAGGED, *UNTAGGED, "<", ">", "/", "br", "b", " ", "가"])).map("".join))
def test_nothing_but_tags_is_lost(text: str) -> None:
    without, removed = remove_tags(text)
    assert bool(removed) == has_tags(text)
    left = iter(text)
    assert all(character == "\n" or character in left for character in without)  # in the same order


def corpus_of(folder: Path, texts: list[str], **options: Any) -> tuple[list[str], dict[str, Any]]:
    """What the stage keeps of these texts, without any filter, and its counts."""
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    (folder / "posts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "test.jsonl").write_text(json.dumps({"text": "평가용 글은 <b>열 글자</b>를 넘는다"}), encoding="utf-8")
    read = CorpusOptions(
        sources=[JsonLines(path="posts.jsonl", id=None, ordered=options.pop("ordered", True))],
        decontaminate=[JsonLines(path="test.jsonl", id=None)],
        cleaning=CleaningOptions(**options),
    )
    out = folder / "corpus"
    out.mkdir()
    counts = run(read, folder, out)
    return [document.text for part in document_parts(out) for document in read_documents(part)], counts


@pytest.mark.parametrize("ordered", [True, False])
def test_a_corpus_loses_its_tags_if_it_is_told_to(tmp_path: Path, ordered: bool) -> None:
    posts = [
        "배우들의 <b>연기가</b> 정말&lt;br&gt;좋았던 영화",
        "태그가 없는 글은 그대로 남는다",
        "평가용 글은 열 <i>글자를</i> 넘는다",
    ]
    texts, counts = corpus_of(tmp_path, posts, tags="remove", ordered=ordered)
    assert texts == [f"배우들의 연기가 정말{chr(10) if ordered else ' '}좋았던 영화", posts[1]]
    assert (counts["tags_removed"], counts["documents_dropped_contaminated"]) == (5, 1)
    assert "1 paragraphs removed that overlap evaluation texts, 5 HTML tags removed" in result_of(counts)


def test_a_corpus_that_keeps_its_tags_counts_the_documents(tmp_path: Path) -> None:
    texts, counts = corpus_of(tmp_path, ["배우들의 &lt;b&gt;연기가 좋았던 영화", "태그가 없는 글은 그대로 남는다"])
    assert (
        texts == ["배우들의 <b>연기가 좋았던 영화", "태그가 없는 글은 그대로 남는다"]
        and counts["documents_with_tags"] == 1
    )
    assert "1 documents have HTML tags, which cleaning: {tags: remove} removes" in result_of(counts)
    assert "tags" not in CleaningOptions().model_dump()  # so that runs of earlier versions stay current
