"""datatrove without its lines on stderr: all of them stand in the logs of its tasks as well.

A module of its own, because datatrove takes half a second to import and processes of a pool look the executor up here.
"""

import os
from collections.abc import Iterator
from concurrent.futures import as_completed
from contextlib import contextmanager, redirect_stderr
from copy import deepcopy
from multiprocessing import get_context

from datatrove.executor import LocalPipelineExecutor
from datatrove.utils.logging import setup_default_logger
from pebble import ProcessPool

from kobert_pipeline.distributed import start_worker

NOWHERE = open(os.devnull, "w")  # noqa: PTH123, SIM115 - its logger keeps writing to it, so it is never closed


@contextmanager
def silence() -> Iterator[None]:
    """Send what is written to stderr nowhere."""
    with redirect_stderr(NOWHERE):
        setup_default_logger()  # it holds on to the stderr of the moment it was made
        yield


class QuietExecutor(LocalPipelineExecutor):  # type: ignore[misc]
    """Runs tasks in processes of this machine. Unlike the pool of its base class, this one does not wait for ever when
    a process is killed, leaves none behind when this one is, and ends them and forgets what is pending at the first
    error or Ctrl-C."""

    def run(self) -> None:
        """Run what has no mark yet."""
        ranks = self.get_incomplete_ranks()
        if self.workers == 1:
            for rank in ranks:
                deepcopy(self).run_rank(rank)
        elif ranks:
            pool = ProcessPool(min(self.workers, len(ranks)), initializer=start_worker, context=get_context("spawn"))
            try:
                for done in as_completed([pool.schedule(self.run_rank, args=[rank]) for rank in ranks]):
                    done.result()
            finally:
                pool.stop()
                pool.join()

    def run_rank(self, rank: int) -> None:
        """Run one task."""
        with silence():
            self._run_for_rank(rank)
