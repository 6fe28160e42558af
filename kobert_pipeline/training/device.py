"""Where the training runs: one place that talks to `accelerate`."""

import os
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState

from kobert_pipeline.training.plan import Plan


def device() -> torch.device:
    """This process's own GPU, or the CPU."""
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else torch.device("cpu")


def accelerator(plan: Plan) -> Accelerator:
    """An Accelerator for this plan: one process, or one of those that `torchrun` or `accelerate launch` started. A process trains several
    plans in turn, so the shared state is set anew."""
    AcceleratorState._reset_state()
    parallel = DistributedDataParallelKwargs(broadcast_buffers=False, gradient_as_bucket_view=True)
    return Accelerator(mixed_precision=plan.mixed_precision, cpu=not torch.cuda.is_available(), kwargs_handlers=[parallel])


def agreed(engine: Accelerator, wish: bool) -> bool:
    """Whether any process wishes it, known to all."""
    if engine.num_processes == 1:
        return wish
    return bool(engine.reduce(torch.tensor(float(wish), device=engine.device), "sum") > 0)


def summed(engine: Accelerator, values: dict[str, Any]) -> dict[str, Any]:
    """The sums of scalar tensors over all processes."""
    return values if engine.num_processes == 1 else {name: engine.reduce(value, "sum") for name, value in values.items()}
