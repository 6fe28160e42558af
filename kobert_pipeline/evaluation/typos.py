"""Noise of typing. A slip is made on the keys, and what an input method makes of them is what stands in the text:
without its second ㄴ 안녕 becomes 아녕. Only runs of syllables are typed anew; a jamo that stands alone (ㅋㅋ) stays, and so
does all else."""

from collections.abc import Callable, Iterator
from itertools import groupby
from random import Random

from kobert_pipeline.evaluation.edited_text import EditedText
from kobert_pipeline.evaluation.keyboard import FINALS, NEIGHBOURS, is_syllable, keys_of, parts, syllable, typed

Slip = Callable[[str, Random], str]
"""The keys of one syllable as they were meant -> as they were hit."""

ALIKE = (
    "ㄱ ㄲ ㅋ ㄱㅅ ㄹㄱ",
    "ㄷ ㅅ ㅆ ㅈ ㅊ ㅌ ㅎ",
    "ㅂ ㅍ ㅂㅅ ㄹㅍ",
    "ㄴ ㄴㅈ ㄴㅎ",
    "ㄹ ㄹㅂ ㄹㅅ ㄹㅌ ㄹㅎ",
    "ㅁ ㄹㅁ",
)
"""Final consonants that sound alike where no vowel follows (Standard Pronunciation, articles 8 to 12), and are mistaken
for one another."""
_MISTAKEN = {
    FINALS.index(one): [FINALS.index(other) for other in group.split() if other != one]
    for group in ALIKE
    for one in group.split()
}


def neighbour(keys: str, rng: Random) -> str:
    """A key beside the right one."""
    place = rng.randrange(len(keys))
    return keys[:place] + rng.choice(NEIGHBOURS[keys[place]]) + keys[place + 1 :]


def missed(keys: str, rng: Random) -> str:
    """A key not hit. A syllable has two at least, so something of it stays."""
    place = rng.randrange(len(keys))
    return keys[:place] + keys[place + 1 :]


def doubled(keys: str, rng: Random) -> str:
    """A key hit twice."""
    place = rng.randrange(len(keys))
    return keys[: place + 1] + keys[place:]


def swapped(keys: str, rng: Random) -> str:
    """Two keys in the wrong order."""
    place = rng.randrange(len(keys) - 1)
    return keys[:place] + keys[place + 1] + keys[place] + keys[place + 2 :]


def slips(slip: Slip) -> Callable[[str, float, Random], EditedText]:
    """The noise that makes `slip` in each syllable with probability `rate`."""

    def noisy(text: str, rate: float, rng: Random) -> EditedText:
        edited, spans = [], []
        length = 0
        for run in runs(text):
            made, places = (
                _typed_anew(run, slip, rate, rng)
                if is_syllable(run[0])
                else (run, [(i, i + 1) for i in range(len(run))])
            )
            edited.append(made)
            spans += [(length + start, length + end) for start, end in places]
            length += len(made)
        return EditedText("".join(edited), [start for start, _ in spans], [end for _, end in spans])

    return noisy


def runs(text: str) -> Iterator[str]:
    """Runs of syllables, and what lies between."""
    return ("".join(run) for _, run in groupby(text, is_syllable))


def _typed_anew(run: str, slip: Slip, rate: float, rng: Random) -> tuple[str, list[tuple[int, int]]]:
    """What comes of a run of syllables, and where each of them lies in it."""
    hit = [_hit(keys_of(character), slip, rate, rng) for character in run]
    source = [number for number, keys in enumerate(hit) for _ in keys]
    made = list(typed("".join(hit)))
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for place, (_, first, last) in enumerate(made):
        for number in set(source[first:last]):
            starts.setdefault(number, place)
            ends[number] = place + 1
    return "".join(character for character, _, _ in made), [
        (starts[number], ends[number]) for number in range(len(run))
    ]


def _hit(keys: str, slip: Slip, rate: float, rng: Random) -> str:
    """What was hit. As many numbers are drawn whatever the rate, so that a higher one makes the slips of a lower one,
    and more."""
    chance, own = rng.random(), Random(rng.getrandbits(32))
    return slip(keys, own) if chance < rate else keys


def finals(text: str, rate: float, rng: Random) -> EditedText:
    """A final consonant is, with probability `rate`, written as another that sounds like it."""
    return EditedText.of((_misspelled(character, rate, rng), "") for character in text)


def _misspelled(character: str, rate: float, rng: Random) -> str:
    lead, vowel, final = parts(character) if is_syllable(character) else (0, 0, 0)
    if final not in _MISTAKEN:
        return character
    chance, other = rng.random(), rng.choice(_MISTAKEN[final])
    return syllable(lead, vowel, other) if chance < rate else character
