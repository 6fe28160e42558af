"""Unreadable input, a whole file or one row: raised as an error, or skipped, counted by reason and listed."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kobert_pipeline.errors import UserError

Item = TypeVar("Item")
LISTED = 100
"""Unfit files and rows that a manifest lists by name; the counts include all of them."""


class Unfit(UserError):
    """A file or row that cannot be read. A reader raises it when the rest of the file is unreadable, and yields it in
    place of a row when it can continue. `reason` is the word by which it is counted."""

    def __init__(self, reason: str, sentence: str) -> None:
        # an exception is rebuilt by calling its class with `args`
        super().__init__(reason, sentence)  # both, so that it can be pickled on its way back from a worker
        self.reason, self.sentence = reason, sentence

    def __str__(self) -> str:
        return self.sentence

    def refused(self) -> "Unfit":
        """The same error, with advice on how to skip it."""
        return Unfit(self.reason, f"{self.sentence}; fix that, or leave out what is unfit: on_error: skip")


def only_blank_lines(path: Path) -> Unfit:
    """The error for a file that holds nothing but white space."""
    return Unfit("empty", f"{path} has only blank lines; there is nothing to read in it")


def nothing_readable(source: str, first_problem: str) -> str:
    """The sentence about a source of which everything was skipped."""
    return (
        f"corpus.sources: nothing of {source} could be read, all of it was skipped; the first problem: {first_problem}"
    )


def strict(items: "Iterable[Item | Unfit]") -> Iterator[Item]:
    """The items. Raises the first one that is Unfit."""
    for item in items:
        if isinstance(item, Unfit):
            raise item
        yield item


def set_aside(items: "Iterable[Item | Unfit]", unfit: list[Unfit]) -> Iterator[Item]:
    """The readable items; the others are appended to `unfit`."""
    for item in items:
        if isinstance(item, Unfit):
            unfit.append(item)
        else:
            yield item


@dataclass
class Skipped:
    """What was skipped: counts by reason, and the first `LISTED` sentences."""

    counts: Counter[str] = field(default_factory=Counter)
    listed: list[str] = field(default_factory=list)

    def note(self, what: str, problem: Unfit) -> None:
        """Count a problem as `what` (such as rows_skipped), in total and by its reason."""
        self.counts.update([what, f"{what}_{problem.reason}"])
        if len(self.listed) < LISTED:
            self.listed.append(str(problem))
