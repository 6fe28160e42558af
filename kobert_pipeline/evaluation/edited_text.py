"""A text after noise, with a way from the characters of the original to those of the noisy one, so that answers can
follow."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class EditedText:
    """`text`, and for each of the N characters of the original where it lies in it: from `begins[i]` to `ends[i]`
    (exclusive). A character that was dropped lies nowhere (both are equal); those whose jamo went into one syllable
    share it."""

    text: str
    begins: list[int]
    ends: list[int]

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str]]) -> "EditedText":
        """From what becomes of each character, and what is put behind it and belongs to none."""
        text, begins, ends = [], [], []
        place = 0
        for kept, behind in parts:
            begins.append(place)
            ends.append(place + len(kept))
            text.append(kept + behind)
            place += len(kept) + len(behind)
        return cls("".join(text), begins, ends)

    @classmethod
    def unchanged(cls, text: str) -> "EditedText":
        """No noise."""
        return cls(text, list(range(len(text))), list(range(1, len(text) + 1)))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the original's characters `start` to `end` lie now. Of an empty span, the place where it stood."""
        if start >= end:
            place = self.begins[start] if start < len(self.begins) else len(self.text)
            return place, place
        return self.begins[start], max(self.ends[end - 1], self.begins[start])
