"""The training loop. It gets a module that turns a batch into a loss, and a function from the step to the batch, and nothing else.

Because the batch is a function of the step, resuming needs only weights, optimizer, random state and the step: a run that was stopped
and resumed equals one that never was, bit for bit on CPU.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kobert_pipeline.training.checkpoint import load_checkpoint, save_checkpoint
from kobert_pipeline.training.device import accelerator
from kobert_pipeline.training.log import Log
from kobert_pipeline.training.optimizer import adamw
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.schedule import learning_rate

LossModule = torch.nn.Module
"""`forward(batch)` returns (loss, {name: value}): a scalar to minimise and scalars to log."""

Evaluate = Callable[[int], dict[str, float]]


class Stopped(Exception):
    """The training stopped before its end (time or SIGTERM), after a checkpoint; the same command goes on."""


class NotFinite(Exception):
    """The loss is not a number; the step was not taken."""


@dataclass
class Trained:
    """What a finished loop reports."""

    steps: int
    loss: float
    seconds: float
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
    SIGTERM, `NotFinite` when the loss is not finite (the batch's step is in the message).
    """
    engine = accelerator(plan)
    optimizer = adamw(module, plan)
    module, optimizer = engine.prepare(module, optimizer)
    plain, adam = engine.unwrap_model(module), getattr(optimizer, "optimizer", optimizer)
    began, loss, result = time.monotonic(), float("nan"), Trained(steps, float("nan"), 0.0)
    log = Log(folder / "logs", steps, name)
    step = load_checkpoint(folder / "checkpoints", plain, adam)
    saved = step
    pending: list[torch.Tensor] = []
    with terminating() as asked:
        while step < steps:
            module.train()
            for group in adam.param_groups:
                group["lr"] = learning_rate(plan, step, steps)
            with engine.autocast():
                tensor, values = module(batch_at(step))
            if not torch.isfinite(tensor):
                raise NotFinite(
                    f"the loss of step {step} is {tensor.item()}; the step was not taken and the last checkpoint is step {saved}"
                )
            engine.backward(tensor)
            engine.clip_grad_norm_(module.parameters(), plan.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1
            pending.append(tensor.detach())
            if step % plan.log_every == 0 or step == steps:
                loss = torch.stack(pending).mean().item()
                pending.clear()
                log.write(
                    step,
                    {"loss": loss, **{key: float(value) for key, value in values.items()}, "learning_rate": adam.param_groups[0]["lr"]},
                )
            if evaluate and (step == steps or (plan.evaluate_every and step % plan.evaluate_every == 0)):
                module.eval()
                result.evaluations[step] = evaluate(step)
                log.write(step, {f"evaluation_{key}": value for key, value in result.evaluations[step].items()})
            late = plan.max_minutes is not None and time.monotonic() - began > 60 * plan.max_minutes
            if step < steps and (step % plan.checkpoint_every == 0 or late or asked):
                save_checkpoint(folder / "checkpoints", step, plain, adam, plan.keep_checkpoints)
                saved = step
                if late or asked:
                    log.close()
                    raise Stopped(f"stopped after step {step} of {steps}, checkpoint saved; the same command goes on")
    log.close()
    result.loss, result.seconds = loss, time.monotonic() - began
    return result


@contextmanager
def terminating() -> Iterator[list[int]]:
    """Yields a list that gets an entry when the process is asked to terminate; elsewhere than in the main thread it stays empty."""
    asked: list[int] = []
    try:
        before = signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    except ValueError:
        yield asked
        return
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)
