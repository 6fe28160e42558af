"""Invisible characters, decomposed text and lone surrogates."""

from typing import Any

import pytest
from front_end import PROPERTY, marks, nfd, sprinkle, visible_text
from hypothesis import example, given
from hypothesis import strategies as st

from kobert_pipeline.morphemes.normalization import REPLACEMENT, cluster_end, remove_invisible, replace_surrogates


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("했다", 0, 1),
        (nfd("했다"), 0, 3),
        (nfd("했다"), 3, 5),
        ("e\u0301x", 0, 2),
        ("가😀", 0, 1),
        ("가", 0, 1),
        (" \u0dd9\u0ddf", 0, 1),
        (" \u0dd9\u0ddf", 1, 3),
    ],
)
def test_a_cluster_ends_where_nothing_more_can_compose(text: Any, start: Any, end: Any):
    assert cluster_end(text, start) == end


@PROPERTY
@given(text=st.text(st.characters(), max_size=20))
@example(text="가\ud800나\udfff")
def test_replaced_text_can_be_encoded_and_differs_only_at_lone_surrogates(text):
    replaced = replace_surrogates(text)
    replaced.encode("utf-8")
    assert len(replaced) == len(text)
    assert all(
        new == old or (new == REPLACEMENT and "\ud800" <= old <= "\udfff")
        for new, old in zip(replaced, text, strict=True)
    )


@PROPERTY
@given(text=visible_text, marks=marks)
@example(text="재미있다", marks=[(1, "\u200b")])
@example(text="각", marks=[(0, "\ufeff")])
@example(text="❤\u200d🔥", marks=[(1, "\ufe0f"), (3, "\xad")])
def test_invisible_characters_have_no_token_and_move_no_offset(text, marks, tokenizer):
    marked, before = sprinkle(text, marks)
    expected, encoded = (tokenizer(each, return_offsets_mapping=True) for each in (text, marked))
    assert encoded["input_ids"] == expected["input_ids"]
    spans = encoded["offset_mapping"]
    assert [(before[start], before[end]) for start, end in spans] == expected["offset_mapping"]
    # a token ends at its last visible character, and begins at its first
    assert all(
        before[end] - before[end - 1] == before[start + 1] - before[start] == 1 for start, end in spans if end > start
    )


@PROPERTY
@given(text=visible_text, marks=marks)
@example(text="재미있다", marks=[(1, "\u200b")])
def test_windows_of_marked_pairs_and_words_are_those_of_the_text(text, marks, tokenizer):
    text = f"{text} 끝"  # an empty second side would be none
    marked, _ = sprinkle(text, marks)
    window = {"truncation": "only_second", "max_length": 9, "stride": 2, "return_overflowing_tokens": True}
    assert tokenizer("했다", marked, **window)["input_ids"] == tokenizer("했다", text, **window)["input_ids"]
    words = [sprinkle(word, marks)[0] for word in text.split()]
    split = tokenizer(words, is_split_into_words=True)
    assert split["input_ids"] == tokenizer(text.split(), is_split_into_words=True)["input_ids"]


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("재\u200d미", "재미"),
        ("\u200d❤\u200d", "❤"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
        ("❤\ufe0f\u200d🔥", "❤\u200d🔥"),
        ("👨\u200d\u200d👩", "👨👩"),
        ("가\x85나\x0b\t\n\u3000", "가\x85나\x0b\t\n\u3000"),
    ],
)
def test_joiners_stay_between_emoji_and_white_space_everywhere(text: Any, visible: Any):
    assert remove_invisible(text) == visible
