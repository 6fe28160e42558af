"""datatrove's LocalPipelineExecutor without its output on stderr, which the logs of its tasks have as well."""

# Separate from `executors/local.py`, because that is imported by every command and datatrove takes half a second to
# import; and at module level, because worker processes unpickle the executor by this name.

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
    """Discard everything that is written to stderr."""
    with redirect_stderr(NOWHERE):
        setup_default_logger()  # the logger keeps the stderr of its creation, so it is created again here
        yield


class QuietExecutor(LocalPipelineExecutor):  # type: ignore[misc]
    """Runs tasks in processes on this machine. Unlike the pool of its base class, it does not hang when a worker is
    killed, leaves no orphans when it is killed itself, and stops all tasks at the first error or Ctrl-C."""

    def run(self) -> None:
        """Run the tasks that have not finished yet."""
        ranks = self.get_incomplete_ranks()
        if self.workers == 1:
            for rank in ranks:
                deepcopy(self).run_rank(rank)  # steps collect statistics, so each task needs a copy, as in a pool
        elif ranks:
            # spawned: this process has threads (one reports the progress), and a fork would copy the locks they hold
            pool = ProcessPool(min(self.workers, len(ranks)), initializer=start_worker, context=get_context("spawn"))
            try:
                for future in as_completed([pool.schedule(self.run_rank, args=[rank]) for rank in ranks]):
                    future.result()
            finally:
                pool.stop()
                pool.join()

    def run_rank(self, rank: int) -> None:
        """Run one task."""
        with silence():
            self._run_for_rank(rank)
