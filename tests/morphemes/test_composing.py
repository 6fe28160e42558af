"""NFC with a map back to the text as given."""

import unicodedata

import pytest
from front_end import PROPERTY, any_text, nfc, nfd
from hypothesis import example, given
from hypothesis import strategies as st

from kobert_pipeline.morphemes.composing import REPLACEMENT, cluster_end, compose, sound

KOREAN = st.lists(
    st.sampled_from(["했", "갔다", "ᄒᆞᆫ", "ㅋ", " ", "a", "漢", "😀", "닭", "が", "é", "나〮", "말〯", "가\u0301", "か゚", "o\u0323"]), max_size=12
).map("".join)


@PROPERTY
@given(text=st.one_of(any_text, any_text.map(nfd), st.text(st.characters(exclude_categories=["Cs"], min_codepoint=0x300), max_size=12)))
@example(text="\u0301가")
@example(text="\u0958\u0344\u2126\u212b")
@example(text="a\u0316\u0301\u0323")
@example(text="\u1112\u1161\u11a8\u11a8")
def test_composing_is_nfc(text):
    assert compose(text).text == unicodedata.normalize("NFC", text)


@PROPERTY
@given(text=st.one_of(any_text, any_text.map(nfd)))
def test_origins_lead_from_the_first_character_to_the_end_and_never_back(text):
    composed = compose(text)
    assert len(composed.origin) == len(composed.text) + 1
    assert (composed.origin[0], composed.origin[-1]) == (0, len(text))
    assert composed.origin == sorted(composed.origin)


@PROPERTY
@given(text=KOREAN)
@example(text="가\u0301")
@example(text="나〮랏〮말〯")
def test_a_composed_character_is_the_nfc_of_where_it_came_from(text):
    raw = nfd(text)
    composed = compose(raw)
    slices = [raw[start:end] for start, end in zip(composed.origin, composed.origin[1:], strict=False)]
    assert [nfc(one) for one in slices] == list(composed.text)


@PROPERTY
@given(text=any_text)
def test_nfc_text_is_its_own_composition(text):
    composed = compose(nfc(text))
    assert composed.text == nfc(text)
    assert composed.origin == list(range(len(composed.text) + 1))


@pytest.mark.parametrize(
    ("text", "start", "end"), [("했다", 0, 1), (nfd("했다"), 0, 3), (nfd("했다"), 3, 5), ("e\u0301x", 0, 2), ("가😀", 0, 1), ("가", 0, 1)]
)
def test_a_cluster_ends_where_nothing_more_can_compose(text, start, end):
    assert cluster_end(text, start) == end


@PROPERTY
@given(text=st.text(st.characters(), max_size=20))
@example(text="가\ud800나\udfff")
def test_sound_text_can_be_encoded_and_differs_only_at_lone_surrogates(text):
    mended = sound(text)
    mended.encode("utf-8")
    assert len(mended) == len(text)
    assert all(new == old or (new == REPLACEMENT and "\ud800" <= old <= "\udfff") for new, old in zip(mended, text, strict=True))
