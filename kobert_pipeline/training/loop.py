"""The training loop. It gets a module that turns a batch into a loss, and a function from the step to the batch, and nothing else.

Because the batch is a function of the step, resuming needs only weights, optimizer, random state and the step: a run that was stopped
and resumed equals one that never was, bit for bit on CPU.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from kobert_pipeline.training.checkpoint import load_checkpoint, save_checkpoint
from kobert_pipeline.training.device import accelerator
from kobert_pipeline.training.log import Log
from kobert_pipeline.training.optimizer import optimizer_of
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.schedule import learning_rate

LossModule = torch.nn.Module
"""`forward(batch)` returns (loss, {name: value}): a scalar to minimise and scalars to log."""

Evaluate = Callable[[int], dict[str, float]]


class Stopped(Exception):
    """The training stopped before its end (time, SIGTERM or Ctrl-C), after a checkpoint; the same command goes on."""


class NotFinite(Exception):
    """The loss or its gradient is not a number; the step was not taken."""


@dataclass
class Trained:
    """What a finished loop reports; `loss` is that of the last step, which does not depend on where a run was stopped."""

    steps: int
    loss: float = float("nan")
    seconds: float = 0.0
    evaluations: dict[int, dict[str, float]] = field(default_factory=dict)


def train(
    module: LossModule,
    batch_at: Callable[[int], Any],
    plan: Plan,
    steps: int,
    folder: Path,
    evaluate: Evaluate | None = None,
    name: str = "train",
) -> Trained:
    """Train for `steps` steps, going on from the newest checkpoint in `folder/checkpoints`.

    `evaluate(step)` is called every `plan.evaluate_every` steps and after the last. Raises `Stopped` after `plan.max_minutes` or on
    SIGTERM or SIGINT, `NotFinite` when the loss is not finite (the batch's step is in the message).
    """
    engine = accelerator(plan)
    optimizer = optimizer_of(module, plan)
    module, optimizer = engine.prepare(module, optimizer)
    plain, adam = engine.unwrap_model(module), getattr(optimizer, "optimizer", optimizer)
    began, result = time.monotonic(), Trained(steps)
    step = saved = load_checkpoint(folder / "checkpoints", plain, adam)
    since_log: list[dict[str, torch.Tensor]] = []
    with terminating() as asked, closing(Log(folder / "logs", steps, name)) as log:
        while step < steps:
            for group in adam.param_groups:
                group["lr"] = learning_rate(plan, step, steps)
            try:
                loss, values = take_step(engine, module, optimizer, batch_at(step), plan)
            except NotFinite as error:
                raise NotFinite(f"{error} at step {step} (not taken); the last checkpoint is step {saved}") from None
            step += 1
            since_log.append({"loss": loss, **values})
            if step % plan.log_every == 0 or step == steps:
                log.write(step, {**means(since_log), "learning_rate": adam.param_groups[0]["lr"]})
                since_log.clear()
            if evaluate and (step == steps or (plan.evaluate_every and step % plan.evaluate_every == 0)):
                module.eval()
                result.evaluations[step] = evaluate(step)
                log.write(step, {f"evaluation_{key}": value for key, value in result.evaluations[step].items()})
            late = plan.max_minutes is not None and time.monotonic() - began > 60 * plan.max_minutes
            if step < steps and (step % plan.checkpoint_every == 0 or late or asked):
                save_checkpoint(folder / "checkpoints", step, plain, adam, plan.keep_checkpoints)
                saved = step
                if late or asked:
                    raise Stopped(f"stopped after step {step} of {steps}, checkpoint saved; the same command goes on")
            result.loss = float(loss) if step == steps else result.loss
    result.seconds = time.monotonic() - began
    return result


def means(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The mean of every name over the rows that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: torch.stack([row[name].float() for row in rows if name in row]).mean() for name in names}


def take_step(
    engine: Accelerator, module: LossModule, optimizer: torch.optim.Optimizer, batch: Any, plan: Plan
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """One update; returns the loss and what the module logs. Raises `NotFinite` before the weights are touched."""
    module.train()
    with engine.autocast():
        loss, values = module(batch)
    if not torch.isfinite(loss):
        raise NotFinite(f"the loss is {loss.item()}")
    engine.backward(loss)
    norm = engine.clip_grad_norm_(module.parameters(), plan.max_grad_norm)
    if not torch.isfinite(norm):
        raise NotFinite(f"the norm of the gradient is {norm}")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach(), values


@contextmanager
def terminating() -> Iterator[list[int]]:
    """Yields a list that gets an entry when the process is asked to terminate or interrupted; elsewhere than in the main thread it stays
    empty."""
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
