"""A text after noise, with the position of each original character in it, so that answers can be found again."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class EditedText:
    """`text`, and for each of the N characters of the original its span in it, `starts[i]` to `ends[i]` (exclusive).

    The span of a removed character is empty. Characters whose jamo were typed into one syllable share its span.
    """

    text: str
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str]]) -> "EditedText":
        """Make an edited text from a pair for each original character: what it became, and what is inserted after
        it."""
        text, starts, ends = [], [], []
        length = 0
        for replacement, inserted in parts:
            starts.append(length)
            ends.append(length + len(replacement))
            text.append(replacement + inserted)
            length += len(replacement) + len(inserted)
        return cls("".join(text), starts, ends)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original's characters `start` to `end`; an empty span stays empty, at the same position."""
        if start >= end:
            position = self.starts[start] if start < len(self.starts) else len(self.text)
            return position, position
        return self.starts[start], max(self.ends[end - 1], self.starts[start])
