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


def parts_at(batch_at: BatchAt, accelerator: Accelerator, plan: Plan) -> Callable[[int], list[Any]]:
    """The function from a step to the parts of its batch that this rank computes."""
    # a step's batch is split over ranks and accumulation steps alike: rank r has parts r * a to r * a + a - 1
    per_rank = plan.gradient_accumulation_steps
    parts, first_part = accelerator.num_processes * per_rank, accelerator.process_index * per_rank
    return lambda step: [batch_at(step, part, parts) for part in range(first_part, first_part + per_rank)]


def prefetch(
    batch_at: BatchAt, first_step: int, steps: int, accelerator: Accelerator, plan: Plan
) -> Generator[list[Any]]:
    """For each step from `first_step` to `steps` the parts of its batch that this rank computes."""
    build = parts_at(batch_at, accelerator, plan)
    if not plan.dataloader_num_workers:
        yield from (build(step) for step in range(first_step, steps))
        return
    ahead = STEPS_AHEAD * plan.dataloader_num_workers
    with ThreadPoolExecutor(plan.dataloader_num_workers) as threads:
        pending: deque[Future[list[Any]]] = deque()
        try:
            for step in range(first_step, steps + ahead):
                if step < steps:
                    pending.append(threads.submit(build, step))
                if step >= first_step + ahead and pending:
                    yield pending.popleft().result()
        finally:
            # the loop may stop early; leaving the pool waits for batches under way, but not for cancelled ones
            for future in pending:
                future.cancel()
