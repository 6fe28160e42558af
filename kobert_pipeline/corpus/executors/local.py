"""Processes of this machine."""

import os
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from kobert_pipeline.corpus.executor import Executor, Task

SMALL = 20_000_000
"""Bytes of input that one process reads faster than several, which have to start first."""


class Local(Executor):
    """Processes of this machine."""

    name: Literal["local"] = "local"
    workers: int | None = Field(None, gt=0)
    """Processes; default: one per core, and one in all for less than 20 MB of input."""

    def sized(self, num_workers: int | None, size: int) -> Self:
        """One worker where it is not worth starting more."""
        workers = self.workers or num_workers or (1 if size < SMALL else os.cpu_count() or 1)
        return self.model_copy(update={"workers": workers})

    def build(self, steps: list[Task], tasks: int, logs: Path) -> Any:
        """A LocalPipelineExecutor."""
        from kobert_pipeline.corpus.local_executor import QuietExecutor

        return QuietExecutor(steps, tasks=tasks, workers=min(self.workers or 1, tasks), logging_dir=str(logs))
