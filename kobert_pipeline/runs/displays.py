"""How far a run is: a bar on a terminal, and plain lines for anything else, such as a pipe, CI, a log, a notebook."""

import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Self

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.live import Live
from rich.progress import Progress as Speedometer
from rich.progress import Task, TaskID
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kobert_pipeline.progress import Display, Progress

SECONDS_PER_LINE = 10.0
"""A line of progress is printed exactly that often: no stage is silent for longer, and none floods a log."""
WIDTH = 100
"""Columns of the longest line."""
TITLE_WIDTH = 32
BAR_WIDTH, SMALLEST_BAR = 30, 6
"""Columns of the bar: as many as are free."""
REFRESHES_PER_SECOND = 4
SECONDS_PER_UPDATE = 0.1
"""The progress of an activity is taken over that often at most; some stages report thousands of times per second."""
SPEED_WINDOW = 600.0
"""Seconds over which a speed is averaged, or the last 1,000 updates if those are fewer: steps may take minutes."""


class ProgressLines(Display):
    """Prints where the current job is every ten seconds, from a thread, so that a job that reports nothing shows its
    time. `clock()` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        # taken now: the corpus stage replaces sys.stderr while its tasks run
        # reentrant, since `print_if_due` and `start` print while they hold the lock
        self.stream, self.clock, self.lock, self.ended = sys.stderr, clock, threading.RLock(), threading.Event()
        # rich measures speed and time left; it is never started, so it draws nothing
        self.speedometer = Speedometer(get_time=clock, speed_estimate_period=SPEED_WINDOW, auto_refresh=False)
        self.tasks: dict[str, TaskID] = {}
        self.title, self.position, self.jobs = "", 0, 0
        self.progress = Progress("")
        self.job_began = self.printed = self.updated = clock()
        self.expected: dict[str, float] = {}
        # seconds of the jobs that this run has done, and what was expected of them
        self.spent = self.spent_expected = 0.0
        self.is_running = False
        self.final_activity: str | None = None
        """The activity of the current job after which it is nearly done, once it has begun."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._print_until_ended, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.ended.set()

    def begin(self, title: str, position: int, jobs: int) -> None:
        """Start the clock of a job."""
        with self.lock:
            super().begin(title, position, jobs)
            expected = self.expected.pop(self.title, 0.0)
            if self.is_running:  # one that was finished before, or reused, says nothing about this machine
                self.spent, self.spent_expected = self.spent + self._elapsed(), self.spent_expected + expected
            self.is_running = False
            for task in self.tasks.values():
                self.speedometer.remove_task(task)
            self.tasks.clear()
            self.title, self.position, self.jobs = title, position, jobs
            self.progress, self.job_began, self.final_activity = Progress("checking inputs"), self.clock(), None

    def start(self) -> None:
        """Print the job's name."""
        with self.lock:
            self.progress, self.is_running = Progress(""), True
            super().start()

    def expect(self, seconds: dict[str, float]) -> None:
        """Show the time left of the run from now on."""
        self.expected = dict(seconds)

    def say(self, line: str) -> None:
        """Print a line, broken where it is longer than `WIDTH`."""
        with self.lock:
            for part in textwrap.wrap(line, WIDTH, subsequent_indent=" " * 9, break_on_hyphens=False) or [""]:
                print(part, file=self.stream, flush=True)
            self.printed = self.clock()

    def report(self, progress: Progress) -> None:
        """Keep the progress for the next line."""
        with self.lock:
            now, last = self.clock(), self.progress
            continues = progress.activity == last.activity and last.done <= progress.done != progress.total
            if continues and now - self.updated < SECONDS_PER_UPDATE:
                return
            self.progress, self.updated = progress, now
            if progress.is_last:
                self.final_activity = progress.activity
            task = self._task(progress.activity)
            if task is None or progress.done < task.completed or progress.total != task.total:
                # a new activity, or one that begins again, as each evaluation does
                if task is not None:
                    self.speedometer.remove_task(task.id)
                self.tasks[progress.activity] = self.speedometer.add_task(progress.activity, total=progress.total)
                # what an interrupted run did before has no speed
                self.speedometer.tasks[-1].completed = progress.done
            else:
                self.speedometer.update(task.id, completed=progress.done)

    def print_if_due(self) -> None:
        """Print where the job is, unless a line was printed within the last ten seconds."""
        with self.lock:
            if self.title and self.clock() - self.printed >= SECONDS_PER_LINE:
                self.say(self.line(WIDTH))

    def line(self, width: int) -> str:
        """Where the current job is, in at most `width` columns."""
        title = shorten(self.title, TITLE_WIDTH) + (f": {self.progress.activity}" if self.progress.activity else "")
        return f"{title}  {', '.join(self.facts(width - cell_len(title) - 2, ', '))}"

    def facts(self, width: int, separator: str) -> list[str]:
        """What is known about the current activity, in at most `width` columns when joined: the amount done, the time
        left of it and of the run, the speed and the stage's notes. What does not fit is left out, notes first; large
        numbers are shortened before that (16.0M)."""
        notes, task = list(self.progress.notes), self._task(self.progress.activity)
        elapsed = f"{clock_time(self._elapsed())} so far{self._run_left(task)}"
        if task is None or not self.progress.unit:
            return [elapsed]
        for short in (False, True):
            left = [f"{time}{self._run_left(task)}" for time in time_left(task)] or [elapsed]
            facts = [amount(self.progress, short), *self._speed(task, short), *left]
            if cell_len(separator.join(facts)) <= width:
                break
        while notes and cell_len(separator.join([*facts, *notes])) > width:
            # beside the time left of the run, the loss says more than the speed
            if len(notes) == 1 and len(facts) > 2 and self._run_left(task):
                del facts[1]
            else:
                notes.pop()
        while facts[1:] and cell_len(separator.join(facts)) > width:
            del facts[1]
        return facts + notes

    def _elapsed(self) -> float:
        return self.clock() - self.job_began

    def _run_left(self, task: Task | None) -> str:
        """The time left of the run, ` (run 1:05:00 left)`; nothing where it is not known, and for the last job."""
        to_come = sum(seconds for title, seconds in self.expected.items() if title != self.title)
        if self.title not in self.expected or not to_come:
            return ""
        # what was spent on jobs so far counts as much as they are of the run: a small one says little about others
        scale = (self.spent + to_come) / (self.spent_expected + to_come)
        in_job = scale * self.expected[self.title]
        of_activity = (task and task.time_remaining) or 0.0
        final = self._task(self.final_activity) if self.final_activity else None
        of_final = None if final is None else 0.0 if final.completed == final.total else final.time_remaining
        if of_final is None:  # it did not start, or its speed is not known yet
            of_job = max(of_activity, in_job - self._elapsed())
        else:  # measured, unlike what was expected; evaluations during a training and scores after it come on top
            of_job = of_final + (0.0 if task is final else of_activity)
        return f" (run {clock_time(of_job + scale * to_come)} left)"

    def _speed(self, task: Task, short: bool) -> list[str]:
        if self.progress.speed:
            return [self.progress.speed]
        if not task.speed or self.progress.done == self.progress.total:
            return []
        return [f"{number(task.speed, short)} {self.progress.unit}/s"]

    def _task(self, activity: str) -> Task | None:
        known = self.tasks.get(activity)
        return None if known is None else next(task for task in self.speedometer.tasks if task.id == known)

    def _print_until_ended(self) -> None:
        # not 0: before the first job a line may be due for long, and nothing is printed
        while not self.ended.wait(max(0.01, self.printed + SECONDS_PER_LINE - self.clock())):
            self.print_if_due()


class TerminalProgress(ProgressLines):
    """Draws one line below everything that is printed: which job of how many, a bar, and the facts of a plain line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self.console = Console(file=self.stream, highlight=False)
        # what others print appears above the bar; standard output only if it is not a file or a pipe
        self.live = Live(
            console=self.console, get_renderable=self.row, refresh_per_second=REFRESHES_PER_SECOND, transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )  # fmt: skip

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.live.stop()

    def start(self) -> None:
        """Print nothing: the bar has the job's name."""
        self.progress, self.is_running = Progress(""), True

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, markup=False)

    def row(self) -> Table | Text:
        """The bar, which fits the terminal."""
        with self.lock:  # rich draws from a thread of its own
            if not self.title:
                return Text()
            # the last column stays free: some terminals wrap as soon as it is written
            width = self.console.width - 1
            activity = f" {self.progress.activity}" if self.progress.activity else ""
            name = f"{self.position}/{self.jobs} {shorten(self.title, TITLE_WIDTH)}"
            room = width - SMALLEST_BAR - 4  # two spaces between the three columns
            facts = "  ".join(self.facts(room - cell_len(name), "  "))
            # the loss matters more than that it is a training
            if cell_len(name + activity + facts) <= room:
                name += activity
            name = shorten(name, max(room - cell_len(facts), 8))
            bar = min(BAR_WIDTH, width - 4 - cell_len(name) - cell_len(facts))
            task = self._task(self.progress.activity)
            row = Table.grid(padding=(0, 2, 0, 0))
            cells: list[Text | ProgressBar] = [Text(name, no_wrap=True), Text(facts, no_wrap=True)]
            if bar >= SMALLEST_BAR:
                total = task.total if task else None
                pulse = total is None
                cells.insert(1, ProgressBar(total or 1, self.progress.done, bar, pulse, animation_time=self.clock()))
            row.add_row(*cells)
            return row


def progress_display() -> ProgressLines:
    """A bar where standard error is a terminal that can draw one, elsewhere plain lines."""
    dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown") or os.environ.get("CI")
    return ProgressLines() if dumb or not sys.stderr.isatty() else TerminalProgress()


def amount(progress: Progress, short: bool) -> str:
    """`21/82 documents`, or `21 documents` where the total is not known."""
    total = "" if progress.total is None else f"/{number(progress.total, short)}"
    return f"{number(progress.done, short)}{total} {progress.unit}"


def time_left(task: Task) -> list[str]:
    """`0:12 left`, or nothing while that is not known and when nothing is left."""
    seconds = task.time_remaining
    return [f"{clock_time(seconds)} left"] if seconds and task.speed else []


def number(value: float, short: bool) -> str:
    """12,345 or short 12.3k; below ten with a decimal, unless it is whole."""
    if value < 10 and value != int(value):
        return f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"
    if short:
        for power, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
            if value >= power:
                return f"{value / (1e3 if letter == 'k' else power):.3g}{letter}"
    return f"{value:,.0f}"


def clock_time(seconds: float) -> str:
    """Seconds as minutes and seconds, or as hours, minutes and seconds: `0:12`, `1:02:03`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def shorten(text: str, width: int) -> str:
    """`text`, without its middle where it has more than `width` columns: names of a run differ at their ends."""
    if cell_len(text) <= width:
        return text
    half = (width - 1) // 2
    # reversed, since `chop_cells` cuts from the left; by cells, of which a syllable has two
    end = chop_cells(text[::-1], half)[0][::-1]
    return f"{chop_cells(text, width - 1 - half)[0]}…{end}"
