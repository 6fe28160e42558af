"""NFC with a map back to the text as given. Kiwi finds one noun per eojeol in decomposed (NFD) text, so it only ever sees NFC;
the offsets that users get are those of their own string."""

import unicodedata
from typing import NamedTuple

REPLACEMENT = "\ufffd"


class Composed(NamedTuple):
    """`text` in NFC; character i of it was made of `origin[i]` to `origin[i + 1]` (exclusive) of the given string."""

    text: str
    origin: list[int]


def sound(text: str) -> str:
    """`text` with every lone surrogate replaced by U+FFFD, one for one: no encoder takes them, and offsets stay."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(REPLACEMENT if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def compose(text: str) -> Composed:
    """NFC of `text`, cluster by cluster, so that every composed character knows where it came from."""
    composed: list[str] = []
    origin: list[int] = []
    start = 0
    while start < len(text):
        end = cluster_end(text, start)
        cluster = unicodedata.normalize("NFC", text[start:end])
        composed.append(cluster)
        # a cluster that stays several characters maps its first to its start and the rest one to one, the last taking what is left
        origin += [min(start + i, end - 1) for i in range(len(cluster))]
        start = end
    return Composed("".join(composed), [*origin, len(text)])


def cluster_end(text: str, start: int) -> int:
    """Where the characters that may compose with the one at `start` end."""
    end = start + 1
    while end < len(text) and _joins(text[end]):
        end += 1
    return end


def _joins(character: str) -> bool:
    """Whether `character` may compose with the one before it: combining marks, conjoining vowels and final consonants."""
    return character >= "\u0300" and (
        unicodedata.combining(character) != 0 or "\u1160" <= character <= "\u11ff" or unicodedata.category(character) in ("Mn", "Mc")
    )
