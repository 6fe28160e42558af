"""Devices and distributed training: the only module that configures `accelerate`."""

import os
import warnings
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState

from kobert_pipeline.errors import UserError
from kobert_pipeline.progress import current_display
from kobert_pipeline.training.plan import Plan

# oneDNN keeps what it compiled for each shape of a product in bf16, 1,024 of them by default, with their buffers: a
# fine-tuning with windows of up to 384 tokens grew to 11 GB in half an hour, with 64 to 4 GB, no slower. It reads this
# once, at its first product
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

PlanType = TypeVar("PlanType", bound=Plan)

BF16_INSTRUCTIONS = ("avx512_bf16", "avx10_2", "amx_bf16", "bf16", "sve_bf16")
"""Capabilities of a CPU, x86-64 or ARM, that multiplies in bf16; one of them is enough."""


def device() -> torch.device:
    """This process's own GPU, or the CPU where there is none."""
    if torch.cuda.is_available():
        # `torchrun` gives each of its processes this variable
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


NO_BF16 = "this CPU has no instructions for bf16 (AVX-512 BF16, AMX)"
"""How `kobert check` and a training begin to say so."""


def has_fast_bf16() -> bool:
    """Whether bf16 is faster than fp32 here: on a GPU, and on a CPU with instructions for it."""
    if torch.cuda.is_available():
        return True
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in BF16_INSTRUCTIONS)


def adapt_to_device(plan: PlanType) -> PlanType:
    """The plan, in fp32 where it asks for bf16 and the CPU has no instructions for it, and a note that says so."""
    if plan.mixed_precision == "no" or has_fast_bf16():
        return plan
    # such a CPU converts every factor: on an EPYC with AVX2 alone a training step took 20 times as long as in fp32
    current_display().say(f"note     {NO_BF16}, so fp32 is computed, which takes longer")
    return plan.model_copy(update={"mixed_precision": "no", "fp32_residual_connection": True})


def make_accelerator(plan: Plan) -> Accelerator:
    """An Accelerator with the plan's precision, for a single process or for the ranks of `torchrun` or `accelerate
    launch`."""
    # all Accelerators of a process share this state, and a process may train several plans of different precisions
    AcceleratorState._reset_state()
    # accelerate has no argument yet for what replaces broadcast_buffers
    warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated")
    # buffers do not change in training, so none is broadcast; gradients as views of the buckets save a copy of them
    parallel = DistributedDataParallelKwargs(broadcast_buffers=False, gradient_as_bucket_view=True)
    accelerator = Accelerator(
        mixed_precision=plan.mixed_precision, cpu=not torch.cuda.is_available(), kwargs_handlers=[parallel]
    )
    # the loop accumulates itself; another value, from `accelerate config`, would divide the losses by it once more
    accelerator.gradient_accumulation_steps = 1
    set_matmul_precision(plan)
    return accelerator


def set_matmul_precision(plan: Plan) -> None:
    """Let matrix products of a GPU round their fp32 factors to TF32 where the plan has no other faster type."""
    # set each time, because the setting belongs to the process, which may train several plans
    tf32 = torch.cuda.is_available() and plan.mixed_precision == "no"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")


def all_reduce_any(accelerator: Accelerator, *flags: bool) -> list[bool]:
    """Whether each flag is set on any rank; every rank gets the same answer."""
    if accelerator.num_processes == 1:
        return list(flags)
    local = torch.tensor(flags, dtype=torch.float32, device=accelerator.device)
    reduced: list[bool] = (accelerator.reduce(local, "sum") > 0).tolist()
    return reduced


def check_same_step(accelerator: Accelerator, step: int, folder: Path) -> None:
    """Raise UserError, on every rank, unless all ranks resume from the checkpoint of the same step."""
    if accelerator.num_processes > 1:
        steps = accelerator.gather(torch.tensor([step], device=accelerator.device)).tolist()
        if len(set(steps)) > 1:
            raise UserError(
                f"the ranks resume from different steps ({', '.join(map(str, steps))}); put {folder} on a file system "
                "that every node shares"
            )


def all_reduce_sum(accelerator: Accelerator, values: dict[str, Any]) -> dict[str, Any]:
    """Each scalar tensor summed over all ranks."""
    if accelerator.num_processes == 1:
        return values
    return {name: accelerator.reduce(value, "sum") for name, value in values.items()}
