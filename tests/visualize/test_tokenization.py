"""The page of a tokenization has every character once, and every token with its morphemes, id and offsets."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from pages import Page, asks_no_server

from kobert_pipeline.errors import UserError
from kobert_pipeline.inference.loading import load_tokenizer
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.visualize.page import write_page
from kobert_pipeline.visualize.tokenization import tokenization_page

TEXTS = ["그 영화 정말 재밌었다고 했다!", "<script>alert('글')</script> 뷁 😀", "", "했다"]


def rows_of(page: str) -> list[list[str]]:
    return [
        [unescape(re.sub("<.*?>", "", cell)) for cell in re.findall(r"<td.*?>(.*?)</td>", row)]
        for row in re.findall(r"<tr>(<td.*?)</tr>", page, re.S)
    ]


def texts_of(page: str) -> list[str]:
    """The texts as they are marked."""
    return [
        unescape(re.sub(r"</?mark.*?>", "", text)) for text in re.findall(r'<p class="text" lang="ko">(.*?)</p>', page)
    ]


def test_page_has_every_token_of_every_text(tiny: Any, tmp_path: Path, kobert: Callable[..., Any]) -> None:
    folder, out = tiny.run_dir / "tokenizer", tmp_path / "t.html"
    assert kobert("visualize", "tokenization", folder, *TEXTS, "--out", out).code == 0
    found = Page(out)
    asks_no_server(found)
    assert "script" not in [tag for tag, _ in found.tags], "the page needs none, and texts add none"
    assert texts_of(found.html) == TEXTS
    tokenizer = load_tokenizer(folder)
    encoded = tokenizer(TEXTS, return_offsets_mapping=True)
    expected = [
        [text[start:end], token, str(id_), *(("", "") if special else (str(start), str(end)))]
        for i, text in enumerate(TEXTS)
        for token, id_, (start, end), special in zip(
            encoded.tokens(i), encoded["input_ids"][i], encoded["offset_mapping"][i],
            [side is None for side in encoded.sequence_ids(i)], strict=True,
        )
    ]  # fmt: skip
    rows = rows_of(found.html)
    assert [[row[0], *row[3:]] for row in rows] == expected
    assert {tuple(row[1:3]) for row in rows if row[0] == "했"} <= {("하+었", "VV+EP"), ("하+었", "XSV+EP")}
    assert "했" in [row[0] for row in rows]
    assert ["영화", "영화", "NNG"] in [row[:3] for row in rows]
    assert re.search(
        r'<mark class="noun" title="▁영화 \(id \d+\), characters 2 to 4, 영화 \(NNG\)">영화</mark>', found.html
    )
    assert re.search(r'<mark class="\w+ unknown" [^>]*>😀</mark>', found.html)


@pytest.mark.parametrize("style", ("form", "lemma", "tagged", "none"))
def test_every_character_is_shown_once_where_spans_overlap(style: Any, tiny: Any) -> None:
    tokenizer = MorphemeTokenizer.from_pretrained(tiny.run_dir / "tokenizer", style=style)
    assert texts_of(tokenization_page("x", tokenizer, TEXTS)) == TEXTS, style


def test_a_page_that_exists_is_left_alone(tiny: Any, tmp_path: Path, kobert: Callable[..., Any]) -> None:
    words = ["visualize", "tokenization", tiny.run_dir / "tokenizer", "글", "--out"]
    (tmp_path / "t.html").write_text("mine", encoding="utf-8")
    assert "t.html exists already" in kobert(*words, tmp_path / "t.html").complaint
    assert "must end in one of .html" in kobert(*words, tmp_path / "t.png").complaint
    assert (tmp_path / "t.html").read_text(encoding="utf-8") == "mine"
    with pytest.raises(UserError, match="exists already"):  # it may have appeared since the command began
        write_page(tmp_path / "t.html", "")
    assert (
        "gone is neither a folder (looked for in "
        in kobert("visualize", "tokenization", "gone", "글", "--out", "u.html").complaint
    )
