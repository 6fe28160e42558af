"""What decomposed (NFD) and broken text needs, so that offsets stay those of the string as given.

Kiwi finds one noun per eojeol in decomposed text, so it only ever sees NFC.
"""

import unicodedata
from collections.abc import Sequence

REPLACEMENT = "\ufffd"
MOST_MARKS = 30
"""No script stacks more (Unicode's Stream-Safe Text Format, UAX #15)."""


def replace_surrogates(text: str) -> str:
    """`text` with every lone surrogate replaced by U+FFFD, one for one: no encoder takes them, and offsets stay."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(REPLACEMENT if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def nfc_with_offsets(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """`text` in NFC, and for each of its N characters where it begins and ends (exclusive) in `text`.

    The characters of a cluster that composes to fewer share it: all but the first keep one character each, from the
    end.
    """
    if unicodedata.is_normalized("NFC", text):
        return text, range(len(text)), range(1, len(text) + 1)
    parts: list[str] = []
    starts: list[int] = []
    start = 0
    while start < len(text):
        end = cluster_end(text, start)
        part = unicodedata.normalize("NFC", text[start:end])
        parts.append(part)
        tail = len(part) - 1
        if (
            tail > end - start - 1
        ):  # a cluster that gets longer (a composition that NFC forbids): what is too much is empty
            starts += [min(start + i, end) for i in range(len(part))]
        else:
            starts += [start, *range(end - tail, end)]
        start = end
    return "".join(parts), starts, [*starts[1:], len(text)]


def cluster_end(text: str, start: int) -> int:
    """Where the characters that may compose with the one at `start` end. After `MOST_MARKS` of them a cluster ends
    anyway: to put marks in order takes time that grows with the square of their number. White space composes with
    nothing: a mark after it would get no token."""
    if text[start].isspace():
        return start + 1
    end = start + 1
    while end < min(len(text), start + MOST_MARKS) and _joins(text[end]):
        end += 1
    return end


def _joins(character: str) -> bool:
    """Whether `character` may compose with the one before it: combining marks, conjoining vowels and final
    consonants."""
    return character >= "\u0300" and (
        unicodedata.combining(character) != 0
        or "\u1160" <= character <= "\u11ff"
        or unicodedata.category(character) in ("Mn", "Mc")
    )
