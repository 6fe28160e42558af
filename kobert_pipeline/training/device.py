"""Where the training runs: one place that talks to `accelerate`."""

import os
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState

from kobert_pipeline.errors import UserError
from kobert_pipeline.training.plan import Plan


def device() -> torch.device:
    """This process's own GPU, or the CPU."""
    return (
        torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if torch.cuda.is_available()
        else torch.device("cpu")
    )


def accelerator(plan: Plan) -> Accelerator:
    """An Accelerator for this plan: one process, or one of those that `torchrun` or `accelerate launch` started. A
    process trains several plans in turn, so the shared state is set anew."""
    AcceleratorState._reset_state()
    warnings.filterwarnings(
        "ignore", "`broadcast_buffers` is deprecated"
    )  # accelerate has no word for what takes its place yet
    parallel = DistributedDataParallelKwargs(broadcast_buffers=False, gradient_as_bucket_view=True)
    engine = Accelerator(
        mixed_precision=plan.mixed_precision, cpu=not torch.cuda.is_available(), kwargs_handlers=[parallel]
    )
    engine.gradient_accumulation_steps = (
        1  # the loop does it itself; `accelerate config` may have set another, and losses be divided by it
    )
    return engine


def peak_flops(engine: Accelerator) -> float:
    """Operations a second that a large matrix product reaches here, in all processes together: what a step is held
    against."""
    cuda = engine.device.type == "cuda"
    size, kind = (4096 if cuda else 1024), torch.bfloat16 if engine.mixed_precision == "bf16" else torch.float32
    matrix = torch.ones(size, size, device=engine.device, dtype=kind)
    seconds = []
    for _ in range(4):
        began = time.perf_counter()
        matrix @ matrix
        if cuda:
            torch.cuda.synchronize(engine.device)
        seconds.append(time.perf_counter() - began)
    return engine.num_processes * 2 * size**3 / min(seconds)


def all_reduce_any(engine: Accelerator, *wishes: bool) -> list[bool]:
    """Of each wish whether any process has it, known to all."""
    if engine.num_processes == 1:
        return list(wishes)
    found: list[bool] = (
        engine.reduce(torch.tensor(wishes, dtype=torch.float32, device=engine.device), "sum") > 0
    ).tolist()
    return found


def check_same_step(engine: Accelerator, step: int, folder: Path) -> None:
    """Raise UserError, in every process, unless all found the checkpoint of the same step."""
    if engine.num_processes > 1:
        found = engine.gather(torch.tensor([step], device=engine.device)).tolist()
        if len(set(found)) > 1:
            raise UserError(
                f"the processes go on from different steps ({', '.join(map(str, found))}): {folder} must lie where "
                "every node sees it"
            )


def all_reduce_sum(engine: Accelerator, values: dict[str, Any]) -> dict[str, Any]:
    """The sums of scalar tensors over all processes."""
    return (
        values if engine.num_processes == 1 else {name: engine.reduce(value, "sum") for name, value in values.items()}
    )
