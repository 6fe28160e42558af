"""Morphemes of a text with their tags, and runs of them: those that no space and no other morpheme separates."""

from collections.abc import Iterable
from typing import NamedTuple


class TaggedMorpheme(NamedTuple):
    """A morpheme of a text: its form and tag, and its characters `start` to `end` (exclusive)."""

    form: str
    tag: str
    start: int
    end: int


def runs_of(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The (start, end) of each run of places in a text, which come in order; those that touch or overlap are one."""
    runs: list[tuple[int, int]] = []
    for start, end in places:
        if runs and runs[-1][1] >= start:
            runs[-1] = (runs[-1][0], max(runs[-1][1], end))
        else:
            runs.append((start, end))
    return runs
