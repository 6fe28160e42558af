"""The two-set Korean keyboard (dubeolsik, KS X 5002): which keys a syllable is typed with, which keys lie beside one
another, and what an input method makes of a row of keys. Keys are called by the jamo printed on them, shifted ones (ㄲ,
ㅒ) included."""

import re
from collections.abc import Iterator

LEADS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏ ㅐ ㅑ ㅒ ㅓ ㅔ ㅕ ㅖ ㅗ ㅗㅏ ㅗㅐ ㅗㅣ ㅛ ㅜ ㅜㅓ ㅜㅔ ㅜㅣ ㅠ ㅡ ㅡㅣ ㅣ"
_FINALS = "ㄱ ㄲ ㄱㅅ ㄴ ㄴㅈ ㄴㅎ ㄷ ㄹ ㄹㄱ ㄹㅁ ㄹㅂ ㄹㅅ ㄹㅌ ㄹㅍ ㄹㅎ ㅁ ㅂ ㅂㅅ ㅅ ㅆ ㅇ ㅈ ㅊ ㅋ ㅌ ㅍ ㅎ"
VOWELS, FINALS = _VOWELS.split(), ["", *_FINALS.split()]
"""The keys of every lead, vowel and final consonant, in Unicode's order."""
FIRST, LAST = "가", "힣"

ROWS = ("ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ")
SHIFTS = (0.0, 0.25, 0.75)
"""How far each row stands to the right of the first, in keys."""
SHIFTED = dict(zip("ㅃㅉㄸㄲㅆㅒㅖ", "ㅂㅈㄷㄱㅅㅐㅔ", strict=True))


def is_syllable(character: str) -> bool:
    """Whether it is a modern Hangul syllable."""
    return FIRST <= character <= LAST


def parts(syllable: str) -> tuple[int, int, int]:
    """Numbers of lead, vowel and final consonant (0: none) of a syllable."""
    number = ord(syllable) - ord(FIRST)
    return number // (len(VOWELS) * len(FINALS)), number // len(FINALS) % len(VOWELS), number % len(FINALS)


def syllable(lead: int, vowel: int, final: int) -> str:
    """The syllable of these numbers."""
    return chr(ord(FIRST) + (lead * len(VOWELS) + vowel) * len(FINALS) + final)


def keys_of(character: str) -> str:
    """The keys that a syllable is typed with, two to five."""
    lead, vowel, final = parts(character)
    return LEADS[lead] + VOWELS[vowel] + FINALS[final]


def _longest_first(keys: list[str]) -> str:
    return "|".join(sorted(filter(None, keys), key=len, reverse=True))


_SYLLABLE = re.compile(
    f"([{LEADS}])({_longest_first(VOWELS)})(?:({_longest_first(FINALS)})(?![ㅏ-ㅣ]))?|({_longest_first(VOWELS)})|."
)


def typed(keys: str) -> Iterator[tuple[str, int, int]]:
    """What an input method makes of `keys`: syllables, and jamo where there is none to be made, each with where its
    keys begin and end. A consonant before a vowel opens a syllable; it ends the one before only where no vowel
    follows."""
    for match in _SYLLABLE.finditer(keys):
        lead, vowel, final, alone = match.groups()
        if lead:
            made = syllable(LEADS.index(lead), VOWELS.index(vowel), FINALS.index(final or ""))
        else:
            made = chr(ord("ㅏ") + VOWELS.index(alone)) if alone else match[0]
        yield made, match.start(), match.end()


def _neighbours() -> dict[str, str]:
    places = {key: (row, column + SHIFTS[row]) for row, keys in enumerate(ROWS) for column, key in enumerate(keys)}
    near = {
        key: "".join(
            other
            for other, (level, along) in places.items()
            if other != key and abs(level - row) <= 1 and abs(along - place) <= 1
        )
        for key, (row, place) in places.items()
    }
    return near | {key: near[base] for key, base in SHIFTED.items()}


NEIGHBOURS = _neighbours()
"""The keys that touch each key: those beside it, and those of the next rows less than a key away."""
