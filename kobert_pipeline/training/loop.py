"""The training loop. It knows only a module that turns a batch into a loss, and a function from step to batch.

Because the batch is a function of the step, resuming needs only weights, optimizer, random states and the step: a run
that was stopped and resumed equals one that was not, bit for bit on CPU. A step may be computed in parts, by gradient
accumulation and by several ranks; the losses of the parts add up to the loss of the whole batch, so the result is the
same up to rounding.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from kobert_pipeline.distributed import is_distributed
from kobert_pipeline.errors import UserError
from kobert_pipeline.progress import current_display
from kobert_pipeline.training.checkpoint import CheckpointWriter, load_checkpoint
from kobert_pipeline.training.compilation import compile_for_first_batch, compile_in_place
from kobert_pipeline.training.device import all_reduce_any, all_reduce_sum, check_same_step, make_accelerator
from kobert_pipeline.training.finite import FiniteCheck
from kobert_pipeline.training.fsdp import get_full_tensor, shard_model
from kobert_pipeline.training.log import Log
from kobert_pipeline.training.optimizer import LrScales, learning_rate, optimizer_of, set_learning_rate
from kobert_pipeline.training.peak_flops import peak_flops
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.prefetch import BatchAt, PartsAt, prefetch
from kobert_pipeline.training.trackers import Tracking

PARTS_BETWEEN_CHECKS = {"cuda": 16}
"""Forward and backward passes after which the host looks whether all was finite, and the ranks ask each other whether
to stop, by type of device. Elsewhere they do so after every step, since there is nothing to wait for. Counted in parts
of batches, because a step of many parts takes long, and launchers kill ranks soon after a signal."""

LossModule = torch.nn.Module
"""A module whose `forward(batch)` returns (loss, {name: value}): a scalar to minimise and scalars to log. Over the
parts of a step both are summed, so each must be divided by the size of the whole step."""

Evaluate = Callable[[int], dict[str, float]]
"""`evaluate(step)` returns {name: value}."""


class Stopped(Exception):
    """The training stopped early (time limit, SIGTERM or Ctrl-C) after saving a checkpoint; the same command resumes
    it."""


LOWER_RATE = "the same command would fail again, so start over with --redo and a lower plan.learning_rate"
"""What to do about a loss that is not finite."""


class NotFinite(UserError):
    """The loss or the norm of its gradient is NaN or infinite, and neither that optimizer step nor any after it was
    taken. Also raised for a loss on held-out text that is not finite."""


@dataclass
class TrainingResult:
    """What a finished loop reports. `loss` is the last step's, not a running mean, so that it does not depend on where
    a run was stopped and resumed."""

    steps: int
    loss: float = float("nan")
    evaluations: dict[int, dict[str, float]] = field(default_factory=dict)


def train(
    module: LossModule,
    batch_at: BatchAt,
    plan: Plan,
    steps: int,
    folder: Path,
    evaluate: Evaluate | None = None,
    lr_scales: LrScales | None = None,
    should_stop: Callable[[int], bool] | None = None,
    tracking: Tracking | None = None,
    parts_at: PartsAt | None = None,
) -> TrainingResult:
    """Train for `steps` steps, resuming from the newest checkpoint in `folder/checkpoints`.

    `evaluate(step)` is called on every rank, every `plan.evaluate_every` steps and after the last one. The training
    ends early where `should_stop(step)` is true after an evaluation; it must be a function of the evaluations so far.
    `lr_scales`: parameters with a lower learning rate. `parts_at` is required by `plan.max_tokens_per_device`. Raises
    `Stopped` after `plan.max_minutes`, on SIGTERM or SIGINT (several ranks: at their next check), and `NotFinite` when
    the loss is not finite (its message names the step): at the next check, and before anything is logged, evaluated or
    saved.
    """
    accelerator = make_accelerator(plan)
    if plan.fsdp:
        shard_model(module, accelerator)
    optimizer = optimizer_of(module, plan, lr_scales)  # after sharding, which replaces the parameters
    if plan.torch_compile:
        compile_in_place(module, plan.use_regional_compilation)
    if accelerator.process_index:
        # other random numbers on each rank, or all would apply the same dropout masks; rank 0 keeps the plan's seed, so
        # that a single process gives what it always gave
        # the factor is beyond any number of ranks: seed 1 on rank 1 must not be seed 2 on rank 0
        torch.manual_seed(plan.seed * 1_000_003 + accelerator.process_index)
    if plan.fsdp:  # `prepare` would wrap the module in DDP
        optimizer = accelerator.prepare(optimizer)
    else:
        module, optimizer = accelerator.prepare(module, optimizer)
    # checkpoints hold the state of the module and optimizer inside accelerate's wrappers
    inner_module, inner_optimizer = accelerator.unwrap_model(module), getattr(optimizer, "optimizer", optimizer)
    started, result = time.monotonic(), TrainingResult(steps)
    step = load_checkpoint(folder / "checkpoints", inner_module, inner_optimizer, accelerator.process_index)
    # where nodes do not share a file system, each finds its own checkpoints, or none
    check_same_step(accelerator, step, folder)
    finite, unchecked_parts = FiniteCheck(inner_optimizer, accelerator.device), 0
    since_log: list[dict[str, torch.Tensor]] = []
    saved_at = time.monotonic()
    with (
        # outermost: until the writer has finished its checkpoint, a signal is only noted
        stop_on_signal() as signals,
        closing(Log(folder / "logs", steps, partial(peak_flops, accelerator), tracking, step)) as log,
        CheckpointWriter(folder / "checkpoints", plan.keep_checkpoints, step) as writer,
        # closed, or its threads would build more batches after an early end
        closing(prefetch(batch_at, step, steps, accelerator, plan, parts_at)) as prefetched,
    ):
        look = partial(raise_if_not_finite, finite, writer)
        batches: Iterator[list[Any]] = prefetched
        if plan.torch_compile:
            batches = compile_for_first_batch(accelerator, module, prefetched, plan, folder)
        log.step(step)
        for parts in batches:
            rate = learning_rate(plan, step, steps)
            set_learning_rate(inner_optimizer, rate)
            loss, values = take_step(accelerator, module, optimizer, parts, plan, finite)
            step += 1
            # an error of the writing thread, such as a full disk, ends the training now and not at the next checkpoint
            writer.raise_error()
            last = step == steps
            unchecked_parts += len(parts)  # on all ranks the same number
            check = unchecked_parts >= PARTS_BETWEEN_CHECKS.get(accelerator.device.type, 1)
            unchecked_parts *= not check
            # tensors of the device, read only where a line is logged, because reading one makes the host wait
            since_log.append({"loss": loss, **values})
            log.step(step)
            logs = step % plan.log_every == 0 or last
            if check or logs:
                look(step)
            if logs:
                log.write(step, {**all_reduce_sum(accelerator, means(since_log)), "learning_rate": rate})
                since_log.clear()
            # before the checkpoint of the same step: a run that resumes there does not evaluate it again
            if evaluate and (last or (plan.evaluate_every and step % plan.evaluate_every == 0)):
                look(step)
                module.eval()  # take_step switches back
                with log.paused_timer():
                    result.evaluations[step] = evaluate(step)
                log.write(step, {f"evaluation_{key}": value for key, value in result.evaluations[step].items()})
                # decided together: a rank that stops alone would leave the others waiting in their next collective
                if not last and all_reduce_any(accelerator, bool(should_stop and should_stop(step)))[0]:
                    last = True
                    log.end_early(step)
            late = plan.max_minutes is not None and time.monotonic() - started > 60 * plan.max_minutes
            old = plan.checkpoint_minutes is not None and time.monotonic() - saved_at > 60 * plan.checkpoint_minutes
            # ranks have different clocks and get signals at different steps, but must save and stop at the same step
            stopping = due = False
            # a single process asks nobody, so it can stop after any step
            if check or accelerator.num_processes == 1:
                stopping, due = all_reduce_any(accelerator, late or bool(signals), old)
            # none after the last step, since there is nothing left to train
            if not last and (step % plan.checkpoint_every == 0 or due or stopping):
                look(step)
                with log.paused_timer():
                    writer.save(step, inner_module, inner_optimizer, accelerator)
                saved_at = time.monotonic()
                if stopping:
                    writer.wait()
                    # a launcher ends all ranks as soon as one exits, so none may before the checkpoint is complete
                    accelerator.wait_for_everyone()
                    raise Stopped(f"stopped after step {step} of {steps}, checkpoint saved; the same command resumes")
            if last:
                # summed, because a rank has the loss of its own parts only
                result.steps, result.loss = step, float(all_reduce_sum(accelerator, {"loss": loss})["loss"])
                break
    accelerator.wait_for_everyone()
    return result


def means(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The mean of each name's values over the rows, NaN left out; names with no other value are left out too."""
    # a step without sentence pairs logs NaN for their loss, which must not spoil the mean of the others
    names = dict.fromkeys(name for row in rows for name in row)
    averaged = {name: torch.stack([row[name].float() for row in rows if name in row]).nanmean() for name in names}
    return {name: value for name, value in averaged.items() if not value.isnan()}


def raise_if_not_finite(finite: FiniteCheck, writer: CheckpointWriter, step: int) -> None:
    """Raise `NotFinite` if a step since the last look was not finite."""
    if bad := finite.first_bad_step(step):
        bad_step, loss, norm = bad
        writer.wait()
        raise NotFinite(
            f"the loss is {loss:g} and the norm of its gradient {norm:g} at step {bad_step} (not taken); the last "
            f"checkpoint is step {writer.saved_step}; {LOWER_RATE}"
        )


def take_step(
    accelerator: Accelerator,
    module: LossModule,
    optimizer: torch.optim.Optimizer,
    parts: Sequence[Any],
    plan: Plan,
    finite: FiniteCheck,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """One optimizer step over `parts`, which changes nothing if it is not `finite`; returns this rank's part of the
    loss and of the scalars to log. Nothing here waits for the device."""
    module.train()
    losses, logged = [], []
    for part_number, part in enumerate(parts, 1):
        # DDP averages gradients over the ranks in the backward pass; once, after the last part, is enough
        with nullcontext() if part_number == len(parts) else accelerator.no_sync(module):
            with accelerator.autocast():
                loss, values = module(part)
            # DDP and FSDP take the mean over ranks, but losses are shares of the step's loss, so their sum is needed
            accelerator.backward(loss * accelerator.num_processes if accelerator.num_processes > 1 else loss)
        # detached, or the graphs of all parts would stay in memory until the end of the step
        losses.append(loss.detach())
        logged.append(values)
    # under FSDP the norm is a DTensor of the ranks' parts, and `finite` needs the whole
    norm = get_full_tensor(accelerator.clip_grad_norm_(module.parameters(), plan.max_grad_norm))
    loss = torch.stack(losses).sum()
    finite.add(loss, norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss, {name: torch.stack([values[name] for values in logged]).sum() for name in logged[0]}


@contextmanager
def stop_on_signal() -> Iterator[list[int]]:
    """Yield a list that gets an entry for each SIGTERM or SIGINT; the previous handlers are restored afterwards. A
    second SIGINT raises KeyboardInterrupt, unless there are several ranks."""
    received: list[int] = []
    signals = (signal.SIGTERM, signal.SIGINT)

    def note(signum: int, frame: object) -> None:
        # the loop may look minutes later, if it is compiling; several ranks may get one Ctrl-C twice, from the terminal
        # and from their launcher
        if signum == signal.SIGINT and not is_distributed():
            if signum in received:
                raise KeyboardInterrupt
            # a Ctrl-C also ends the reader of the output (`| tee`), and the checkpoint must be saved all the same
            with suppress(OSError):
                current_display().say("stopping after this step; Ctrl-C again stops at once, without a checkpoint")
        received.append(signum)

    try:
        # only noted: a handler may run in the middle of a step, where no checkpoint can be saved
        previous = [signal.signal(signum, note) for signum in signals]
    except ValueError:  # not the main thread, where Python allows no handlers
        yield received
        return
    try:
        yield received
    finally:
        for signum, handler in zip(signals, previous, strict=True):
            signal.signal(signum, handler)
