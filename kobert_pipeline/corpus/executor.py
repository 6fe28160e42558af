"""The contract of an executor: where the tasks of a corpus phase run (this machine, Ray, Slurm).

The number of tasks and what each one does depend on the data alone, so every executor gives the same documents, and the
executor is not part of a fingerprint. All are executors of datatrove, which marks a finished task and does not run it
again.
"""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.errors import UserError

Task = Callable[[Any, int, int], Any]
"""A step of datatrove: (what the step before yields, rank, number of tasks) -> what it yields, or nothing. It is
pickled."""


class Executor(Plugin):
    """Runs the tasks of a phase."""

    family: ClassVar[str] = "executors"

    @abstractmethod
    def build(self, steps: list[Task], tasks: int, logs: Path) -> Any:
        """A datatrove executor for `tasks` tasks of `steps`, whose marks lie in `logs`."""

    def sized(self, num_workers: int | None, size: int) -> Self:
        """The executor for an input of `size` bytes, with `num_workers` of the command line where it can use them."""
        return self

    def wait(self, executor: Any) -> None:
        """Return when the tasks of `executor` have ended, well or not."""

    def run(self, steps: list[Task], tasks: int, logs: Path) -> None:
        """Run what has no mark yet. Raises the UserError that a task raised, or RuntimeError naming the log of one that
        failed."""
        from kobert_pipeline.corpus.local_executor import silence

        with silence():
            executor = self.build([ErrorReporter(step, logs) for step in steps], tasks, logs)
            executor.run()
            self.wait(executor)
        for rank in executor.get_incomplete_ranks():
            complaint = _complaint(logs, rank)
            if complaint.is_file():
                raise UserError(complaint.read_text(encoding="utf-8"))
            raise RuntimeError(f"task {rank} of {tasks} did not finish; see {logs / 'logs' / f'task_{rank:05d}.log'}")


class ErrorReporter:
    """A step whose UserError is written down before it is raised, since not every executor brings exceptions back."""

    def __init__(self, step: Task, logs: Path) -> None:
        self.step, self.logs = step, logs

    def __repr__(self) -> str:
        return type(self.step).__name__

    def __call__(self, data: Any, rank: int, tasks: int) -> Any:
        """Run the step."""
        _complaint(self.logs, rank).unlink(missing_ok=True)
        try:
            yield from self.step(data, rank, tasks) or ()
        except UserError as error:
            _complaint(self.logs, rank).parent.mkdir(parents=True, exist_ok=True)
            _complaint(self.logs, rank).write_text(str(error), encoding="utf-8")
            raise


def _complaint(logs: Path, rank: int) -> Path:
    return logs / "complaints" / f"{rank:06d}.txt"
