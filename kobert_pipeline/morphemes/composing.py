"""What decomposed (NFD) and broken text needs, so that offsets stay those of the string as given.

Kiwi finds one noun per eojeol in decomposed text, so it only ever sees NFC.
"""

import unicodedata

REPLACEMENT = "\ufffd"


def sound(text: str) -> str:
    """`text` with every lone surrogate replaced by U+FFFD, one for one: no encoder takes them, and offsets stay."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(REPLACEMENT if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


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
