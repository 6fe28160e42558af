"""Decomposed text and lone surrogates."""

from typing import Any

import pytest
from front_end import PROPERTY, nfd
from hypothesis import example, given
from hypothesis import strategies as st

from kobert_pipeline.morphemes.normalization import REPLACEMENT, cluster_end, replace_surrogates


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
