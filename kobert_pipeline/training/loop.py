"""The training loop. It gets a module that turns a batch into a loss, and a function from the step to the batch, and
nothing else.

Because the batch is a function of the step, resuming needs only weights, optimizer, random state and the step: a run
that was stopped and resumed equals one that never was, bit for bit on CPU. A step may be taken in parts, one after the
other (`gradient_accumulation_steps`) and by several processes (`torchrun`): their losses add up to that of the whole
batch, so nothing changes but rounding.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from kobert_pipeline.training.checkpoint import load_checkpoint, save_checkpoint, save_tensors
from kobert_pipeline.training.device import accelerator, all_reduce_any, all_reduce_sum, check_same_step, peak_flops
from kobert_pipeline.training.fsdp import get_full_tensor, shard_model
from kobert_pipeline.training.log import Log
from kobert_pipeline.training.optimizer import LrScales, optimizer_of, set_learning_rate
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.prefetch import BatchAt, prefetch
from kobert_pipeline.training.schedule import learning_rate

LossModule = torch.nn.Module
"""`forward(batch)` returns (loss, {name: value}): a scalar to minimise and scalars to log, which add up over the parts
of a step."""

Evaluate = Callable[[int], dict[str, float]]


class Stopped(Exception):
    """The training stopped before its end (time, SIGTERM or Ctrl-C), after a checkpoint; the same command goes on."""


class NotFinite(Exception):
    """The loss or its gradient is not a number; the step was not taken."""


@dataclass
class Trained:
    """What a finished loop reports; `loss` is that of the last step, which does not depend on where a run was
    stopped."""

    steps: int
    loss: float = float("nan")
    seconds: float = 0.0
    evaluations: dict[int, dict[str, float]] = field(default_factory=dict)


def train(
    module: LossModule,
    batch_at: BatchAt,
    plan: Plan,
    steps: int,
    folder: Path,
    evaluate: Evaluate | None = None,
    name: str = "train",
    lr_scales: LrScales | None = None,
    should_stop: Callable[[int], bool] | None = None,
) -> Trained:
    """Train for `steps` steps, going on from the newest checkpoint in `folder/checkpoints`.

    `evaluate(step)` is called every `plan.evaluate_every` steps and after the last, in every process; the training ends
    early behind one after which `enough(step)`, a function of what was measured up to there. `shares`: parameters that
    learn slower. Raises `Stopped` after `plan.max_minutes` or on SIGTERM or SIGINT, `NotFinite` when the loss is not
    finite (the step and the file of its batch are in the message).
    """
    engine = accelerator(plan)
    if plan.fsdp:
        shard_model(module, engine)
    optimizer = optimizer_of(module, plan, lr_scales)
    if plan.torch_compile:
        module.compile()
    if engine.process_index:
        torch.manual_seed(plan.seed * 1_000_003 + engine.process_index)  # processes drop and draw differently
    module, optimizer = (module, engine.prepare(optimizer)) if plan.fsdp else engine.prepare(module, optimizer)
    plain, adam = engine.unwrap_model(module), getattr(optimizer, "optimizer", optimizer)
    began, result = time.monotonic(), Trained(steps)
    step = saved = load_checkpoint(folder / "checkpoints", plain, adam, engine.process_index)
    check_same_step(engine, step, folder)
    since_log: list[dict[str, torch.Tensor]] = []
    saved_at = time.monotonic()
    with (
        stop_on_signal() as asked,
        closing(Log(folder / "logs", steps, name, partial(peak_flops, engine))) as log,
        closing(prefetch(batch_at, step, steps, engine, plan)) as batches,
    ):
        for parts in batches:
            rate = learning_rate(plan, step, steps)
            set_learning_rate(adam, rate)
            try:
                loss, values = take_step(engine, module, optimizer, parts, plan)
            except NotFinite as error:
                kept = save_tensors(
                    folder / "logs" / f"not-finite-step-{step}-{engine.process_index}.safetensors", parts
                )
                raise NotFinite(
                    f"{error} at step {step} (not taken); the last checkpoint is step {saved}, the batch is in {kept}"
                ) from None
            step += 1
            last = step == steps
            since_log.append({"loss": loss, **values})
            if step % plan.log_every == 0 or last:
                log.write(step, {**all_reduce_sum(engine, means(since_log)), "learning_rate": rate})
                since_log.clear()
            if evaluate and (last or (plan.evaluate_every and step % plan.evaluate_every == 0)):
                module.eval()
                with log.paused_timer():
                    result.evaluations[step] = evaluate(step)
                log.write(step, {f"evaluation_{key}": value for key, value in result.evaluations[step].items()})
                last = last or all_reduce_any(engine, bool(should_stop and should_stop(step)))[0]
            late = plan.max_minutes is not None and time.monotonic() - began > 60 * plan.max_minutes
            old = plan.checkpoint_minutes is not None and time.monotonic() - saved_at > 60 * plan.checkpoint_minutes
            stopping, due = all_reduce_any(engine, late or bool(asked), old)
            if not last and (step % plan.checkpoint_every == 0 or due or stopping):
                with log.paused_timer():
                    save_checkpoint(folder / "checkpoints", step, plain, adam, plan.keep_checkpoints, engine)
                saved, saved_at = step, time.monotonic()
                if stopping:
                    # a launcher ends all when one has ended: none may before the checkpoint is whole
                    engine.wait_for_everyone()
                    raise Stopped(f"stopped after step {step} of {steps}, checkpoint saved; the same command goes on")
            if last:
                result.steps, result.loss = step, float(all_reduce_sum(engine, {"loss": loss})["loss"])
                break
    engine.wait_for_everyone()
    result.seconds = time.monotonic() - began
    return result


def means(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The mean of every name over the rows in which it is a number; without names that are one in none."""
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: torch.stack([row[name].float() for row in rows if name in row]).nanmean() for name in names}
    return {name: value for name, value in found.items() if not value.isnan()}


def take_step(
    engine: Accelerator, module: LossModule, optimizer: torch.optim.Optimizer, parts: Sequence[Any], plan: Plan
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """One update; returns this process's part of the loss and of what is logged. Raises `NotFinite` before the weights
    are touched."""
    module.train()
    losses, logged = [], []
    for number, part in enumerate(parts, 1):
        with nullcontext() if number == len(parts) else engine.no_sync(module):
            with engine.autocast():
                loss, values = module(part)
            engine.backward(
                loss * engine.num_processes if engine.num_processes > 1 else loss
            )  # the mean over processes is taken
        losses.append(loss.detach())
        logged.append(values)
    norm = get_full_tensor(engine.clip_grad_norm_(module.parameters(), plan.max_grad_norm))
    loss = torch.stack(losses).sum()
    if not torch.isfinite(loss + norm):  # one wait for the device: all is under way by now
        raise NotFinite(f"the loss is {loss.item():g} and the norm of its gradient {norm.item():g}")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss, {name: torch.stack([values[name] for values in logged]).sum() for name in logged[0]}


@contextmanager
def stop_on_signal() -> Iterator[list[int]]:
    """Yields a list that gets an entry when the process is asked to terminate or interrupted; elsewhere than in the
    main thread it stays empty."""
    asked: list[int] = []
    signals = (signal.SIGTERM, signal.SIGINT)
    try:
        before = [signal.signal(one, lambda number, frame: asked.append(number)) for one in signals]
    except ValueError:
        yield asked
        return
    try:
        yield asked
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)
