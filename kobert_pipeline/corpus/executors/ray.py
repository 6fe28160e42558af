"""The executor of a Ray cluster (optional extra `ray`) of one or more machines. The run folder and the data must be on
a file system that all nodes share."""

import logging
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kobert_pipeline.corpus.executor import ErrorReporter, Executor
from kobert_pipeline.errors import UserError


class Ray(Executor):
    """A Ray cluster."""

    name: Literal["ray"] = "ray"
    address: str | None = "auto"
    """Address of the cluster; `auto` uses the one that this node belongs to, null starts one on this machine."""
    workers: int = Field(-1, ge=-1)
    """Tasks that run at the same time; -1: as many as the cluster has resources for."""
    memory_gb: float = Field(2, gt=0)
    """Memory that a task requests, in GB."""

    def build(self, steps: list[ErrorReporter], tasks: int, logs: Path) -> Any:
        """A RayPipelineExecutor on the cluster. Raises UserError where Ray is not installed or no cluster answers."""
        try:
            import ray
        except ImportError:
            raise UserError(
                "corpus.executor ray requires the library ray; run: pip install 'kobert-pipeline[ray]'"
            ) from None
        from datatrove.executor import RayPipelineExecutor

        if not ray.is_initialized():
            try:
                # quiet like `silence`: every task has its log in the run folder
                ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
            except ConnectionError as error:
                raise UserError(
                    f"corpus.executor: no Ray cluster at {self.address!r} ({error}); start one with `ray start "
                    "--head`, or set address: null"
                ) from None
        return RayPipelineExecutor(
            steps, tasks=tasks, workers=self.workers, mem_per_cpu_gb=self.memory_gb, logging_dir=str(logs)
        )
