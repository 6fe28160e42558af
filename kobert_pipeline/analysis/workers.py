"""Cuts made in worker processes, so that a text on which the analyzer dies or hangs costs itself and nothing else.

Native analyzers have crashed on absurd input before. A worker that dies or takes too long is replaced (by pebble, whose
pools survive that, unlike the standard library's), and the texts it had are halved until the guilty one is alone.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Protocol

from kobert_pipeline.distributed import start_worker
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.morpheme import Segmentation

if TYPE_CHECKING:
    from pebble import ProcessFuture

CHUNK_CHARACTERS = 100_000
"""Characters in one task: a second or two of work."""
AHEAD = 4
"""Tasks per worker that wait or are done ahead of what was asked for."""
RESTARTS = 3
"""Pools in a row that may break before a task is done."""


NO_WORKERS = "analysis: the worker processes cannot begin ({error}); is there memory for the analyzer's model in each? --num-workers 1 needs least"
"""No document's fault: none is left out for it."""


class CanSegment(Protocol):
    """What cuts texts; a `Cutter`. It is pickled to the workers."""

    def segment(self, texts: Iterable[str], num_workers: int | None = None) -> Iterator[Segmentation]:
        """The cuts of `texts` in order."""


@dataclass(frozen=True)
class Failed:
    """Instead of a cut: why there is none."""

    reason: str


class Workers:
    """A pool of `num_workers` processes that cut. A task that takes more than `timeout` seconds is given up."""

    def __init__(self, cutter: CanSegment, num_workers: int, timeout: float) -> None:
        from pebble import (
            ProcessPool,  # here, since a machine that only trains has not got it and reads this file for its options
        )

        self.cutter, self.num_workers, self.timeout = cutter, num_workers, timeout
        self.new_pool = partial(
            ProcessPool, max_workers=num_workers, initializer=_begin, initargs=(cutter,), context=get_context("spawn")
        )
        self.pool, self.broken = self.new_pool(), 0

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exception: object) -> None:
        self.pool.stop()
        self.pool.join()

    def segment(self, texts: Iterable[str]) -> Iterator[Segmentation | Failed]:
        """The cut of each text, in order, however many workers there are."""
        waiting: deque[tuple[list[str], ProcessFuture[Any]]] = deque()
        chunks = chunks_of(texts)
        waiting.extend((chunk, self._schedule(chunk)) for chunk in islice(chunks, self.num_workers * AHEAD))
        while waiting:
            yield from self._result(*waiting.popleft())
            waiting.extend((chunk, self._schedule(chunk)) for chunk in islice(chunks, 1))

    def _schedule(self, texts: list[str]) -> "ProcessFuture[Any]":
        try:
            return self.pool.schedule(_cut, args=[texts], timeout=self.timeout)
        except RuntimeError as error:
            raise UserError(NO_WORKERS.format(error=error)) from None

    def _result(self, texts: list[str], future: "ProcessFuture[Any]") -> list[Segmentation | Failed]:
        from pebble import ProcessExpired

        try:
            cuts = list(future.result())
            self.broken = 0
            return cuts
        except BrokenProcessPool as error:
            self._restart(error)
            return self._result(texts, self._schedule(texts))
        except ProcessExpired as error:
            reason = f"the analyzer died on it (exit code {error.exitcode})"
        except FutureTimeoutError:
            reason = f"the analyzer took more than {self.timeout:g} s for it"
        except Exception as error:
            reason = f"the analyzer refused it ({type(error).__name__}: {error})"
        if len(texts) == 1:
            return [Failed(reason)]
        halves = (texts[: len(texts) // 2], texts[len(texts) // 2 :])
        return [cut for half in halves for cut in self._result(half, self._schedule(half))]

    def _restart(self, error: Exception) -> None:
        """Begin with new processes, unless that was done for an earlier task of the same pool. A pool also breaks where
        a worker dies before it has said which task it took, so only one that breaks again and again has no workers at
        all."""
        if self.pool.active:
            return
        self.broken += 1
        if self.broken > RESTARTS:
            raise UserError(NO_WORKERS.format(error=error)) from None
        self.pool.stop()
        self.pool.join()
        self.pool = self.new_pool()


def chunks_of(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of texts with about `CHUNK_CHARACTERS`."""
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


_cutter: CanSegment


def _begin(cutter: CanSegment) -> None:
    global _cutter
    start_worker()
    _cutter = cutter
    list(cutter.segment(["준비"], 1))  # loads the model, whose time is not the first task's


def _cut(texts: list[str]) -> list[Segmentation]:
    return list(_cutter.segment(texts, 1))
