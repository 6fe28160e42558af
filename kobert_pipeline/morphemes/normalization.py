# SPDX-License-Identifier: Apache-2.0
"""Characters that have no token, NFC, and lone surrogates, with offsets that still count characters of the string as
given.

Analyzers only ever see NFC without invisible characters: in decomposed text (NFD) Kiwi takes every eojeol for one noun,
and a zero-width space inside a word splits it.
"""

import re
import unicodedata
from collections.abc import Sequence

INVISIBLE = (
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u180b-\u180f\u200b\u200c\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
"""A pattern of characters that have no token and are removed from corpora: control characters that are no white space,
soft hyphens, zero-width marks, marks of direction, byte order marks, variation selectors, which
choose how the character before is drawn (as text or as an emoji)."""
EMOJI = "[\u2190-\u2bff\U0001f000-\U0001faff]"
JOINER = f"\u200d(?:(?<!{EMOJI}\u200d)|(?!{EMOJI}))"
"""A pattern of zero-width joiners, which have no token either, except between two emoji, which they make one. It is for
text without `INVISIBLE` characters."""
# both patterns hold the characters themselves, not escapes, so that `tokenizers` reads them as `re` does
_PATTERNS = (re.compile(INVISIBLE), re.compile(JOINER))

REPLACEMENT = "\u200b"
"""An invisible character, so that half a character, which JSON may hold, has no token."""
MAX_CLUSTER_CHARACTERS = 30
"""No script stacks more combining marks (Unicode's Stream-Safe Text Format, UAX #15)."""
_REST = re.compile(f"[\u0300-\u036f\u1160-\u11ff\u3099\u309a]{{0,{MAX_CLUSTER_CHARACTERS - 1}}}")
"""What follows the first letter of a decomposed character: marks of Latin and of kana, vowels and final consonants."""


def replace_surrogates(text: str) -> str:
    """`text` with every lone surrogate, which UTF-8 cannot encode, replaced by `REPLACEMENT`; the length stays the
    same."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(REPLACEMENT if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def character_end(text: str, end: int) -> int:
    """The end of the character with its first letter before `end`: `tokenizers` composes a decomposed syllable, and
    gives it the position of that letter alone."""
    return _REST.match(text, end).end() if end else 0  # type: ignore[union-attr]


def remove_invisible(text: str) -> str:
    """`text` without invisible characters. What is left has none."""
    for pattern in _PATTERNS:
        text = pattern.sub("", text)
    return text


def nfc_with_offsets(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """`text` in NFC and without invisible characters, and for each of its N characters where it starts and ends
    (exclusive) in `text`.

    Where a cluster of characters composes to fewer, its last characters keep one place each, and the first one covers
    the rest.
    """
    visible = remove_invisible(text)
    if len(visible) == len(text):
        return _compose(text)
    composed, starts, ends = _compose(visible)
    # where each visible character is in `text`; NFC may give an empty span after the last one
    places = [*_visible_places(text), len(text)]
    firsts = [places[start] for start in starts]
    lasts = [places[end - 1] + 1 for end in ends]  # no cluster ends at 0
    # an empty span ends where it starts, not before invisible characters
    return composed, firsts, [max(span) for span in zip(firsts, lasts, strict=True)]


def _visible_places(text: str) -> Sequence[int]:
    places: Sequence[int] = range(len(text))
    for pattern in _PATTERNS:
        hidden = {match.start() for match in pattern.finditer(text)}
        places = [place for index, place in enumerate(places) if index not in hidden]
        text = pattern.sub("", text)
    return places


def _compose(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """As `nfc_with_offsets`, for a text without invisible characters."""
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
