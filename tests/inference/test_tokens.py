"""The rows of `kobert tokenize` and `/v1/tokenize`: each token with its place in the text."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

import kobert_pipeline as kobert
from kobert_pipeline.inference.tokens import token_rows

TEXTS = ["아버지가 방에 들어가셨다", "  두 칸  띄우고\n다음\t줄", "ㅋㅋ 😀 é 끝 ", "", "   "]


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_place_has_the_characters_of_its_token_and_no_space_before_them(analyzed: bool, repo: Path) -> None:
    tokenizer = (
        AutoTokenizer.from_pretrained(repo / "models/mini-nsmc/kiwi", trust_remote_code=True)
        if analyzed
        else kobert.load("mini-nsmc").tokenizer
    )
    rows = token_rows(tokenizer, TEXTS)
    assert [row["text"] for row in rows] == TEXTS
    for row in rows:
        assert len(row["tokens"]) == len(row["input_ids"]) == len(row["offset_mapping"])
        text, end = row["text"], 0
        for token, span in zip(row["tokens"][1:-1], row["offset_mapping"][1:-1], strict=True):
            surface = text[slice(*span)]
            assert surface == surface.strip() and surface in (token.strip("▁#"), *"😀é")
            assert not text[end : span[0]].strip(), "no visible character is between two tokens"
            end = span[1]
        assert not text[end:].strip()
