"""The executor of Slurm: each phase is an array job, named after its stage. `kobert` submits it, waits for its tasks,
and submits the next one. Tested only with a fake `sbatch`, not on a cluster."""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kobert_pipeline.corpus.executor import ErrorReporter, Executor
from kobert_pipeline.errors import UserError

POLL_SECONDS = 10
"""Seconds between two queries of the tasks' state."""
FAILED_QUERIES = 60
"""Queries in a row that may fail, ten minutes of them: a controller that restarts answers again."""


class Slurm(Executor):
    """Slurm array jobs."""

    name: Literal["slurm"] = "slurm"
    partition: str
    """Partition to submit to."""
    time: str = "4:00:00"
    """Time limit of a task, as sbatch takes it."""
    workers: int = Field(-1, ge=-1)
    """Tasks that run at the same time; -1: no limit."""
    memory_gb: int = Field(4, gt=0)
    """Memory of a task, in GB."""
    sbatch_args: dict[str, str] = {}
    """Further options of sbatch, for example {account: abc}."""

    def build(self, steps: list[ErrorReporter], tasks: int, logs: Path) -> Any:
        """A SlurmPipelineExecutor. Raises UserError where this machine has no sbatch."""
        from datatrove.executor import SlurmPipelineExecutor

        if shutil.which("sbatch") is None:
            raise UserError(
                "corpus.executor slurm: there is no `sbatch` on this machine; run it on a login node, or choose "
                "executor: local"
            )
        return SlurmPipelineExecutor(
            steps,
            tasks=tasks,
            time=self.time,
            partition=self.partition,
            workers=self.workers,
            mem_per_cpu_gb=self.memory_gb,
            job_name=f"kobert-{steps[0].stage}",
            # datatrove's default, "normal", is not on every cluster
            qos="",
            # the job calls datatrove's launch_pickled_pipeline, which is next to this Python
            env_command=f'export PATH="{Path(sys.executable).parent}:$PATH"',
            sbatch_args=dict(self.sbatch_args),
            logging_dir=str(logs.resolve()),
        )

    def wait(self, executor: Any) -> None:
        """Block until every task has its completion mark, or squeue no longer lists the job. Raises UserError where
        squeue keeps failing."""
        failed = 0
        while executor.get_incomplete_ranks() and executor.job_id != -1:
            running = subprocess.run(
                ["squeue", "--noheader", "--jobs", str(executor.job_id)], capture_output=True, text=True, check=False
            )
            # a job that ended without all its marks has failed tasks, which `Executor.run` reports; Slurm forgets it
            # some minutes after its end
            is_unknown = "Invalid job id" in running.stderr
            if is_unknown or (not running.returncode and not running.stdout.strip()):
                return
            failed = failed + 1 if running.returncode else 0
            if failed == FAILED_QUERIES:
                raise UserError(
                    f"squeue does not say how job {executor.job_id} stands ({running.stderr.strip():.200}); the "
                    "job may still run: when Slurm answers again and it has ended, run the same command again"
                )
            time.sleep(POLL_SECONDS)
