"""Tags of tokens and the spans they mark (Ramshaw and Marcus 1995): B begins a span, I goes on, O lies outside. An I
that has nothing to go on from begins a span, as `conlleval`, seqeval and the pipelines of `transformers` read it, so
every sequence of tags is a valid one.
"""

import re
from collections.abc import Iterable

OUTSIDE = ("O", "-", "_")
"""How data sets write that a token is outside."""
PREFIXED = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
SUFFIXED = re.compile(r"(.+)_([BI])", re.DOTALL)

Tag = tuple[bool, str | None]
"""Whether a span begins here at any rate, and its type (None: outside)."""


def parse_tag(tag: str) -> Tag:
    """`B-PER`, `I-PER` (IOBES, BILOU: S and U as B, E and L as I), `PER_B`, `PER_I` (Naver), O; else a type: equal
    neighbours are one."""
    if tag in OUTSIDE:
        return False, None
    if before := PREFIXED.fullmatch(tag):
        return before[1] in "BSU", before[2]
    if behind := SUFFIXED.fullmatch(tag):
        return behind[2] == "B", behind[1]
    return False, tag


def spans(tags: Iterable[Tag]) -> list[tuple[int, int, str]]:
    """(first, last + 1, type) of every span, counted in tokens."""
    found: list[tuple[int, int, str]] = []
    last: str | None = None
    for number, (begins, kind) in enumerate(tags):
        if kind is not None and (begins or kind != last):
            found.append((number, number + 1, kind))
        elif kind is not None:
            found[-1] = (found[-1][0], number + 1, kind)
        last = kind
    return found
