"""Where the time of a pretraining step goes: a GPU's kernels, or a CPU's operators, by what they are for.

An operator is recognized by its name and the shape of its largest input. Compiled code is a category of its own outside
the optimizer, since one kernel of it does what several operators do.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.autograd.profiler_util import FunctionEvent

from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.training.device import device, make_accelerator
from kobert_pipeline.training.finite import FiniteCheck
from kobert_pipeline.training.loop import take_step
from kobert_pipeline.training.optimizer import optimizer_of, set_learning_rate
from kobert_pipeline.training.plan import Plan

STEPS, WARM_UP = 3, 2
"""Steps that are profiled, and steps before them."""
CLIPPING = "clipping"
OPTIMIZER = "clipping and optimizer"
COMPILED, REST = "compiled code", "weights (casts, sums) and the rest"
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mkldnn_linear", "_linear_pointwise"}
MOST_OPERATORS = 30
"""How many operators a profile lists, the slowest first."""


class Sizes(NamedTuple):
    """The sizes of a model and a batch, by which the shapes of operators are recognized."""

    hidden: int
    heads: int
    inner: int
    vocab: int
    tokens: int


def profile_step(module: LossModule, parts: list[Any], plan: Plan) -> dict[str, Any]:
    """Take a few steps on the parts of one batch, and say where their time went. On a GPU `milliseconds` are the times
    of kernels, and their sum is less than `seconds_per_step` where the GPU waits for Python."""
    config, accelerator = module.model.config, make_accelerator(plan)
    tokens = sum(part.input_ids.numel() for part in parts)
    sizes = Sizes(
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        config.vocab_size,
        tokens // len(parts),
    )
    optimizer = optimizer_of(module, plan)
    # the steps are only timed, and leave the weights as they are
    set_learning_rate(optimizer, 0.0)
    finite = FiniteCheck(optimizer, device())
    is_cuda = device().type == "cuda"

    def take_steps(count: int) -> float:
        """The seconds of a step."""
        started = time.perf_counter()
        for _ in range(count):
            take_step(accelerator, module, optimizer, parts, plan, finite)
        if is_cuda:
            torch.cuda.synchronize()
        return (time.perf_counter() - started) / count

    take_steps(WARM_UP)
    seconds = take_steps(STEPS)
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if is_cuda else []
    with named_clipping(accelerator), torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        take_steps(STEPS)
    rows = [row for event in profiler.events() or () for row in operations(event, is_cuda, sizes)]
    return {"tokens": tokens, "seconds_per_step": seconds, **summary(rows)}


@contextmanager
def named_clipping(accelerator: Any) -> Iterator[None]:
    """Let profiles tell the clipping of gradients from the backward pass before it."""
    clip = accelerator.clip_grad_norm_

    def clip_by_name(*arguments: Any) -> Any:
        with torch.profiler.record_function(CLIPPING):
            return clip(*arguments)

    accelerator.clip_grad_norm_ = clip_by_name
    try:
        yield
    finally:
        del accelerator.clip_grad_norm_


def operations(event: FunctionEvent, is_cuda: bool, sizes: Sizes) -> Iterator[tuple[str, str, float]]:
    """(category, name, microseconds) of the kernels that an operator starts or, on a CPU, of its own work."""
    category = category_of(event.name, event.input_shapes or [], is_optimizer(event), sizes)
    if is_cuda:
        yield from ((category, kernel.name, kernel.duration) for kernel in event.kernels)
    elif event.self_cpu_time_total and not event.name.startswith(("ProfilerStep", CLIPPING)):
        yield category, event.name, event.self_cpu_time_total


def is_optimizer(event: FunctionEvent | None) -> bool:
    """Whether an operator is a part of clipping or of the optimizer's step."""
    while event is not None:
        if event.name == CLIPPING or event.name.startswith("Optimizer."):
            return True
        event = event.cpu_parent
    return False


def category_of(name: str, input_shapes: Iterable[Any], in_optimizer: bool, sizes: Sizes) -> str:
    """What an operator is for."""
    shapes = [tuple(shape) for shape in input_shapes if shape and all(isinstance(size, int) for size in shape)]
    shape = max(shapes, key=lambda shape: torch.Size(shape).numel(), default=())
    operator = name.rpartition("::")[2]
    if in_optimizer:
        return OPTIMIZER
    if "::" not in name:
        return COMPILED if name.startswith(("triton", "Torch-Compiled", "CompiledFunction", "## Call")) else REST
    # by name first: the inputs of products and of attention have the sizes that are looked for below
    if operator in PRODUCTS:
        return "matrix products"
    if any(part in operator for part in ("varlen", "flash", "attention")):
        return "attention kernel"
    if sizes.vocab in shape:
        # (K, V) are logits, (H, V) is the transposed weight of the output layer
        is_logits = len(shape) == 2 and shape[1] == sizes.vocab and shape[0] != sizes.hidden
        return "loss over the vocabulary" if is_logits else "embedding and output weights"
    if "layer_norm" in operator:
        return "layer norms"
    width = sizes.hidden // sizes.heads
    if len(shape) >= 3 and sizes.heads in shape and shape[-1] in (width, width // 2):
        return "rotary positions, layout of q, k, v"
    rows = torch.Size(shape[:-1]).numel()
    if shape and shape[-1] in (sizes.inner, 2 * sizes.inner, 3 * sizes.hidden) and rows > sizes.tokens / 2:
        return "feed-forward and width of q, k, v"
    if shape and shape[-1] == sizes.hidden and rows > sizes.tokens / 8:
        return "residual additions and casts"
    return REST


def summary(rows: list[tuple[str, str, float]]) -> dict[str, Any]:
    """Kernels and milliseconds of a step by category and by operator, the slowest first."""
    total = sum(microseconds for _, _, microseconds in rows)

    def grouped(column: int, most: int | None = None) -> list[dict[str, Any]]:
        groups: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            groups[str(row[column])].append(row[2])
        longest = sorted(groups, key=lambda name: -sum(groups[name]))[:most]
        return [
            {
                "name": name,
                "count": round(len(groups[name]) / STEPS, 1),
                "milliseconds": round(sum(groups[name]) / STEPS / 1000, 3),
                "share": round(sum(groups[name]) / total, 3),
            }
            for name in longest
        ]

    return {
        "milliseconds": round(total / STEPS / 1000, 3),
        "categories": grouped(0),
        "operators": grouped(1, MOST_OPERATORS),
    }


def to_line(profile: dict[str, Any]) -> str:
    """The three longest categories, in a line."""
    shares = [f"{row['name']} {row['share']:.0%}" for row in profile["categories"][:3]]
    return f"{profile['milliseconds']:.1f} of {1000 * profile['seconds_per_step']:.1f} ms a step: {', '.join(shares)}"
