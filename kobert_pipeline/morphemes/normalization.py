# SPDX-License-Identifier: Apache-2.0
"""NFC and lone surrogates, with offsets that still count characters of the string as given.

Analyzers only ever see NFC: in decomposed text (NFD) Kiwi takes every eojeol for one noun.
"""

import unicodedata
from collections.abc import Sequence

REPLACEMENT = "\ufffd"
MAX_CLUSTER_CHARACTERS = 30
"""No script stacks more combining marks (Unicode's Stream-Safe Text Format, UAX #15)."""


def replace_surrogates(text: str) -> str:
    """`text` with every lone surrogate, which UTF-8 cannot encode, replaced by U+FFFD; the length stays the same."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(REPLACEMENT if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def nfc_with_offsets(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """`text` in NFC, and for each of its N characters where it starts and ends (exclusive) in `text`.

    Where a cluster of characters composes to fewer, its last characters keep one place each, and the first one covers
    the rest.
    """
    if unicodedata.is_normalized("NFC", text):
        # ranges, not lists: nearly all text is NFC, and `fast_encoding` takes a shortcut for a range
        return text, range(len(text)), range(1, len(text) + 1)
    parts: list[str] = []
    starts: list[int] = []
    start = 0
    while start < len(text):
        end = cluster_end(text, start)
        part = unicodedata.normalize("NFC", text[start:end])
        parts.append(part)
        tail = len(part) - 1
        if tail > end - start - 1:
            # NFC can lengthen a cluster (characters that are excluded from composition): the surplus gets empty spans
            starts += [min(start + i, end) for i in range(len(part))]
        else:
            starts += [start, *range(end - tail, end)]
        start = end
    return "".join(parts), starts, [*starts[1:], len(text)]


def cluster_end(text: str, start: int) -> int:
    """The end of the run of characters that may compose with the one at `start`."""
    # white space composes with nothing: a mark after it would get no token
    if text[start].isspace():
        return start + 1
    end = start + 1
    # bounded, since NFC sorts the marks of a cluster in quadratic time
    while end < min(len(text), start + MAX_CLUSTER_CHARACTERS) and _may_compose(text[end]):
        end += 1
    return end


def _may_compose(character: str) -> bool:
    """Whether `character` may compose with the one before it: combining marks, conjoining vowels and final
    consonants."""
    return character >= "\u0300" and (
        unicodedata.combining(character) != 0
        or "\u1160" <= character <= "\u11ff"
        or unicodedata.category(character) in ("Mn", "Mc")
    )
