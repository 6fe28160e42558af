"""What noise may change in a text, and that the original characters can be found in it."""

import subprocess
import sys
import unicodedata
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from kobert_pipeline.errors import UserError
from kobert_pipeline.evaluation.edited_text import EditedText
from kobert_pipeline.evaluation.keyboard import is_syllable, keys_of
from kobert_pipeline.evaluation.noise import ALL, KINDS, Noise, conditions

PROPERTY = settings(max_examples=60, deadline=None, database=None, derandomize=True)
TYPOS = [kind for kind in KINDS if kind.startswith("key")]
SPACES = [kind for kind in KINDS if kind.startswith("spaces")]
TEXTS = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("가각값없읽어여와 \n\tㅋㅠab1。!😀"),
        st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),
    )
)
RATES = st.floats(0, 1)
SEEDS = st.integers(0, 5)
LONG = "그 영화는 처음부터 끝까지 눈을 뗄 수 없었고 배우들의 연기도 훌륭했다. 값진 시간이었다ㅋㅋ " * 200


def black(text: str) -> str:
    """The text without white space."""
    return "".join(character for character in text if not character.isspace())


@pytest.mark.parametrize("kind", KINDS)
@PROPERTY
@given(text=TEXTS, rate=RATES, seed=SEEDS)
@example(text="가\ud800나", rate=1.0, seed=1)
@example(text="", rate=1.0, seed=1)
def test_characters_can_be_found_after_any_noise(kind: str, text: str, rate: float, seed: int) -> None:
    edited = Noise(kind, rate, seed)(text)
    assert Noise(kind, rate, seed)(text) == edited, "the same text gets the same noise"
    assert len(edited.starts) == len(edited.ends) == len(text)
    assert edited.starts == sorted(edited.starts)
    assert edited.ends == sorted(edited.ends)
    covered = {place for start, end in zip(edited.starts, edited.ends, strict=True) for place in range(start, end)}
    assert covered <= set(range(len(edited.text)))
    assert not [place for place in set(range(len(edited.text))) - covered if edited.text[place] != " "], (
        "only spaces are inserted"
    )
    for number, character in enumerate(text):
        start, end = edited.span(number, number + 1)
        if not character.isspace():
            assert start < end, "nothing but white space is lost"
        if not is_syllable(character) and start < end:
            assert edited.text[start:end] == character


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "spaces-removed"])
@PROPERTY
@given(text=TEXTS, seed=SEEDS)
def test_rate_0_changes_nothing(kind: str, text: str, seed: int) -> None:
    assert Noise(kind, 0.0, seed)(text) == EditedText.of((character, "") for character in text)


@pytest.mark.parametrize("kind", SPACES)
@PROPERTY
@given(text=TEXTS, rate=RATES, seed=SEEDS, ends=st.tuples(st.integers(0, 50), st.integers(0, 50)))
def test_noise_of_spacing_changes_spaces_alone_and_spans_keep_their_characters(
    kind: str, text: str, rate: float, seed: int, ends: tuple[int, int]
) -> None:
    edited = Noise(kind, rate, seed)(text)
    assert black(edited.text) == black(text)
    first, last = sorted(min(end, len(text)) for end in ends)
    start, end = edited.span(first, last)
    assert black(edited.text[start:end]) == black(text[first:last])
    if kind == "spaces-removed":
        assert edited.text == black(text)
    if kind == "spaces-dropped":
        assert len(edited.text) <= len(text)
    if kind == "spaces-inserted":
        assert [edited.text[place] for place in edited.starts] == list(text), "no character is dropped"
        assert unicodedata.normalize("NFC", edited.text).replace(" ", "") == unicodedata.normalize("NFC", text).replace(
            " ", ""
        )


@pytest.mark.parametrize("kind", TYPOS)
@PROPERTY
@given(
    text=st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=1, max_size=12),
    rate=RATES,
    seed=SEEDS,
)
def test_slips_leave_syllables_and_jamo_and_at_most_one_slip_each(kind: str, text: str, rate: float, seed: int) -> None:
    edited = Noise(kind, rate, seed)(text)
    assert all(is_syllable(character) or "ㄱ" <= character <= "ㅣ" for character in edited.text)
    before, after = "".join(map(keys_of, text)), keys(edited.text)
    longer = len(after) - len(before)
    if kind == "key-missed":
        assert -len(text) <= longer <= 0
    elif kind == "key-doubled":
        assert 0 <= longer <= len(text)
    else:
        assert longer == 0
    if kind == "keys-swapped":
        assert sorted(after) == sorted(before)
    if kind == "key-neighbour":
        assert sum(one != other for one, other in zip(before, after, strict=True)) <= len(text)


def keys(text: str) -> str:
    """The keys of syllables and of single jamo."""
    compound = {"ㅘ": "ㅗㅏ", "ㅙ": "ㅗㅐ", "ㅚ": "ㅗㅣ", "ㅝ": "ㅜㅓ", "ㅞ": "ㅜㅔ", "ㅟ": "ㅜㅣ", "ㅢ": "ㅡㅣ"}
    return "".join(
        keys_of(character) if is_syllable(character) else compound.get(character, character) for character in text
    )


@pytest.mark.parametrize("kind", TYPOS)
@PROPERTY
@given(text=st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=1), seed=SEEDS)
def test_every_slip_changes_the_text(kind: str, text: str, seed: int) -> None:
    assert Noise(kind, 1.0, seed)(text).text != text


@PROPERTY
@given(text=TEXTS, rate=RATES, seed=SEEDS)
def test_a_mistaken_final_consonant_changes_nothing_else_and_sounds_alike(text: str, rate: float, seed: int) -> None:
    edited = Noise("final-mistaken", rate, seed)(text)
    assert len(edited.text) == len(text)
    for one, other in zip(text, edited.text, strict=True):
        if one != other:
            assert keys_of(one)[:2] == keys_of(other)[:2]
            assert sound(one) == sound(other)


def sound(character: str) -> str:
    """The final consonant as it is pronounced at the end of a word, by an independent table (Standard Pronunciation,
    articles 8 to 11)."""
    spoken = {
        "ㄱ": "ᆨᆩᆿᆪᆰ", "ㄴ": "ᆫᆬᆭ", "ㄷ": "ᆮᆺᆻᆽᆾᇀᇂ", "ㄹ": "ᆯᆲᆳᆴᆶ", "ㅁ": "ᆷᆱ", "ㅂ": "ᆸᇁᆹᆵ", "ㅇ": "ᆼ",
    }  # fmt: skip
    return next(key for key, finals in spoken.items() if unicodedata.normalize("NFD", character)[2] in finals)


def test_a_higher_rate_does_what_a_lower_one_did_and_more() -> None:
    for kind in [kind for kind in KINDS if kind != "spaces-removed"]:
        text = LONG[:500]
        alike = [Noise(kind, rate, 3)(text) for rate in (0.1, 0.3, 0.6)]
        # a character that a rate left unchanged, like its neighbours, is unchanged at every lower rate
        for lower, higher in pairwise(alike):
            for number in range(1, len(text) - 1):
                if plain(higher, text, number - 1, number + 2):
                    assert plain(lower, text, number, number + 1)


def plain(edited: EditedText, text: str, first: int, last: int) -> bool:
    start, end = edited.span(first, last)
    return edited.text[start:end] == text[first:last]


@pytest.mark.parametrize(
    ("kind", "rate"),
    [
        ("spaces-dropped", 0.25),
        ("spaces-inserted", 0.1),
        ("final-mistaken", 0.2),
        ("key-missed", 0.1),
    ],
)
def test_rates_are_what_they_say_within_four_standard_errors(kind: Any, rate: Any) -> None:
    edited = Noise(kind, rate, 1)(LONG)
    if kind == "spaces-dropped":
        candidates, hit = LONG.count(" "), LONG.count(" ") - edited.text.count(" ")
    elif kind == "spaces-inserted":
        candidates = sum(one.isalnum() and other.isalnum() for one, other in pairwise(LONG))
        hit = edited.text.count(" ") - LONG.count(" ")
    elif kind == "final-mistaken":
        finals = [unicodedata.normalize("NFD", character)[2:] for character in LONG if is_syllable(character)]
        candidates = sum(final not in ("", "\u11bc") for final in finals)
        hit = sum(one != other for one, other in zip(LONG, edited.text, strict=True))
    else:
        candidates = sum(map(is_syllable, LONG))
        hit = len(keys(LONG)) - len(keys(edited.text))
    assert abs(hit - rate * candidates) < 4 * (candidates * rate * (1 - rate)) ** 0.5


def test_seeds_and_texts_differ_and_processes_do_not() -> None:
    noise = Noise("spaces-dropped", 0.5, 1)
    assert noise(LONG).text != Noise("spaces-dropped", 0.5, 2)(LONG).text
    code = (
        f"from kobert_pipeline.evaluation.noise import Noise\nprint(Noise('key-neighbour', 0.3, 1)({LONG[:60]!r}).text)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == Noise("key-neighbour", 0.3, 1)(LONG[:60]).text + "\n"


def test_words_of_the_command_name_noises() -> None:
    assert conditions(["spaces-dropped=0.1,1"], 7) == [Noise("spaces-dropped", 0.1, 7), Noise("spaces-dropped", 1.0, 7)]
    assert [noise.kind for noise in conditions(["spaces-removed"], 1)] == ["spaces-removed"]
    everything = conditions([ALL], 1)
    assert conditions([ALL, "spaces-removed", "key-missed=0.05,0.05"], 1) == everything, "each once"
    assert {noise.kind for noise in everything} == set(KINDS)
    assert all(sum(noise.kind == kind for noise in everything) == 4 for kind in ("spaces-dropped", "spaces-inserted"))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("spaces-droped", "did you mean 'spaces-dropped'"),
        ("key-missed=", "numbers from 0 to 1"),
        ("key-missed=2", "numbers from 0 to 1"),
        ("key-missed=nan", "numbers from 0 to 1"),
        ("key-missed=a,0.1", "numbers from 0 to 1"),
        ("spaces-removed=0.5", "takes no rate"),
        ("all=0.1", "there is no noise"),
    ],
)
def test_other_words_are_refused(wanted: Any, message: Any) -> None:
    with pytest.raises(UserError, match=message):
        conditions([wanted], 1)


@PROPERTY
@given(st.lists(st.tuples(st.text(max_size=3), st.sampled_from(["", " "]))), st.data())
def test_spans_hold_what_became_of_their_characters(parts: list[tuple[str, str]], data: st.DataObject) -> None:
    edited = EditedText.of(parts)
    assume(parts)
    first = data.draw(st.integers(0, len(parts) - 1))
    last = data.draw(st.integers(first + 1, len(parts)))
    start, end = edited.span(first, last)
    assert edited.text[start:end] == "".join(kept + inserted for kept, inserted in parts[first:last])[: end - start]
    assert edited.text[start:end].replace(" ", "") == "".join(kept for kept, _ in parts[first:last]).replace(" ", "")
