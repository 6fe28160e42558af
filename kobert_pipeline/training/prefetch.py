"""Batches in the order of the steps, made ahead of time by threads if asked. A batch is a function of the step, so
however many make them, they are the same."""

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from accelerate import Accelerator

from kobert_pipeline.training.plan import Plan

AHEAD = 2
"""Steps that each thread is ahead."""


class BatchAt(Protocol):
    """`batch_at(step, part, parts)`: one of the `parts` parts of a step's batch; steps and parts count from 0."""

    def __call__(self, step: int, part: int, parts: int, /) -> Any:
        """What the module takes."""


def prefetch(batch_at: BatchAt, begin: int, steps: int, engine: Accelerator, plan: Plan) -> Generator[list[Any]]:
    """For each step from `begin` to `steps` the parts that fall to this process."""
    mine = plan.gradient_accumulation_steps
    parts, first = engine.num_processes * mine, engine.process_index * mine

    def made(step: int) -> list[Any]:
        return [batch_at(step, part, parts) for part in range(first, first + mine)]

    if not plan.dataloader_num_workers:
        yield from (made(step) for step in range(begin, steps))
        return
    with ThreadPoolExecutor(plan.dataloader_num_workers) as threads:
        waiting: deque[Future[list[Any]]] = deque()
        try:
            for step in range(begin, steps + AHEAD * plan.dataloader_num_workers):
                if step < steps:
                    waiting.append(threads.submit(made, step))
                if step >= begin + AHEAD * plan.dataloader_num_workers and waiting:
                    yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()
