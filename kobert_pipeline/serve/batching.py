"""Batches from the texts of many requests, computed by the one thread that owns the models.

As in Hugging Face's text-embeddings-inference: texts wait in a queue, and as soon as the thread is free it takes as
many as fit into a budget of tokens. There is no timer, so a lone text never waits for company. Within a batch the code
of `inference/` sorts by length, so that texts are padded to others of about their own length.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

Compute = Callable[[list[Any]], Sequence[Any]]
"""Inputs -> one result per input, which does not depend on the other inputs. Only inputs with an equal `Compute` are
joined; methods of one object are equal."""


class QueueFull(Exception):
    """There is no room for the texts of a request."""


class Closed(Exception):
    """The server shuts down and computes nothing any more."""


@dataclass(frozen=True, eq=False)
class Item:
    """An input that waits, about how many tokens it has, and the future of its result."""

    compute: Compute
    input: Any
    tokens: int
    future: Future[Any] = field(default_factory=Future)


class Batcher:
    """A bounded queue, and the loop that computes what is in it.

    Args:
        max_batch_tokens: the tokens of a batch; an input with more is a batch of its own.
        max_queue: the inputs that wait at most.
        on_batch: called with inputs, tokens and seconds of each batch.

    `before_batch` is called by the thread when inputs wait, before it takes them.
    """

    def __init__(
        self,
        max_batch_tokens: int,
        max_queue: int,
        on_batch: Callable[[int, int, float], None] = lambda inputs, tokens, seconds: None,
    ) -> None:
        self.max_batch_tokens, self.max_queue, self.on_batch = max_batch_tokens, max_queue, on_batch
        self.before_batch: Callable[[], None] = lambda: None
        self._waiting: deque[Item] = deque()
        self._changed = threading.Condition()
        self.closed = False

    def __len__(self) -> int:
        """The number of inputs that wait."""
        return len(self._waiting)

    def submit(self, compute: Compute, inputs: Sequence[Any], tokens: Sequence[int]) -> list[Future[Any]]:
        """Queue inputs, of about so many `tokens` each, and return the futures of their results. An input whose future
        is cancelled before its turn is never computed. Raises QueueFull, and then queues none, or Closed."""
        items = [Item(compute, *pair) for pair in zip(inputs, tokens, strict=True)]
        with self._changed:
            if self.closed:
                raise Closed
            if len(self._waiting) + len(items) > self.max_queue:
                # only when there is no room, because this goes through the whole queue
                self._waiting = deque(item for item in self._waiting if not item.future.cancelled())
            if len(self._waiting) + len(items) > self.max_queue:
                raise QueueFull
            self._waiting.extend(items)
            self._changed.notify()
        return [item.future for item in items]

    def run(self) -> None:
        """Compute batches until `close`."""
        while not self.closed:
            # from here on a request cannot cancel its inputs, so their results can be set
            batch = [item for item in self._take() if item.future.set_running_or_notify_cancel()]
            if batch:
                started = perf_counter()
                compute_batch(batch)
                self.on_batch(len(batch), sum(item.tokens for item in batch), perf_counter() - started)

    def close(self) -> None:
        """Accept no more inputs; waiting inputs get the exception Closed. A batch that is being computed is
        finished."""
        with self._changed:
            self.closed = True
            waiting, self._waiting = self._waiting, deque()
            self._changed.notify()
        for item in waiting:
            # setting the exception of a cancelled future would raise InvalidStateError
            if item.future.set_running_or_notify_cancel():
                item.future.set_exception(Closed())

    def _take(self) -> list[Item]:
        """The next batch: the input that has waited longest, and more of its kind while they fit."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.closed)
        # not under the lock: it waits for the event loop, which may be waiting for the lock in `submit`
        self.before_batch()
        with self._changed:
            batch: list[Item] = []
            others: deque[Item] = deque()
            room = self.max_batch_tokens
            # a large input may be overtaken by smaller ones, but not for ever: the first in the queue is always taken
            for item in self._waiting:
                if item.future.cancelled():
                    continue
                if not batch or (item.compute == batch[0].compute and item.tokens <= room):
                    batch.append(item)
                    room -= item.tokens
                else:
                    others.append(item)
            self._waiting = others
        return batch


def compute_batch(batch: list[Item]) -> None:
    """Compute a batch and set its results. Where that fails, each input is computed alone, so that a request cannot
    fail the requests it was joined with."""
    try:
        results = batch[0].compute([item.input for item in batch])
        # before any result is set: a wrong number of them is an error and not a shift to other requests
        pairs = list(zip(batch, results, strict=True))
    except Exception as error:
        if len(batch) == 1:
            batch[0].future.set_exception(error)
            return
        for item in batch:
            compute_batch([item])
        return
    for item, result in pairs:
        item.future.set_result(result)
