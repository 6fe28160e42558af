"""The batcher: what is joined, in which order, what is dropped, and what a failure touches."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kobert_pipeline.serve.batching import Batcher, Closed, QueueFull


class Recorder:
    """Doubles numbers, and records its `batches`."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def double(self, numbers: list[int]) -> list[int]:
        self.batches.append(numbers)
        if -1 in numbers:
            raise ValueError("-1")
        return [2 * number for number in numbers]

    def negate(self, numbers: list[int]) -> list[int]:
        self.batches.append(numbers)
        return [-number for number in numbers]


@pytest.fixture
def run() -> Iterator[Callable[[Batcher], threading.Thread]]:
    """`run(batcher)` starts its thread and returns it; it is closed at the end of the test."""
    started: list[tuple[Batcher, threading.Thread]] = []

    def start(batcher: Batcher) -> threading.Thread:
        thread = threading.Thread(target=batcher.run)
        thread.start()
        started.append((batcher, thread))
        return thread

    yield start
    for batcher, thread in started:
        batcher.close()
        thread.join(10)
        assert not thread.is_alive()


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.result(10) for future in futures]


def test_what_waits_is_joined_by_kind_up_to_the_budget_and_nothing_overtakes_the_oldest(run: Any) -> None:
    recorder, sizes = Recorder(), []
    batcher = Batcher(10, 100, lambda inputs, tokens, seconds: sizes.append((inputs, tokens)))
    first = batcher.submit(recorder.double, [1, 2], [4, 4])
    other = batcher.submit(recorder.negate, [3], [1])
    long = batcher.submit(recorder.double, [4], [99])
    last = batcher.submit(recorder.double, [5, 6], [1, 2])
    thread = run(batcher)
    assert [results(one) for one in (first, other, long, last)] == [[2, 4], [-3], [8], [10, 12]]
    assert recorder.batches == [[1, 2, 5], [3], [4], [6]], "5 still fitted, and an input above the budget runs alone"
    batcher.close()
    thread.join(10)
    assert sizes == [(3, 9), (1, 1), (1, 99), (1, 2)]


def test_what_is_queued_before_a_batch_is_taken_joins_it(run: Any) -> None:
    recorder, batcher = Recorder(), Batcher(10, 9)
    late: list[Future[Any]] = []
    batcher.before_batch = lambda: late.extend(batcher.submit(recorder.double, [2], [1]) if not late else ())
    first = batcher.submit(recorder.double, [1], [1])
    run(batcher)
    assert results([*first, *late]) == [2, 4]
    assert recorder.batches == [[1, 2]]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), min_size=1, max_size=40))
def test_every_input_is_computed_once_within_the_budget(items: list[tuple[bool, int]]) -> None:
    recorder, sizes = Recorder(), []
    batcher = Batcher(10, 40, lambda inputs, tokens, seconds: sizes.append((inputs, tokens)))
    kinds = (recorder.double, recorder.negate)
    futures = [batcher.submit(kinds[kind], [n], [tokens])[0] for n, (kind, tokens) in enumerate(items)]
    thread = threading.Thread(target=batcher.run)
    thread.start()
    found = results(futures)
    batcher.close()
    thread.join(10)
    assert found == [-n if kind else 2 * n for n, (kind, _) in enumerate(items)]
    assert sorted(chain.from_iterable(recorder.batches)) == list(range(len(items)))
    assert all(inputs == 1 or tokens <= 10 for inputs, tokens in sizes)


def test_an_input_that_nobody_waits_for_is_not_computed_and_takes_no_room(run: Any) -> None:
    recorder, batcher = Recorder(), Batcher(10, 3)
    abandoned = batcher.submit(recorder.double, [1, 2, 3], [1, 1, 1])
    with pytest.raises(QueueFull):
        batcher.submit(recorder.double, [4], [1])
    for future in abandoned[:2]:
        future.cancel()
    kept = batcher.submit(recorder.double, [4, 5], [1, 1])
    with pytest.raises(QueueFull):
        batcher.submit(recorder.double, [6], [1])
    assert len(batcher) == 3
    kept[0].cancel()
    run(batcher)
    assert results([abandoned[2], kept[1]]) == [6, 10]
    assert recorder.batches == [[3, 5]]


def test_a_request_that_does_not_fit_queues_nothing() -> None:
    recorder, batcher = Recorder(), Batcher(10, 3)
    batcher.submit(recorder.double, [1], [1])
    with pytest.raises(QueueFull):
        batcher.submit(recorder.double, [2, 3, 4], [1, 1, 1])
    assert len(batcher) == 1


def test_a_failing_input_fails_alone(run: Any) -> None:
    recorder, batcher = Recorder(), Batcher(10, 9)
    futures = batcher.submit(recorder.double, [1, -1, 3], [1, 1, 1])
    run(batcher)
    assert results([futures[0], futures[2]]) == [2, 6]
    with pytest.raises(ValueError, match="-1"):
        futures[1].result(10)
    assert results(batcher.submit(recorder.double, [7], [1])) == [14], "the thread goes on"


def test_a_wrong_number_of_results_is_an_error_and_not_a_shift(run: Any) -> None:
    batcher = Batcher(10, 9)
    futures = batcher.submit(lambda numbers: [0], [1, 2], [1, 1])
    empty = batcher.submit(lambda numbers: [], [1], [1])
    run(batcher)
    assert results(futures) == [0, 0], "each alone"
    with pytest.raises(ValueError):
        empty[0].result(10)


def test_closing_finishes_the_running_batch_and_refuses_the_rest(run: Any) -> None:
    batcher, running, free = Batcher(1, 9), threading.Event(), threading.Event()

    def hold(numbers: list[int]) -> list[int]:
        running.set()
        assert free.wait(10)
        return numbers

    first, second = batcher.submit(hold, [1, 2], [1, 1])
    run(batcher)
    assert running.wait(10)
    batcher.close()
    with pytest.raises(Closed):
        second.result(10)
    with pytest.raises(Closed):
        batcher.submit(hold, [3], [1])
    free.set()
    assert first.result(10) == 1


def test_closing_refuses_what_waits_but_what_was_abandoned() -> None:
    batcher = Batcher(10, 9)
    abandoned, waiting = batcher.submit(Recorder().double, [1, 2], [1, 1])
    abandoned.cancel()
    batcher.close()
    assert abandoned.cancelled()
    with pytest.raises(Closed):
        waiting.result(0)
