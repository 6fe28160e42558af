"""Batches in the order of the steps, built ahead of time by threads if asked for. A batch is a function of its step, so
any number of threads gives the same ones."""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from accelerate import Accelerator

from kobert_pipeline.training.plan import Plan

STEPS_AHEAD = 2
"""How many steps ahead each thread works."""


class BatchAt(Protocol):
    """`batch_at(step, part, parts)`: one of the `parts` parts of a step's batch; steps and parts count from 0."""

    def __call__(self, step: int, part: int, parts: int, /) -> Any:
        """A batch as the training module's `forward` takes it."""


PartsAt = Callable[[int, int], int]
"""`parts_at(step, max_tokens)`: into how many parts of at most about `max_tokens` tokens a step's batch is split. A
function of its arguments alone, so that all ranks agree."""


def parts_of_rank(
    batch_at: BatchAt, accelerator: Accelerator, plan: Plan, parts_at: PartsAt | None = None
) -> Callable[[int], list[Any]]:
    """The function from a step to the parts of its batch that this rank computes: one, or as many as
    `plan.max_tokens_per_device` requires, which needs `parts_at`."""
    ranks, max_tokens = accelerator.num_processes, plan.max_tokens_per_device
    if max_tokens is not None and parts_at is None:
        raise TypeError("plan.max_tokens_per_device needs parts_at")

    def parts_of(step: int) -> list[Any]:
        # a batch is split over ranks and one after another alike: rank r has parts r * n to r * n + n - 1
        per_rank = -(-parts_at(step, max_tokens) // ranks) if parts_at and max_tokens else 1
        first_part = accelerator.process_index * per_rank
        return [batch_at(step, part, ranks * per_rank) for part in range(first_part, first_part + per_rank)]

    return parts_of


def prefetch(
    batch_at: BatchAt,
    first_step: int,
    steps: int,
    accelerator: Accelerator,
    plan: Plan,
    parts_at: PartsAt | None = None,
) -> Generator[list[Any]]:
    """The parts of a batch that this rank computes, for each step from `first_step` to `steps`."""
    build = parts_of_rank(batch_at, accelerator, plan, parts_at)
    if not plan.dataloader_num_workers:
        yield from (build(step) for step in range(first_step, steps))
        return
    ahead = STEPS_AHEAD * plan.dataloader_num_workers
    with ThreadPoolExecutor(plan.dataloader_num_workers) as threads:
        pending: deque[Future[list[Any]]] = deque()
        try:
            # the last rounds submit nothing more and only hand out what is pending
            for step in range(first_step, steps + ahead):
                if step < steps:
                    pending.append(threads.submit(build, step))
                if step >= first_step + ahead and pending:
                    yield pending.popleft().result()
        finally:
            # the loop may stop early; leaving the pool waits for batches under way, but not for cancelled ones
            for future in pending:
                future.cancel()
