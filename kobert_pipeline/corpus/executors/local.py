"""The executor of this machine's processes. Free of datatrove imports: every command lists the executors, see
`local_executor`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from kobert_pipeline.corpus.executor import ErrorReporter, Executor, Step
from kobert_pipeline.progress import report

SMALL = 20_000_000
"""Bytes of input below which starting more processes takes longer than the work."""


class Local(Executor):
    """Processes on this machine."""

    name: Literal["local"] = "local"
    workers: int | None = Field(None, gt=0)
    """Number of processes; default: one per core, or a single one for less than 20 MB of input."""

    def for_input(self, num_workers: int | None, size: int) -> Self:
        """The executor with a number of workers: from the recipe, else the command line, else by the size."""
        default = 1 if size < SMALL else os.cpu_count() or 1
        return self.model_copy(update={"workers": self.workers or num_workers or default})

    def run_parts(self, step: Step, sizes: Sequence[int], out: Path, activity: str, unit: str = "documents") -> None:
        """As every executor does; in this process where one is enough."""
        if (self.workers or 1) > 1 and len(sizes) > 1:
            super().run_parts(step, sizes, out, activity, unit)
            return
        for rank in range(len(sizes)):
            report(activity, sum(sizes[:rank]), sum(sizes), unit)
            step(None, rank, len(sizes))
        report(activity, sum(sizes), sum(sizes), unit)

    def build(self, steps: list[ErrorReporter], tasks: int, logs: Path) -> Any:
        """A QuietExecutor."""
        from kobert_pipeline.corpus.local_executor import QuietExecutor

        return QuietExecutor(steps, tasks=tasks, workers=min(self.workers or 1, tasks), logging_dir=str(logs))


HERE = Local()
"""Where the parts of a stage are worked on if nothing else is said."""
