"""The two-set keyboard, compared with Unicode's decomposition and with an input method that handles key by key."""

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from kobert_pipeline.evaluation.keyboard import (
    FINALS,
    LEADS,
    NEIGHBOURS,
    ROWS,
    SHIFTED,
    VOWELS,
    compose,
    decompose,
    keys_of,
    type_keys,
)

PROPERTY = settings(deadline=None, database=None, derandomize=True)
SYLLABLES = [chr(code) for code in range(0xAC00, 0xD7A4)]
KEYS = [*"".join(ROWS), *SHIFTED]


def test_parts_and_keys_are_those_of_unicode() -> None:
    for character in SYLLABLES:
        decomposed = unicodedata.normalize("NFD", character)
        lead, vowel, final = decompose(character)
        assert compose(lead, vowel, final) == character
        assert unicodedata.normalize("NFKD", LEADS[lead]) == decomposed[0]
        assert ord(decomposed[1]) - 0x1161 == vowel
        assert (ord(decomposed[2]) - 0x11A7 if len(decomposed) == 3 else 0) == final
        single = keys_of(character)[-1]
        if len(FINALS[final]) == 1:  # a compatibility jamo is named like the final consonant
            assert unicodedata.name(single).split()[-1] == unicodedata.name(decomposed[2]).split()[-1]


def test_keys_of_some_words_as_printed_on_a_keyboard() -> None:
    assert [keys_of(character) for character in "값왜뭐의깎읽쑥"] == [
        "ㄱㅏㅂㅅ",
        "ㅇㅗㅐ",
        "ㅁㅜㅓ",
        "ㅇㅡㅣ",
        "ㄲㅏㄲ",
        "ㅇㅣㄹㄱ",
        "ㅆㅜㄱ",
    ]


def test_neighbours_touch_on_the_keyboard() -> None:
    assert set(NEIGHBOURS["ㅎ"]) == set("ㄹㅗㅅㅛㅍㅠ")
    assert set(NEIGHBOURS["ㅂ"]) == set("ㅈㅁ")
    assert set(NEIGHBOURS["ㅡ"]) == set("ㅜㅓㅏ")
    assert NEIGHBOURS["ㄲ"] == NEIGHBOURS["ㄱ"]
    assert set(NEIGHBOURS) == set(KEYS)
    assert all(key in NEIGHBOURS[other] for key in "".join(ROWS) for other in NEIGHBOURS[key]), "touching is mutual"


def plainly_typed(keys: str) -> str:
    """An input method as a state machine of lead, vowel and final, one key at a time."""
    made, lead, vowel, final = "", "", "", ""

    def put() -> str:
        if lead and vowel:
            return compose(LEADS.index(lead), VOWELS.index(vowel), FINALS.index(final))
        return lead or (chr(0x314F + VOWELS.index(vowel)) if vowel else "")

    for key in keys:
        if "ㅏ" <= key <= "ㅣ":
            if final:  # the last consonant becomes the lead of the next syllable
                moved, final = final[-1], final[:-1]
                made, lead, vowel, final = made + put(), moved, key, ""
            elif vowel and vowel + key in VOWELS:
                vowel += key
            elif vowel:
                made, lead, vowel = made + put(), "", key
            else:
                vowel = key
        elif lead and vowel and final + key in FINALS:
            final += key
        else:
            made, lead, vowel, final = made + put(), key, "", ""
    return made + put()


@PROPERTY
@given(st.text(st.sampled_from(KEYS), max_size=30))
def test_any_sequence_of_keys_becomes_what_the_state_machine_makes_of_it(keys: str) -> None:
    made = list(type_keys(keys))
    assert "".join(character for character, _, _ in made) == plainly_typed(keys)
    assert [place for _, start, end in made for place in range(start, end)] == list(range(len(keys))), (
        "no key is lost or used twice"
    )
    for character, start, end in made:
        if end - start > 1 and "가" <= character <= "힣":
            assert keys_of(character) == keys[start:end]


@PROPERTY
@given(st.text(st.sampled_from(SYLLABLES), max_size=20))
def test_syllables_typed_again_are_unchanged(text: str) -> None:
    assert "".join(character for character, _, _ in type_keys("".join(map(keys_of, text)))) == text
