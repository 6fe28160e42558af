"""Fast encoding gives what the backend's own encoding gives, whatever the arguments."""

import itertools
import pickle
from functools import cache
from typing import Any

import pytest
from front_end import PROPERTY, any_text, loaded, nfd
from hypothesis import given, settings
from hypothesis import strategies as st

from kobert_pipeline.morphemes import fast_encoding, morpheme_tokenizer
from kobert_pipeline.morphemes.fast_encoding import LazyEncodings
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

TEXTS = [
    "그 배우는 무대 위에서 노래했다.",
    "",
    "쀍쀍 [MASK] 했다",
    "재밌었다ㅋㅋㅋㅋ 😀😀!! " * 9,
    nfd("무대 위에서"),
    " \t\n",
]


def both(tokenizer, texts, monkeypatch, **options):
    """The rows of a call by either way, and whether the fast one was used."""
    taken = []
    monkeypatch.setattr(morpheme_tokenizer, "build_rows", _counting(fast_encoding.build_rows, taken))
    short = tokenizer(texts, **options)
    monkeypatch.undo()
    monkeypatch.setattr(MorphemeTokenizer, "_can_encode_fast", lambda self, samples, kwargs: False)
    plain = tokenizer(texts, **options)
    monkeypatch.undo()
    return short, plain, bool(taken)


@cache
def styled(folder, style):
    tokenizer = MorphemeTokenizer.from_pretrained(folder, style=style)
    tokenizer.add_special_tokens({"additional_special_tokens": ["[E]"]})
    tokenizer.add_tokens(["<e>", "새말"])
    return tokenizer


def _counting(rows, taken):
    def call(*arguments, **options):
        taken.append(1)
        return rows(*arguments, **options)

    return call


def same(short, plain):
    assert dict(short) == dict(plain)
    assert len(short.encodings) == len(plain.encodings)
    for one, two in zip(short.encodings, plain.encodings, strict=True):
        assert (one.ids, one.offsets, one.word_ids, one.attention_mask) == (
            two.ids,
            two.offsets,
            two.word_ids,
            two.attention_mask,
        )


CALLS = [
    {},
    {"add_special_tokens": False},
    {"truncation": True, "max_length": 6},
    {"truncation": "only_first", "max_length": 5},
    {"truncation": True, "max_length": 4, "add_special_tokens": False},
    {"padding": True},
    {"padding": True, "pad_to_multiple_of": 8},
    {"padding": "max_length", "max_length": 12, "truncation": True},
    {"padding": "max_length", "max_length": 9},
    {"padding": True, "padding_side": "left"},
    {"return_attention_mask": False, "return_token_type_ids": False},
    {"return_length": True, "padding": True},
    {"split_special_tokens": True},
    {"is_split_into_words": True},
]


def test_rows_equal_the_backends(front_end, monkeypatch):
    for options, sides in itertools.product(CALLS, [("right", "right"), ("left", "left")]):
        tokenizer = MorphemeTokenizer.from_pretrained(front_end.tokenizer)
        tokenizer.truncation_side, tokenizer.padding_side = sides
        texts = [text.split() or [""] for text in TEXTS] if options.get("is_split_into_words") else TEXTS
        short, plain, taken = both(
            tokenizer, texts, monkeypatch, return_offsets_mapping=True, return_special_tokens_mask=True, **options
        )
        assert taken, (options, sides)
        same(short, plain)
        short, plain, _ = both(tokenizer, texts[0], monkeypatch, **options)
        assert dict(short) == dict(plain), (options, sides)


parts = st.lists(st.one_of(any_text, st.sampled_from(["[E]", " [E]", "<e>", "새말", "[MASK]"])), max_size=6).map(
    "".join
)


@settings(PROPERTY, max_examples=60)
@given(
    texts=st.lists(parts, min_size=1, max_size=4),
    style=st.sampled_from(["surface", "form", "tagged", "none"]),
    split=st.booleans(),
)
def test_any_texts_with_added_tokens_in_any_style_whole_or_in_words(front_end, texts, style, split):
    tokenizer = styled(front_end.tokenizer, style)
    given_ = [text.split() or [""] for text in texts] if split else texts
    with pytest.MonkeyPatch.context() as monkeypatch:
        short, plain, _ = both(tokenizer, given_, monkeypatch, return_offsets_mapping=True, is_split_into_words=split)
        same(short, plain)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((["가 나"], ["다"]), {}),
        ((["가 나 다 라 마"],), {"return_overflowing_tokens": True, "truncation": True, "max_length": 5, "stride": 1}),
    ],
)
def test_pairs_and_overflow_go_the_long_way(arguments: Any, options: Any, front_end, monkeypatch):
    monkeypatch.setattr(morpheme_tokenizer, "build_rows", lambda *_: pytest.fail("the short way was taken"))
    MorphemeTokenizer.from_pretrained(front_end.tokenizer)(*arguments, **options)


def test_added_tokens_and_a_full_memory_change_nothing(front_end, monkeypatch):
    tokenizer = MorphemeTokenizer.from_pretrained(front_end.tokenizer)
    same(*both(tokenizer, ["무대 위에서 <새것> 했다"], monkeypatch)[:2])
    tokenizer.add_tokens(["<새것>"])
    short, plain, _ = both(tokenizer, ["무대 위에서 <새것> 했다"], monkeypatch)
    same(short, plain)
    assert len(tokenizer) - 1 in short["input_ids"][0]
    monkeypatch.setattr(fast_encoding, "CACHE_SIZE", 3)
    tokenizer = MorphemeTokenizer.from_pretrained(front_end.tokenizer)
    for text in TEXTS:
        same(*both(tokenizer, [text], monkeypatch)[:2])


def test_encodings_are_made_when_they_are_asked_for_and_pickled_as_they_are(front_end):
    made = []
    rows = LazyEncodings(2, lambda: made.append(1) or ["a", "b"])
    assert len(rows) == 2 and not made
    assert rows[1] == "b" and list(rows) == ["a", "b"] and made == [1]
    assert pickle.loads(pickle.dumps(rows)) == ["a", "b"]
    encoded = pickle.loads(pickle.dumps(loaded(front_end.tokenizer)(["그 배우는"], return_offsets_mapping=True)))
    assert encoded.word_ids(0)[0] is None
