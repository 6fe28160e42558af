"""A Ray cluster (optional extra `ray`), this machine or many. The run folder and the data lie where all nodes see
them."""

import logging
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kobert_pipeline.corpus.executor import Executor, Task
from kobert_pipeline.errors import UserError


class Ray(Executor):
    """A Ray cluster."""

    name: Literal["ray"] = "ray"
    address: str | None = "auto"
    """Address of the cluster; `auto` finds the one of this node, null starts one on this machine."""
    workers: int = Field(-1, ge=-1)
    """Tasks at a time; -1: as many as the cluster has room for."""
    memory_gb: float = Field(2, gt=0)
    """Memory that a task asks for."""

    def build(self, steps: list[Task], tasks: int, logs: Path) -> Any:
        """A RayPipelineExecutor on the cluster. Raises UserError where there is none."""
        try:
            import ray
        except ImportError:
            raise UserError(
                "corpus.executor ray needs the library ray; run: pip install 'kobert-pipeline[ray]'"
            ) from None
        from datatrove.executor import RayPipelineExecutor

        if not ray.is_initialized():
            try:
                ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
            except ConnectionError as error:
                raise UserError(
                    f"corpus.executor: no Ray cluster at {self.address!r} ({error}); start one with `ray start "
                    "--head`, or say address: null"
                ) from None
        return RayPipelineExecutor(
            steps, tasks=tasks, workers=self.workers, mem_per_cpu_gb=self.memory_gb, logging_dir=str(logs)
        )
