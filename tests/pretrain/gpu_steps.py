"""Whole training steps on the CPU as a GPU takes them: with PyTorch's operator for packed sequences, compiled without
the machine code. `torchrun gpu_steps.py FOLDER` trains on several ranks whose gradients are in many buckets, plain and
compiled."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import reference_kernel
import torch
from rows import SMALL, VOCAB_SIZE
from synthetic_shards import articles, reviews, shards_of
from torch._dynamo import lookup_backend
from torch._dynamo.utils import counters

from kobert_pipeline.distributed import destroy_process_group, is_main_process
from kobert_pipeline.files import write_json
from kobert_pipeline.pretrain import model as pretraining
from kobert_pipeline.pretrain.model import LossModule, batches
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.phases import PhaseSchedule
from kobert_pipeline.training import device
from kobert_pipeline.training.checkpoint import save_weights
from kobert_pipeline.training.compilation import compile_in_place
from kobert_pipeline.training.device import all_reduce_sum, make_accelerator
from kobert_pipeline.training.finite import FiniteCheck
from kobert_pipeline.training.loop import take_step
from kobert_pipeline.training.prefetch import prefetch

sys.path.append(str(Path(__file__).parents[1]))  # started as a script, which finds the modules beside it alone
from sgd import sgd

PHASES = [
    {"share": 0.1, "batch_tokens": 256},
    {"share": 0.2, "batch_tokens": 512},
    {"share": 0.3, "batch_tokens": 1024},
    {"share": 0.3, "batch_tokens": 2048},
    {"share": 0.1, "batch_tokens": 2048, "max_length": 64},
]
"""As in recipe `base`: batches grow, and the last phase has longer sequences."""
BUCKET_MB = 1
"""Size of a bucket of gradients, the smallest that torch.compile takes."""
MANY_BUCKETS = {"name": "bert", "num_hidden_layers": 3, "hidden_size": 128}
"""A model with several of them."""
FULL_PRECISION = {"mixed_precision": "no", "learning_rate": 2e-3}
"""Options with which ranks and compilers change the order of sums alone."""

Backend = Callable[[torch.fx.GraphModule, list[Any]], Any] | str


def begun(architecture: dict[str, Any], objective: Any, **plan: Any) -> tuple[PretrainOptions, PhaseSchedule, Any]:
    """The options and schedule of a small pretraining, and its untrained LossModule."""
    options = PretrainOptions(
        objective=objective, architecture={**SMALL, **architecture},
        plan={"mixed_precision": "bf16", "torch_compile": True, **plan},
        max_length=48, batch_tokens=256, total_tokens=26_000, phases=PHASES,
    )  # fmt: skip
    schedule = PhaseSchedule(shards_of(articles(40), reviews(10)), options.parts(), VOCAB_SIZE, 1)
    torch.manual_seed(0)
    model = options.architecture.model(options.architecture.config(VOCAB_SIZE), options.objective.head)
    residuals = options.plan.fp32_residual_connection
    return options, schedule, LossModule(model, options.objective, options.architecture, residuals)


def trained(
    architecture: dict[str, Any], objective: Any, backend: Backend | None, **plan: Any
) -> tuple[list[float], LossModule]:
    """The loss of every step of a small schedule, and the model after it; compiled if there is a `backend`."""
    options, schedule, inner = begun(architecture, objective, **{"max_tokens_per_device": 1024, **plan})
    accelerator, optimizer = make_accelerator(options.plan), sgd(inner, options.plan)
    if backend:
        compile_in_place(inner, options.plan.use_regional_compilation, backend=backend)
    module, optimizer = accelerator.prepare(inner, optimizer)
    finite = FiniteCheck(optimizer.optimizer, accelerator.device)
    losses = []
    for parts in prefetch(
        batches(schedule, options.plan), 0, schedule.steps, accelerator, options.plan, schedule.parts_at
    ):
        loss, _ = take_step(accelerator, module, optimizer, parts, options.plan, finite)
        losses.append(float(all_reduce_sum(accelerator, {"loss": loss})["loss"]))
    return losses, inner


if __name__ == "__main__":
    folder, compiled_parts = Path(sys.argv[1]), list[Any]()

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        compiled_parts.append(graph)
        return lookup_backend("aot_eager")(graph, inputs)

    reference_kernel.register()
    pretraining.uses_varlen = lambda place, plan: True
    device.DistributedDataParallelKwargs = partial(device.DistributedDataParallelKwargs, bucket_cap_mb=BUCKET_MB)
    for way, chosen in (("plain", None), ("compiled", backend)):
        losses, module = trained(MANY_BUCKETS, "mlm_nsp", chosen, **FULL_PRECISION, max_tokens_per_device=512)
        if is_main_process():
            save_weights(folder / f"{way}.safetensors", module)
            graphs = {"graphs": counters["stats"]["unique_graphs"], "parts": len(compiled_parts)}
            write_json(folder / f"{way}.json", {"losses": losses, "breaks": dict(counters["graph_break"]), **graphs})
    destroy_process_group()
