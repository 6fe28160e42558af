"""A progress bar for the current job of a run, on a terminal."""

import os
import sys
import time
from collections.abc import Callable
from typing import Self

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kobert_pipeline.progress import Progress
from kobert_pipeline.runs.progress_lines import TITLE_WIDTH, ProgressLines, shorten

BAR_WIDTH, SMALLEST_BAR = 30, 6
"""Columns of the bar: as many as are free."""
REFRESHES_PER_SECOND = 4


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
        self.progress = Progress("")

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, markup=False)

    def row(self) -> Table | Text:
        """The bar, which fits the terminal."""
        with self.lock:
            if not self.title:
                return Text()
            # the last column stays free: some terminals wrap as soon as it is written
            width = self.console.width - 1
            activity = f" {self.progress.activity}" if self.progress.activity else ""
            name = f"{self.number}/{self.jobs} {shorten(self.title, TITLE_WIDTH)}"
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
