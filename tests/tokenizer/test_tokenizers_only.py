"""The tokenizer without `transformers` gives what `transformers` gives, with every argument that predictions use."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from front_end import PROPERTY, any_text
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.tokenizer.tokenizers_only import NO_LIMIT, TokenizersOnly, is_enough

PLAIN = Path(__file__).parents[2] / "models" / "mini-nsmc"
WINDOWS = {"max_length": 16, "stride": 4, "return_overflowing_tokens": True, "return_offsets_mapping": True}
CALLS: list[dict[str, Any]] = [
    {},
    {"verbose": False, "return_offsets_mapping": True},
    {"truncation": True, "max_length": 12, "return_token_type_ids": True},
    {"truncation": True, "max_length": 5, "add_special_tokens": False, "return_offsets_mapping": True},
    {"truncation": True, **WINDOWS, "return_token_type_ids": True},
]


@pytest.fixture(scope="module")
def both() -> tuple[TokenizersOnly, Any]:
    assert is_enough(PLAIN)
    return TokenizersOnly.from_folder(PLAIN), AutoTokenizer.from_pretrained(PLAIN)


def assert_equal(ours: Any, theirs: Any) -> None:
    for name in ours:
        rows = theirs[name]
        assert ours[name] == rows, name
    for row in range(len(theirs.encodings)):
        assert ours.sequence_ids(row) == theirs.sequence_ids(row)
        assert ours.tokens(row) == theirs.tokens(row)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: "-".join(call) or "plain")
@given(texts=st.lists(any_text, min_size=1, max_size=4))
@PROPERTY
def test_texts_are_tokenized_as_by_transformers(call: dict[str, Any], both: Any, texts: list[str]) -> None:
    ours, theirs = both
    assert_equal(ours(texts, **call), theirs(texts, **call))
    if "return_overflowing_tokens" not in call:
        assert_equal(ours(texts[0], **call), theirs(texts[0], **call))


@pytest.mark.parametrize(
    "call",
    [
        {"truncation": True, "max_length": 12, "return_token_type_ids": True},
        {"truncation": "only_second", "max_length": 40, "stride": 8, "return_overflowing_tokens": True,
         "return_token_type_ids": True, "return_offsets_mapping": True},
    ],
    ids=["longest-first", "only-second"],
)  # fmt: skip
@given(pairs=st.lists(st.tuples(st.text("가나다 .", max_size=15), any_text), min_size=1, max_size=3))
@PROPERTY
def test_pairs_are_tokenized_as_by_transformers(call: dict[str, Any], both: Any, pairs: list[tuple[str, str]]) -> None:
    ours, theirs = both
    firsts, seconds = map(list, zip(*pairs, strict=True))
    assert_equal(ours(firsts, seconds, **call), theirs(firsts, seconds, **call))


TEXT, PAIR = "바다가 보이는 방이 정말 좋아요 " * 4, "또 가고 싶은 곳이에요 " * 3


@pytest.mark.parametrize("call", [call for call in CALLS if "truncation" in call], ids="-".join)
@pytest.mark.parametrize("pair", [None, PAIR])
def test_long_texts_lose_their_beginnings_where_its_settings_say_so(
    pair: str | None, call: dict[str, Any], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(PLAIN, tmp_path / "left"))
    settings = read_json(folder / "tokenizer_config.json") | {"truncation_side": "left"}
    write_json(folder / "tokenizer_config.json", settings)
    ours, theirs = TokenizersOnly.from_folder(folder), AutoTokenizer.from_pretrained(folder)
    assert ours.truncation_side == theirs.truncation_side == "left"
    pairs = None if pair is None else [pair]
    assert_equal(ours([TEXT], pairs, **call), theirs([TEXT], pairs, **call))
    with pytest.raises(UserError, match="truncation_side is 3; left or right was expected"):
        TokenizersOnly(ours.backend_tokenizer, {"truncation_side": 3})


@pytest.mark.parametrize(
    ("value", "limit"),
    [(None, NO_LIMIT), (-1, NO_LIMIT), (0, NO_LIMIT), (1e30, NO_LIMIT), (512, 512), ("512", 512), (512.0, 512)],
)
def test_a_maximum_length_below_1_is_none(value: Any, limit: int, both: Any) -> None:
    assert TokenizersOnly(both[0].backend_tokenizer, {"model_max_length": value}).model_max_length == limit


@pytest.mark.parametrize("limit", [{}, {"max_length": 10**30}])
def test_truncation_without_a_limit_changes_nothing(limit: dict[str, int], both: Any) -> None:
    unlimited = TokenizersOnly(both[0].backend_tokenizer, {})
    assert unlimited("긴 글 " * 600, truncation=True, **limit) == unlimited("긴 글 " * 600)


def test_its_properties_are_those_of_transformers(both: Any) -> None:
    ours, theirs = both
    assert (len(ours), ours.get_vocab()) == (len(theirs), theirs.get_vocab())
    for name in ("model_max_length", "mask_token", "mask_token_id"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.convert_ids_to_tokens([2, 100, 3]) == theirs.convert_ids_to_tokens([2, 100, 3])
    assert TokenizersOnly(ours.backend_tokenizer, {}).model_max_length == NO_LIMIT


def test_other_tokenizers_need_transformers(tmp_path: Path) -> None:
    assert not is_enough(tmp_path)
    assert not is_enough(PLAIN.parent)
    (tmp_path / "tokenizer.json").write_bytes((PLAIN / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert not is_enough(tmp_path)
