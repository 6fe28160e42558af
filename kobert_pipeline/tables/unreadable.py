"""A row of a user's file with its location, the error in place of an unreadable one, and one error for all of them.

Parsers yield an `UnreadableInput` in place of each row that cannot be read, and raise one where the rest of the file
cannot be. `tried` does the same for rows whose content is wrong. Whoever may skip them does (`corpus`); everybody else
reads through `readable`, which raises one error about all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kobert_pipeline.errors import UserError, UserErrors

T = TypeVar("T")
LISTED = 20
"""Bad rows of a file that are named, each by a sentence in `kobert check` and by its location in the one sentence."""
MAX_PROBLEMS = 1000
"""Bad rows after which a file is not read on: it is of another form."""


class Location(NamedTuple):
    """Where something is in a file: `train.tsv, line 3`."""

    path: Path
    unit: str
    """What is counted: line, row, entry or question."""
    value: int | str
    """The number of the unit, from 1, or the id of a question."""
    note: str = ""

    @property
    def inside(self) -> str:
        """The location without the file: `line 3`."""
        return f"{self.unit} {self.value}{self.note}"

    def __str__(self) -> str:
        return f"{self.path}, {self.inside}"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, an object of JSON, or a question in SQuAD form.

    `cells` are its values by column name, text or any value of JSON and Parquet. `index` is 1 for the first row below
    the column names, and counts blank rows as a spreadsheet does; 0 in SQuAD form, whose questions have ids.
    `class_names` are the names that a Parquet file of `datasets` has for the numbers of a column.
    """

    cells: dict[str, Any]
    location: Location
    index: int
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)


class UnreadableInput(UserError):
    """A file, or a row at a location, that cannot be read. `reason` is the word by which the corpus counts it."""

    def __init__(self, reason: str, problem: str, location: Location | None = None) -> None:
        # an exception is rebuilt by calling its class with `args`
        super().__init__(reason, problem, location)  # all, so that it can be pickled on its way back from a worker
        self.reason, self.problem, self.location = reason, problem, location

    def __str__(self) -> str:
        return f"{self.location}: {self.problem}" if self.location else self.problem


def only_blank_lines(path: Path) -> UnreadableInput:
    """The error for a file that holds nothing but white space."""
    return UnreadableInput("empty", f"{path} has only blank lines; there is nothing to read in it")


def tried(
    rows: Iterable[Row | UnreadableInput], maker: Callable[[Row], Callable[[Row], T]]
) -> Iterator[T | UnreadableInput]:
    """What is made of each row, by the function that `maker` gives for the first one. A UserError about a row, whose
    message says what is wrong but not where, becomes an UnreadableInput with the row's location."""
    make: Callable[[Row], T] | None = None
    for row in rows:
        if isinstance(row, UnreadableInput):
            yield row
            continue
        make = make or maker(row)  # outside of `try`: what it refuses is the file
        try:
            result = make(row)
        except UnreadableInput as error:
            yield UnreadableInput(error.reason, error.problem, error.location or row.location)
        except UserError as error:
            yield UnreadableInput("refused", str(error), row.location)
        else:
            yield result


def readable(items: Iterable[T | UnreadableInput], advice: str = "") -> Iterator[T]:
    """The items up to the first bad one. At the end of the file raises one error for all bad ones, with their
    locations, so that they can be fixed together; `advice` is added to it."""
    problems = list[UnreadableInput]()
    try:
        for item in items:
            if isinstance(item, UnreadableInput):
                problems.append(item)
                if len(problems) == MAX_PROBLEMS:
                    break
            elif not problems:
                yield item
    except UnreadableInput as problem:  # what follows in the file cannot be read
        problems.append(problem)
    if problems:
        raise one_error(problems, advice)


def one_error(problems: list[UnreadableInput], advice: str = "") -> UserError:
    """One error for all problems of a file: the sentence about the first one, and where the others are."""
    first, *others = problems
    if not others:
        return UnreadableInput(first.reason, f"{first.problem}{advice}", first.location)
    locations = [problem.location.inside if problem.location else "the end of the file" for problem in others]
    at_least = "at least " if len(problems) >= MAX_PROBLEMS else ""
    sentences = [f"{problem}{advice}" for problem in problems[:LISTED]]
    if len(problems) > LISTED:
        path = first.location.path if first.location else "the file"
        count = f"{at_least}{len(problems) - LISTED:,}"
        sentences.append(f"{path}: {count} more rows are refused, the next at {locations[LISTED - 1]}")
    more = ", ".join(locations[:LISTED])
    if len(others) > LISTED:
        more += f" and {at_least}{len(others) - LISTED:,} more"
    return UserErrors(sentences, f" (also refused: {more})")
