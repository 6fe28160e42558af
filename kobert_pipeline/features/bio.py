"""BIO tags and the spans they mark (Ramshaw and Marcus 1995): B begins a span, I continues it, O is outside. An I that
does not continue a span begins one, as in `conlleval`, seqeval and the pipelines of `transformers`, so every sequence
of tags is valid.
"""

import re
from collections.abc import Iterable

OUTSIDE = ("O", "-", "_")
"""How data sets write the tag of a token outside all spans."""
PREFIXED = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
SUFFIXED = re.compile(r"(.+)_([BI])", re.DOTALL)

Tag = tuple[bool, str | None]
"""(whether a span begins here even after one of the same type, type); type None is outside."""


def parse_tag(tag: str) -> Tag:
    """Parse `B-PER`, `I-PER`, the same in IOBES and BILOU (S and U mean B, E and L mean I), `PER_B`, `PER_I` (Naver)
    and O. Any other tag is a type, whose equal neighbours are one span."""
    if tag in OUTSIDE:
        return False, None
    # in IOBES and BILOU an I never follows E, L, S or U, so the end of a span needs no mark of its own here
    if match := PREFIXED.fullmatch(tag):
        return match[1] in "BSU", match[2]
    if match := SUFFIXED.fullmatch(tag):
        return match[2] == "B", match[1]
    return False, tag


def spans(tags: Iterable[Tag]) -> list[tuple[int, int, str]]:
    """(first, last + 1, type) of every span, in tokens."""
    result: list[tuple[int, int, str]] = []
    previous: str | None = None
    # B-X I-X I-X O B-X -> (0, 3, X), (4, 5, X)
    for number, (begins, kind) in enumerate(tags):
        if kind is not None and (begins or kind != previous):
            result.append((number, number + 1, kind))
        elif kind is not None:
            result[-1] = (result[-1][0], number + 1, kind)
        previous = kind
    return result
