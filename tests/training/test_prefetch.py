"""Whatever the number of prefetching threads, the batches are the same in the same order, and no thread outlives the
training."""

import threading
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kobert_pipeline.training.loop import NotFinite, Stopped, train
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.prefetch import STEPS_AHEAD, prefetch

WORKERS = [0, 1, 3]


def engine(processes: int = 1, index: int = 0) -> Any:
    return SimpleNamespace(num_processes=processes, process_index=index)


def fed(batch_at: Any, begin: int, steps: int, workers: int, tokens: Any = None, **place: int) -> Any:
    """Batches of `tokens[step]` tokens, of which a device computes at most ten at once."""
    plan = Plan(dataloader_num_workers=workers, max_tokens_per_device=10 if tokens else None)
    parts_at = (lambda step, max_tokens: -(-tokens[step] // max_tokens)) if tokens else None
    return prefetch(batch_at, begin, steps, engine(**place), plan, parts_at)


def slow_batch(step: int, part: int, parts: int) -> tuple[int, int, int]:
    """Later steps are built faster."""
    time.sleep(0.002 * (-step % 4))
    return step, part, parts


def test_steps_come_in_order() -> None:
    for (begin, steps), workers in product([(0, 20), (7, 20), (18, 20), (0, 1), (5, 5)], WORKERS):
        assert list(fed(slow_batch, begin, steps, workers)) == [[(step, 0, 1)] for step in range(begin, steps)], (
            workers,
            begin,
            steps,
        )


def test_each_process_gets_its_own_parts_of_every_step() -> None:
    for workers in WORKERS:
        tokens = [1, 10, 30, 31, 60, 61]  # three devices compute thirty at once
        seen = [list(fed(slow_batch, 0, 6, workers, tokens, processes=3, index=index)) for index in range(3)]
        for step, count in enumerate([3, 3, 3, 6, 6, 9]):
            assert [part for parts in (mine[step] for mine in seen) for part in parts] == [
                (step, part, count) for part in range(count)
            ], workers
            assert {len(mine[step]) for mine in seen} == {count // 3}, workers


def test_a_limit_without_the_sizes_of_batches_is_an_error() -> None:
    with pytest.raises(TypeError, match="needs parts_at"):
        next(prefetch(slow_batch, 0, 2, engine(), Plan(max_tokens_per_device=10)))


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_are_made_so_many_steps_ahead_and_no_more(workers: int) -> None:
    asked: list[int] = []
    batches = fed(lambda step, part, parts: asked.append(step), 0, 50, workers)
    next(batches)
    deadline = time.monotonic() + 10
    while len(asked) < 1 + STEPS_AHEAD * workers and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert sorted(asked) == list(range(1 + STEPS_AHEAD * workers))
    batches.close()


def test_what_goes_wrong_in_a_thread_reaches_the_caller_at_its_step() -> None:
    for workers in WORKERS:

        def breaks(step: int, part: int, parts: int) -> int:
            if step == 4:
                raise OSError("disk gone")
            return step

        seen = []
        with pytest.raises(OSError, match="disk gone"):
            for (step,) in fed(breaks, 0, 50, workers):
                seen.append(step)
        assert seen == [0, 1, 2, 3], workers
        assert_no_thread_left()


@pytest.mark.parametrize("workers", [1, 3])
def test_closing_early_makes_nothing_more_and_leaves_no_thread(workers: int) -> None:
    made, resume = [], threading.Event()

    def batch_at(step: int, part: int, parts: int) -> int:
        if step:
            resume.wait(10)
        made.append(step)
        return step

    batches = fed(batch_at, 0, 10_000, workers)
    assert next(batches) == [0]
    threading.Timer(0.5, resume.set).start()  # meanwhile it is closed
    batches.close()
    assert_no_thread_left()
    assert len(made) <= 1 + workers < 1 + STEPS_AHEAD * workers, "what was begun is done, and what waited is not"


def assert_no_thread_left() -> None:
    assert [thread.name for thread in threading.enumerate() if "ThreadPool" in thread.name] == []


class Weighted(torch.nn.Module):
    """A squared error; the batch is the input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0, 3.0, 0.5]]))

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return (self.weight * batch).sum().square(), {}


def random_batch(step: int, part: int, parts: int) -> torch.Tensor:
    return torch.randn(1, 4, generator=torch.Generator().manual_seed(100 * step + part)) / parts


def weights(folder: Path, batch_at: Any = random_batch, **plan: Any) -> torch.Tensor:
    module = Weighted()
    settings = Plan(learning_rate=0.01, checkpoint_every=4, **plan)
    train(module, batch_at, settings, 12, folder, parts_at=lambda step, max_tokens: -(-(step + 1) // max_tokens))
    return module.weight.detach()


def test_a_training_ends_in_the_same_weights_however_many_threads_feed_it(tmp_path: Path) -> None:
    for number, max_tokens in enumerate([None, 5]):
        place = tmp_path / str(number)
        place.mkdir()
        found = [
            weights(place / str(workers), dataloader_num_workers=workers, max_tokens_per_device=max_tokens)
            for workers in WORKERS
        ]
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2]), max_tokens


def test_a_training_that_goes_on_with_other_threads_equals_one_never_stopped(tmp_path: Path) -> None:
    for number, (first, then) in enumerate([(0, 3), (3, 0), (1, 3)]):
        place = tmp_path / str(number)
        place.mkdir()
        expected = weights(place / "whole")
        with pytest.raises(Stopped):
            weights(place / "cut", dataloader_num_workers=first, max_minutes=1e-9)
        assert torch.equal(weights(place / "cut", dataloader_num_workers=then), expected), (first, then)
        assert_no_thread_left()


def test_a_training_that_fails_leaves_no_thread(tmp_path: Path) -> None:
    for number, workers in enumerate([1, 3]):
        place = tmp_path / str(number)
        place.mkdir()

        def poisoned(step: int, part: int, parts: int) -> torch.Tensor:
            return torch.full((1, 4), float("nan")) if step == 3 else random_batch(step, part, parts)

        with pytest.raises(NotFinite):
            weights(place, poisoned, dataloader_num_workers=workers)
        assert_no_thread_left()
