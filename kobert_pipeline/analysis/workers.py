"""Segmentation in worker processes, so that a text that crashes or hangs the analyzer is the only one lost.

Native analyzers have crashed on absurd input before. A worker that dies or takes too long is replaced (by pebble, whose
pools survive that, unlike the standard library's), and its texts are retried in halves until the guilty one is alone.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Protocol

from kobert_pipeline.distributed import start_worker
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.morpheme import Segmentation
from kobert_pipeline.morphemes.segmenter import batches_of

if TYPE_CHECKING:
    from pebble import ProcessFuture, ProcessPool

    Task = tuple[ProcessPool, ProcessFuture[Any]]

CHUNK_CHARACTERS = 100_000
"""Characters in one task: a second or two of work."""
TASKS_PER_WORKER = 4
"""Tasks per worker that are queued or finished ahead of what has been consumed."""
POLL = 1.0
"""Seconds between two looks whether the pool of a task that is not done still works."""
MAX_RESTARTS = 3
"""Pools in a row that may break before a task succeeds."""

NO_WORKERS = (
    "analysis: the worker processes cannot start ({error}); each needs memory for the analyzer's model, and "
    "--num-workers 1 needs least"
)
"""Not the fault of a document, so none is left out for it."""


class CanSegment(Protocol):
    """A `Segmenter`, or a stand-in. It is pickled to the workers."""

    def segment(self, texts: Iterable[str], num_workers: int | None = None) -> Iterator[Segmentation]:
        """The segmentations of `texts` in order."""


@dataclass(frozen=True)
class FailedDocument:
    """Takes the place of a segmentation: the reason why there is none."""

    reason: str


class Workers:
    """A pool of `num_workers` processes that segment texts, with a limit of `timeout` seconds per task."""

    def __init__(self, segmenter: CanSegment, num_workers: int, timeout: float) -> None:
        # not at the top: a machine that only trains lacks pebble, and imports this file for the stage's options
        from pebble import ProcessPool

        self.num_workers, self.timeout = num_workers, timeout
        self.new_pool = partial(
            ProcessPool,
            max_workers=num_workers,
            initializer=_start,
            initargs=(segmenter,),
            context=get_context("spawn"),  # Kiwi's threads do not survive a fork
        )
        self.pool, self.broken = self.new_pool(), 0

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exception: object) -> None:
        # not `close`, after which `join` would wait for all tasks that are queued, also after an error
        self.pool.stop()
        self.pool.join()

    def segment(self, texts: Iterable[str]) -> Iterator[Segmentation | FailedDocument]:
        """The segmentation of each text, in order; the same for any number of workers."""
        # bounded, so that neither texts nor results of a whole corpus pile up in memory
        waiting: deque[tuple[list[str], Task]] = deque()
        chunks = batches_of(texts, CHUNK_CHARACTERS)
        waiting.extend((chunk, self._schedule(chunk)) for chunk in islice(chunks, self.num_workers * TASKS_PER_WORKER))
        while waiting:
            yield from self._result(*waiting.popleft())
            waiting.extend((chunk, self._schedule(chunk)) for chunk in islice(chunks, 1))

    def _schedule(self, texts: list[str]) -> "Task":
        try:
            return self.pool, self.pool.schedule(_segment, args=[texts], timeout=self.timeout)
        except RuntimeError as error:  # it broke since the last result, or cannot start
            self._restart(error)
            return self._schedule(texts)

    def _wait_for(self, task: "Task") -> list[Segmentation]:
        """Wait for a task and return its result. Raises BrokenProcessPool where its pool broke before a worker took it,
        because nobody finishes such a task, and whatever the task raised."""
        pool, future = task
        while not wait([future], POLL).done:
            if pool is not self.pool or not pool.active:
                raise BrokenProcessPool("its pool broke")
        return list(future.result())

    def _result(self, texts: list[str], task: "Task") -> list[Segmentation | FailedDocument]:
        from pebble import ProcessExpired

        try:
            segmentations: list[Segmentation | FailedDocument] = [*self._wait_for(task)]
            self.broken = 0
            return segmentations
        except BrokenProcessPool as error:
            if not self.pool.active:  # else another of its tasks has had a new one started already
                self._restart(error)
            # as a whole, since any of the pool's tasks may have broken it, and these texts may never have been read
            return self._result(texts, self._schedule(texts))
        except ProcessExpired as error:
            reason = f"the analyzer died on it (exit code {error.exitcode})"
        except FutureTimeoutError:
            reason = f"the analyzer took more than {self.timeout:g} s for it"
        except Exception as error:
            reason = f"the analyzer refused it ({type(error).__name__}: {error})"
        if len(texts) == 1:
            return [FailedDocument(reason)]
        halves = (texts[: len(texts) // 2], texts[len(texts) // 2 :])
        return [result for half in halves for result in self._result(half, self._schedule(half))]

    def _restart(self, error: Exception) -> None:
        """Start a new pool. Raises UserError where pools break again and again."""
        # a pool also breaks where a worker dies before it has reported which task it took, so one break proves nothing
        self.broken += 1
        if self.broken > MAX_RESTARTS:
            raise UserError(NO_WORKERS.format(error=error)) from None
        self.pool.stop()
        self.pool.join()
        self.pool = self.new_pool()


_segmenter: CanSegment
"""Set in each worker process, since a task is a function and its texts."""


def _start(segmenter: CanSegment) -> None:
    global _segmenter
    start_worker()
    _segmenter = segmenter
    list(segmenter.segment(["준비"], 1))  # loads the model now, so that it does not count against the first task's time


def _segment(texts: list[str]) -> list[Segmentation]:
    # on one thread: the pool has a process for each core that it may use
    return list(_segmenter.segment(texts, 1))
