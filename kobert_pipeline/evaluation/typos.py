"""Noise of typing: an error is made on the keys, and the text is what an input method makes of them. Without its second
ㄴ, 안녕 becomes 아녕. Only runs of syllables are typed again; single jamo (ㅋㅋ) and other characters stay."""

from collections.abc import Callable
from itertools import groupby
from random import Random

from kobert_pipeline.evaluation.edited_text import EditedText
from kobert_pipeline.evaluation.keyboard import FINALS, NEIGHBOURS, compose, decompose, is_syllable, keys_of, type_keys

Slip = Callable[[str, Random], str]
"""The intended keys of one syllable -> the keys that were hit."""
Span = tuple[int, int]

ALIKE = (
    "ㄱ ㄲ ㅋ ㄱㅅ ㄹㄱ",
    "ㄷ ㅅ ㅆ ㅈ ㅊ ㅌ ㅎ",
    "ㅂ ㅍ ㅂㅅ ㄹㅍ",
    "ㄴ ㄴㅈ ㄴㅎ",
    "ㄹ ㄹㅂ ㄹㅅ ㄹㅌ ㄹㅎ",
    "ㅁ ㄹㅁ",
)
"""Final consonants that sound alike where no vowel follows (Standard Pronunciation of Korean, articles 8 to 12)."""
_CONFUSABLE = {
    FINALS.index(final): [FINALS.index(other) for other in group.split() if other != final]
    for group in ALIKE
    for final in group.split()
}


def hit_neighbour(keys: str, rng: Random) -> str:
    """Replace a key by one next to it."""
    index = rng.randrange(len(keys))
    return keys[:index] + rng.choice(NEIGHBOURS[keys[index]]) + keys[index + 1 :]


def miss_key(keys: str, rng: Random) -> str:
    """Omit a key. A syllable has at least two, so something of it remains."""
    index = rng.randrange(len(keys))
    return keys[:index] + keys[index + 1 :]


def double_key(keys: str, rng: Random) -> str:
    """Hit a key twice."""
    index = rng.randrange(len(keys))
    return keys[: index + 1] + keys[index:]


def swap_keys(keys: str, rng: Random) -> str:
    """Hit two adjacent keys in the wrong order."""
    index = rng.randrange(len(keys) - 1)
    return keys[:index] + keys[index + 1] + keys[index] + keys[index + 2 :]


def key_noise(slip: Slip) -> Callable[[str, float, Random], EditedText]:
    """The noise that makes `slip` in each syllable with probability `rate`."""

    def add(text: str, rate: float, rng: Random) -> EditedText:
        edited, spans = [], []
        length = 0
        for typed, group in groupby(text, is_syllable):
            run = "".join(group)
            if typed:
                result, run_spans = _type_again(run, slip, rate, rng)
            else:
                result, run_spans = run, [(i, i + 1) for i in range(len(run))]
            edited.append(result)
            spans += [(length + start, length + end) for start, end in run_spans]
            length += len(result)
        return EditedText("".join(edited), [start for start, _ in spans], [end for _, end in spans])

    return add


def _type_again(run: str, slip: Slip, rate: float, rng: Random) -> tuple[str, list[Span]]:
    """What a run of syllables becomes, and the span of each of them in it."""
    hit = [_hit_keys(keys_of(syllable), slip, rate, rng) for syllable in run]
    # 안녕 without its second ㄴ: hit ["ㅇㅏㄴ", "ㅕㅇ"] -> syllable_of_key [0, 0, 0, 1, 1] -> typed 아 (0-2), 녕 (2-5)
    syllable_of_key = [index for index, keys in enumerate(hit) for _ in keys]
    # the whole run at once: a lost or added key moves the boundaries of the syllables after it
    typed = list(type_keys("".join(hit)))
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for position, (_, first, last) in enumerate(typed):
        # a character typed with keys of two syllables belongs to the spans of both
        for index in set(syllable_of_key[first:last]):
            starts.setdefault(index, position)
            ends[index] = position + 1
    text = "".join(character for character, _, _ in typed)
    # no slip takes all keys of a syllable, so each has a span
    return text, [(starts[index], ends[index]) for index in range(len(run))]


def _hit_keys(keys: str, slip: Slip, rate: float, rng: Random) -> str:
    # the same numbers are drawn whatever the rate, so that a higher rate contains the slips of a lower one
    # `slip_rng`, because a slip may draw several numbers, which must not shift the draws of the next syllables
    chance, slip_rng = rng.random(), Random(rng.getrandbits(32))
    return slip(keys, slip_rng) if chance < rate else keys


def mistake_finals(text: str, rate: float, rng: Random) -> EditedText:
    """Replace each final consonant, with probability `rate`, by another one that sounds like it."""
    return EditedText.of((_misspell(character, rate, rng), "") for character in text)


def _misspell(character: str, rate: float, rng: Random) -> str:
    lead, vowel, final = decompose(character) if is_syllable(character) else (0, 0, 0)
    if final not in _CONFUSABLE:
        return character
    # drawn whatever the rate, as in `_hit_keys`
    chance, other = rng.random(), rng.choice(_CONFUSABLE[final])
    return compose(lead, vowel, other) if chance < rate else character
