"""The Korean two-set keyboard (dubeolsik, KS X 5002): the keys of a syllable, the keys next to each other, and what an
input method makes of a sequence of keys. A key is named by the jamo printed on it, shifted ones (ㄲ, ㅒ) included."""

import re
from collections.abc import Iterator

LEADS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
# in the order of Unicode's syllables: a syllable's number is (lead * 21 + vowel) * 28 + final
_VOWELS = "ㅏ ㅐ ㅑ ㅒ ㅓ ㅔ ㅕ ㅖ ㅗ ㅗㅏ ㅗㅐ ㅗㅣ ㅛ ㅜ ㅜㅓ ㅜㅔ ㅜㅣ ㅠ ㅡ ㅡㅣ ㅣ"
_FINALS = "ㄱ ㄲ ㄱㅅ ㄴ ㄴㅈ ㄴㅎ ㄷ ㄹ ㄹㄱ ㄹㅁ ㄹㅂ ㄹㅅ ㄹㅌ ㄹㅍ ㄹㅎ ㅁ ㅂ ㅂㅅ ㅅ ㅆ ㅇ ㅈ ㅊ ㅋ ㅌ ㅍ ㅎ"
VOWELS, FINALS = _VOWELS.split(), ["", *_FINALS.split()]
"""The keys of every lead, vowel and final consonant, in Unicode's order."""
FIRST, LAST = "가", "힣"

ROWS = ("ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ")
ROW_OFFSETS = (0.0, 0.25, 0.75)
"""How far each row is shifted to the right of the first, in keys."""
SHIFTED = dict(zip("ㅃㅉㄸㄲㅆㅒㅖ", "ㅂㅈㄷㄱㅅㅐㅔ", strict=True))


def is_syllable(character: str) -> bool:
    """Whether it is a modern Hangul syllable."""
    return FIRST <= character <= LAST


def decompose(syllable: str) -> tuple[int, int, int]:
    """The indices of lead, vowel and final consonant (0: none) of a syllable."""
    offset = ord(syllable) - ord(FIRST)
    return offset // (len(VOWELS) * len(FINALS)), offset // len(FINALS) % len(VOWELS), offset % len(FINALS)


def compose(lead: int, vowel: int, final: int) -> str:
    """The syllable of these indices."""
    return chr(ord(FIRST) + (lead * len(VOWELS) + vowel) * len(FINALS) + final)


def keys_of(syllable: str) -> str:
    """The keys that type a syllable, two to five."""
    lead, vowel, final = decompose(syllable)
    return LEADS[lead] + VOWELS[vowel] + FINALS[final]


def _longest_first(keys: list[str]) -> str:
    # a regular expression takes the first alternative that matches, so ㅗㅏ has to come before ㅗ
    return "|".join(sorted(filter(None, keys), key=len, reverse=True))


# a consonant before a vowel is the lead of a syllable, so it is a final only if no vowel follows
# of ㄱㅅ before ㅏ the expression goes back to ㄱ, and ㅅ leads the next syllable
_SYLLABLE = re.compile(
    f"([{LEADS}])({_longest_first(VOWELS)})(?:({_longest_first(FINALS)})(?![ㅏ-ㅣ]))?|({_longest_first(VOWELS)})|."
)


def type_keys(keys: str) -> Iterator[tuple[str, int, int]]:
    """(character, start, end) of each syllable, or single jamo, that an input method makes of `keys[start:end]`."""
    for match in _SYLLABLE.finditer(keys):
        lead, vowel, final, alone = match.groups()
        if lead:
            character = compose(LEADS.index(lead), VOWELS.index(vowel), FINALS.index(final or ""))
        else:
            # ㅗㅏ without a consonant becomes the single jamo ㅘ
            # Unicode has the single vowels in the order of VOWELS, too
            character = chr(ord("ㅏ") + VOWELS.index(alone)) if alone else match[0]
        yield character, match.start(), match.end()


def _neighbours() -> dict[str, str]:
    # {key: (row, x)}, x in widths of a key
    positions = {
        key: (row, column + ROW_OFFSETS[row]) for row, keys in enumerate(ROWS) for column, key in enumerate(keys)
    }
    near = {
        key: "".join(
            other
            for other, (other_row, other_x) in positions.items()
            if other != key and abs(other_row - row) <= 1 and abs(other_x - x) <= 1
        )
        for key, (row, x) in positions.items()
    }
    # the neighbours of a shifted key are typed without shift
    return near | {key: near[base] for key, base in SHIFTED.items()}


NEIGHBOURS = _neighbours()
"""{key: keys that touch it}: its neighbours in the row, and the keys of adjacent rows that are at most one key away."""
