"""The interface of executors, which run the tasks of a corpus phase, or the parts of the analysis, the shards and the
features, on this machine, on Ray or on Slurm.

The number of tasks and the work of each depend only on the data, so every executor gives the same documents and the
executor is not part of a fingerprint. All of them are datatrove executors, which mark finished tasks and skip them when
run again.
"""

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import remove_tree
from kobert_pipeline.progress import report

Step = Callable[[Any, int, int], Any]
"""A datatrove pipeline step: (output of the step before, rank, number of tasks) -> an iterable, or None. It must be
picklable."""


TASK_LOGS = "logs/tasks"
"""Folder of the logs and completion marks of `run_parts`, in the folder of a stage."""
SECONDS_PER_LOOK = 1.0
"""How often the tasks that have finished are counted, for the progress."""


class Executor(Plugin):
    """Runs tasks. Subclasses implement `build`."""

    family: ClassVar[str] = "executors"

    @abstractmethod
    def build(self, steps: list["ErrorReporter"], tasks: int, logs: Path) -> Any:
        """A datatrove executor that runs `steps` in `tasks` tasks and keeps its completion marks in `logs`."""

    def for_input(self, num_workers: int | None, size: int) -> Self:
        """The executor configured for `size` bytes of input and the command line's `num_workers`, where it uses
        them."""
        return self

    def wait(self, executor: Any) -> None:
        """Block until the tasks of `executor` have finished or failed, where `run` of datatrove only submits them."""

    def run(
        self, steps: list[Step], sizes: Sequence[int], logs: Path, activity: str = "running", unit: str = "tasks"
    ) -> None:
        """Run the tasks that have not finished yet, one per size: how many `unit` each has, for the progress. Raises
        the UserError that a task raised, or RuntimeError with the log file of a task that failed."""
        tasks = len(sizes)
        # here, because it imports datatrove, which takes half a second, and every command imports this file
        from kobert_pipeline.corpus.local_executor import silence

        with silence():
            executor = self.build([ErrorReporter(step, logs) for step in steps], tasks, logs)
            with finished_tasks_reported(executor, sizes, activity, unit):
                executor.run()
                self.wait(executor)
        # a task on Ray or Slurm may fail without an exception here, but then it has no completion mark
        for rank in executor.get_incomplete_ranks():
            error_file = _error_file(logs, rank)
            if error_file.is_file():
                raise UserError(error_file.read_text(encoding="utf-8"))
            raise RuntimeError(f"task {rank} of {tasks} did not finish; see {logs / 'logs' / f'task_{rank:05d}.log'}")

    def run_parts(self, step: Step, sizes: Sequence[int], out: Path, activity: str, unit: str = "documents") -> None:
        """Run a step once for each part of a stage that writes to `out`, with the number of its `unit` in `sizes`.
        The step must skip a part that its own mark says is finished. Raises what `run` raises."""
        # a part that is missing is made again whatever the executor remembers of it
        remove_tree(out, [f"{TASK_LOGS}/**"])
        self.run([step], sizes, out / TASK_LOGS, activity, unit)


@contextmanager
def finished_tasks_reported(executor: Any, sizes: Sequence[int], activity: str, unit: str) -> Iterator[None]:
    """Report the progress in this context, from a thread: every executor runs until all tasks have finished, and says
    by its completion marks alone which have."""
    ended = threading.Event()

    def look() -> None:
        left = sum(sizes[rank] for rank in executor.get_incomplete_ranks())
        report(activity, sum(sizes) - left, sum(sizes), unit)

    def watch() -> None:
        while not ended.wait(SECONDS_PER_LOOK):
            look()

    look()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
        look()
    finally:
        ended.set()
        watcher.join()


class ErrorReporter:
    """Wraps a step and writes its UserError to a file, since tasks on Ray or Slurm do not pass exceptions back."""

    def __init__(self, step: Step, logs: Path) -> None:
        self.step, self.logs = step, logs

    def __repr__(self) -> str:
        return type(self.step).__name__  # datatrove's logs name the step by this

    @property
    def stage(self) -> str:
        """The stage whose package the step is in."""
        return type(self.step).__module__.split(".")[1]

    def __call__(self, data: Any, rank: int, tasks: int) -> Any:
        """Run the step."""
        # an error of an earlier run must not be reported for this one
        _error_file(self.logs, rank).unlink(missing_ok=True)
        try:
            # steps that only write files return None
            yield from self.step(data, rank, tasks) or ()
        except UserError as error:
            _error_file(self.logs, rank).parent.mkdir(parents=True, exist_ok=True)
            _error_file(self.logs, rank).write_text(str(error), encoding="utf-8")
            raise


def _error_file(logs: Path, rank: int) -> Path:
    return logs / "complaints" / f"{rank:06d}.txt"
