"""torch.compile for a whole model, or for its regions: layers, embeddings, heads and loss (regional compilation, as in
accelerate and torchtitan). All layers of a kind share one graph, so a deep model starts as fast as a shallow one."""

import hashlib
import json
import os
import platform
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.files import atomic_write
from kobert_pipeline.progress import current_display, report
from kobert_pipeline.training.device import all_reduce_any
from kobert_pipeline.training.plan import COMPILED_CODE, Plan

GRAPHS = 64
"""Graphs that all regions together may have; PyTorch's own limit of 8 is less than two phases of a ModernBERT need.
Beyond a limit PyTorch warns, and runs eagerly what it has no graph for."""


class CompileTimeout(BaseException):
    """Compiling took too long. No Exception, because PyTorch wraps those into its own."""


def compile_in_place(module: torch.nn.Module, regional: bool, **options: Any) -> None:
    """Compile the module, or with `regional` each of its regions, when it is first called. `options` are
    torch.compile's."""
    if regional:
        from torch._dynamo import config as dynamo
        from torch._inductor import config as inductor

        # all regions count together, since they are called through the same function of torch.nn.Module
        dynamo.recompile_limit = max(GRAPHS, dynamo.recompile_limit)
        if "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ:
            # so few kernels take seconds in one thread, and a pool of processes takes longer to start, or never answers
            inductor.compile_threads = 1
    for part in regions_of(module) if regional else [module]:
        # not `torch.compile(part)`: its wrapper would change the names of the parameters
        part.compile(**options)


def regions_of(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers, which are the members of the outermost ModuleLists (ALBERT has one, which is passed through many
    times), and all other modules that contain no ModuleList, but for single operators of PyTorch. Among the latter are
    modules inside one another, because a head may be called as a whole or in parts; what is called inside of a compiled
    one is part of its graph."""
    # not `fsdp.layer_lists`, which has inner lists too, and leaves out ALBERT's
    if isinstance(module, torch.nn.ModuleList):
        return list(module)
    inner = [region for child in module.children() for region in regions_of(child)]
    is_operator = type(module).__module__.startswith("torch.nn.")
    if is_operator or any(isinstance(part, torch.nn.ModuleList) for part in module.modules()):
        return inner
    return [module, *inner]


def compile_for_first_batch(
    accelerator: Accelerator, module: torch.nn.Module, batches: Iterator[list[Any]], plan: Plan, folder: Path
) -> Iterator[list[Any]]:
    """Compile by a forward and a backward pass over the first of `batches`, which leaves no trace in the training;
    returns all of them. After `plan.compile_timeout` seconds the module is left uncompiled instead.

    Code that an earlier training in `folder` compiled is taken from its file `COMPILED_CODE`, and then written there.
    """
    first = next(batches, None)
    if first is None:
        return batches
    report("compiling")  # which may take minutes
    load_compiled_code(folder / COMPILED_CODE)
    late = not _compile(accelerator, module, first[0], plan.compile_timeout)
    # decided together, since compiled and plain ranks would round differently
    if all_reduce_any(accelerator, late)[0]:
        for part in module.modules():
            # what Module.compile sets; PyTorch has no function that takes it back
            part._compiled_call_impl = None
        torch._dynamo.reset()
        current_display().say(
            f"note     not compiled within {plan.compile_timeout:g} seconds (compile_timeout), so the training goes on "
            "without compilation, which is slower"
        )
    elif is_main_process():
        save_compiled_code(folder / COMPILED_CODE)
    return chain([first], batches)


def _compile(accelerator: Accelerator, module: torch.nn.Module, part: Any, seconds: float | None) -> bool:
    """A forward and a backward pass over a part of a batch, without its gradients; returns whether the time sufficed.
    Random states are restored."""
    own_gpu = [accelerator.device] if accelerator.device.type == "cuda" else []
    module.train()
    try:
        with (
            _time_limit(seconds),
            torch.random.fork_rng(own_gpu),
            # the backward pass is compiled in the thread that runs it, and only the main thread can be interrupted
            torch.autograd.set_multithreading_enabled(False),
            accelerator.no_sync(module),  # in a collective, other ranks would wait for one that is late
        ):
            with accelerator.autocast():
                loss, _ = module(part)
            loss.backward()
    except CompileTimeout:
        return False
    finally:
        module.zero_grad(set_to_none=True)
    return True


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Raise CompileTimeout after so many seconds, in the main thread alone: Python interrupts no other."""

    def give_up(*_: object) -> None:
        raise CompileTimeout

    if seconds is None:
        yield
        return
    try:
        previous = signal.signal(signal.SIGALRM, give_up)
    except ValueError:  # not the main thread
        yield
        return
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def save_compiled_code(path: Path) -> None:
    """Write what was compiled in this process: a line of JSON that says for which software and device, and PyTorch's
    artifacts."""
    artifacts = torch.compiler.save_cache_artifacts()
    if artifacts is None:
        return
    header = {**_made_for(), "sha256": hashlib.sha256(artifacts[0]).hexdigest()}
    with atomic_write(path) as part:
        part.write_bytes(json.dumps(header).encode() + b"\n" + artifacts[0])


def load_compiled_code(path: Path) -> None:
    """Let torch.compile find the code in a file of `save_compiled_code`, unless it was compiled for other software or
    another device, or the file is damaged: a note says so."""
    if not path.is_file():
        return
    line, _, artifacts = path.read_bytes().partition(b"\n")
    expected = {**_made_for(), "sha256": hashlib.sha256(artifacts).hexdigest()}
    try:
        header = json.loads(line)
        different = [name for name, value in expected.items() if header.get(name) != value]
    except (ValueError, AttributeError):
        different = ["header"]
    if different:
        current_display().say(f"note     {path} is not used: its {' and '.join(different)} differ, so all is compiled")
    else:
        torch.compiler.load_cache_artifacts(artifacts)


def _made_for() -> dict[str, str]:
    """What compiled code depends on besides the model."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    triton = version("triton") if find_spec("triton") else ""
    return {"torch": torch.__version__, "triton": triton, "device": device}
