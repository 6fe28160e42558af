"""How far a run is: stages call `report` or `track`, and the display that the command chose shows it.

Without a display nothing is shown: worker processes, ranks other than 0 and the tests of a stage stay silent.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Progress:
    """What a stage is doing now, and how much of it is done."""

    activity: str
    """One of the stage's activities: `cleaning`."""
    done: float = 0
    total: float | None = None
    """How much there is to do; None where nobody knows."""
    unit: str = ""
    """What is counted, in the plural: `documents`."""
    speed: str = ""
    """A speed that the stage measured itself (`1,653 tokens/s`); default: `unit` per second."""
    notes: tuple[str, ...] = ()
    """Anything else worth showing, the most important first: `loss 6.94`."""
    is_last: bool = False
    """Whether the job is nearly done after this activity, so that its time left is the job's."""


class Display:
    """Shows what a run does. This one prints each line, and no progress."""

    def begin(self, title: str, position: int, jobs: int) -> None:
        """The job `title` is next, at `position` (from 1) of `jobs`. Its inputs are checked, which may take long."""
        self.job = f"{title}  ({position} of {jobs})"

    def start(self) -> None:
        """The job was not finished before, and runs now."""
        self.say(f"running  {self.job}")

    def expect(self, seconds: dict[str, float]) -> None:
        """About how long the jobs of the run will take, by their titles, in their order."""

    def say(self, line: str) -> None:
        """A line that stays on the screen."""
        print(line, file=sys.stderr)

    def report(self, progress: Progress) -> None:
        """The current job is this far. May be called often, and from any thread."""


# a global, not a ContextVar: threads report, too, such as the corpus stage's watcher, and would not see it
_display = Display()


def current_display() -> Display:
    """The display of this process."""
    return _display


@contextmanager
def shown_on(display: Display) -> Iterator[None]:
    """Use `display` in this context."""
    global _display
    before, _display = _display, display
    try:
        yield
    finally:
        _display = before


def report(
    activity: str,
    done: float = 0,
    total: float | None = None,
    unit: str = "",
    speed: str = "",
    notes: tuple[str, ...] = (),
    is_last: bool = False,
) -> None:
    """Report to the display; the arguments are the fields of `Progress`."""
    _display.report(Progress(activity, done, total, unit, speed, notes, is_last))


def track(items: Iterable[Item], activity: str, total: float | None, unit: str, done: int = 0) -> Iterator[Item]:
    """The items, reported one by one as they are consumed. `done`: how many an interrupted run has finished before."""
    report(activity, done, total, unit)
    for count, item in enumerate(items, done + 1):
        yield item
        report(activity, count, total, unit)


def dropped_documents(counts: dict[str, Any]) -> str:
    """Why documents of a corpus were dropped, by its counts: ` (dropped: 3 not korean, 12 short)`; "" for none."""
    prefix = "documents_dropped_"
    dropped = {name.removeprefix(prefix): count for name, count in counts.items() if name.startswith(prefix)}
    reasons = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in sorted(dropped.items()))
    return f" (dropped: {reasons})" if reasons else ""


def by_source_text(counts: dict[str, Any]) -> str:
    """How well a pretrained model predicts texts of each source, by its counts: `perplexity per character law.txt 40.12
    -> 31.02, general.txt 20.30 -> 20.91`; "" where there is one source, and that of all texts for too many. With a head
    that was learned anew the values before mean nothing: those after stand alone, also of one source."""
    has_new_head, many = bool(counts.get("new_head")), counts.get("held_out_sources")
    sources = counts.get("held_out_by_source", {})
    if not sources and (has_new_head or many):
        sources = {"": {when: perplexity(counts.get(f"held_out_{when}", {})) for when in ("before", "after")}}
    listed = [
        " ".join(filter(None, [name, "" if has_new_head else f"{values['before']:.2f} ->", f"{values['after']:.2f}"]))
        for name, values in sources.items()
        if values["after"] is not None
    ]
    of_all = f" (of all held-out texts, as they are from {many:,} sources)" if many else ""
    when = " after training" if has_new_head else ""
    return f"perplexity per character{when} {', '.join(listed)}{of_all}" if listed else ""


def perplexity(values: dict[str, float]) -> float | None:
    """The perplexity per character among the values of an evaluation, whatever was predicted; None where there is
    none."""
    return next((value for name, value in values.items() if name.endswith("perplexity_per_character")), None)


def new_head_text(counts: dict[str, Any]) -> str:
    """Which head a pretraining had to learn anew, by its counts: `MLM head learned anew: loss 9.97 before the first
    step, a uniform guess has 10.37`; "" for none."""
    head = counts.get("new_head")
    if not head:
        return ""
    return (
        f"{head['heads']} learned anew: loss {head['loss']:.2f} before the first step, a uniform guess has "
        f"{head['uniform_loss']:.2f}"
    )
