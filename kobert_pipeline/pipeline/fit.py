"""`kobert pretrain --minutes N --fit`: the token budget that fits a time on this machine.

The budget takes the place of `total_tokens` in the options, so in the fingerprint, and every schedule follows from it.
The records of the stage say under `FIT` how it was found. From then on it is the budget of this run for every command,
as long as the recipe's own `total_tokens` stays the same.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kobert_pipeline.distributed import is_distributed
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json_lines
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pipeline.run import Fit, Run, checkpoint_to_continue, origin
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.stage import EVALUATIONS, FEWEST_STEPS
from kobert_pipeline.progress import current_display, report
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.stage_folder import is_started

FIT = "fit"
"""Entry of the records of a pretraining whose budget was fitted to a time."""
WARM_UP, TIMED = 6, 30
"""How many steps of each phase only compile and allocate, and how many steps are timed after them."""
MEASURING_SHARE = 0.1
"""Share of the time in which fewer steps are timed, but at least `WARM_UP`, where `TIMED` ones would take longer."""
USED_SHARE = 0.95
"""Share of the time that is filled; the rest is for checkpoints, the final files, and steps that take longer."""


def recorded_fit(recipe: Recipe, run: Run) -> Fit | None:
    """The fit in the records of the run's pretraining, if it has one and the recipe's budget is still the same."""
    with suppress(UserError):  # a damaged record is reported when the stage is verified
        fit: Fit | None = manifest.read_record(run.run_dir / "pretrain").get(FIT)
        if fit and fit["recipe_total_tokens"] == recipe.pretrain.total_tokens:
            return fit
    return None


def no_fit(recipe: Recipe, run: Run) -> None:
    """The recipe's own budget, whatever the records say."""


def fit_before(redo: list[str] | None) -> Callable[[Recipe, Run], Fit | None]:
    """Where the budget of a run is from in which these stages are run again: from the records, unless pretraining is
    one of them."""
    return no_fit if "pretrain" in (redo or []) else recorded_fit


def with_fit(recipe: Recipe, fit: Fit | None) -> Recipe:
    """The recipe with the budget of `fit`."""
    if fit is None:
        return recipe
    pretrain = recipe.pretrain.model_copy(update={"total_tokens": fit["total_tokens"]})
    return recipe.model_copy(update={"pretrain": pretrain})


def measured_fit(minutes: float, deadline: float, redo: bool, recipe: Recipe, run: Run) -> Fit:
    """The fit of the run's pretraining to the time until `deadline` (`time.monotonic()`), which is measured now unless
    its records have one. `redo`: whether the pretraining is to be done again.

    Raises UserError in distributed training, for a pretraining that was started without a fit, and for too little time.
    """
    if is_distributed():
        raise UserError("--fit measures a single process; set pretrain.total_tokens, or start without a launcher")
    if not redo and (fit := recorded_fit(recipe, run)):
        return fit
    folder = run.run_dir / "pretrain"
    if not redo and is_started(folder):
        raise UserError(
            f"{folder} was started without --fit, or for another total_tokens; leave --fit out to resume it, or add "
            "--redo to start anew"
        )
    current_display().begin("fit", 1, 1)
    for stage in ("shards", origin(recipe).tokenizer[0]):
        manifest.verify(run.run_dir / stage)
    with tempfile.TemporaryDirectory(prefix=".fit-", dir=run.run_dir) as out:
        speed = measure(recipe, run, 60 * minutes * MEASURING_SHARE, Path(out))
    total = speed.tokens_in(deadline - time.monotonic(), recipe.pretrain.plan.evaluate_every)
    per_second = round(1 / speed.seconds_per_token)
    budgets = f"{total:,} (in the recipe {recipe.pretrain.total_tokens:,})"
    current_display().say(f"fitted   pretrain.total_tokens = {budgets}, at {per_second:,} tokens/s")
    return {
        "minutes": minutes,
        "total_tokens": total,
        "recipe_total_tokens": recipe.pretrain.total_tokens,
        "tokens_per_second": per_second,
        "start_seconds": round(speed.start_seconds, 2),
        "evaluation_seconds": round(speed.evaluation_seconds, 2),
    }


@dataclass(frozen=True)
class Speed:
    """What was measured. Where phases differ, these are means by their shares of the tokens."""

    seconds_per_token: float
    tokens_per_step: float
    start_seconds: float
    """Seconds from the start of the stage to its first step, with word vectors, and what the first steps took
    longer."""
    evaluation_seconds: float

    def tokens_in(self, seconds: float, evaluate_every: int | None) -> int:
        """The number of tokens that a whole pretraining sees in so many seconds. Raises UserError for none."""
        # one evaluation before the first step and one after the last
        fixed = self.start_seconds + 2 * self.evaluation_seconds
        per_step = self.evaluation_seconds / (evaluate_every or FEWEST_STEPS)
        per_token = self.seconds_per_token + per_step / self.tokens_per_step
        tokens = int((USED_SHARE * seconds - fixed) / per_token)
        if not evaluate_every:  # a long training evaluates a fixed number of times
            rest = USED_SHARE * seconds - fixed - EVALUATIONS * self.evaluation_seconds
            tokens = max(tokens, int(rest / self.seconds_per_token))
        if tokens < self.tokens_per_step:
            lacking = (fixed + self.tokens_per_step * per_token) / USED_SHARE - seconds
            raise UserError(
                f"--minutes does not suffice for a step, since starting and evaluating take {fixed:.0f} seconds; give "
                f"at least {lacking / 60 + 0.1:.1f} more"
            )
        return tokens


def measure(recipe: Recipe, run: Run, seconds: float, out: Path) -> Speed:
    """Start the run's pretraining twice and take some steps in every phase, in the folder `out`. All of the timed ones
    take at most about so many seconds, unless that is too little for any."""
    options = recipe.pretrain
    # the first training of a process compiles and allocates what the second one, like the real one, uses again
    _measure(options.model_copy(update={"word_vectors": None}), recipe, run, WARM_UP, 0, out / "first")
    return _measure(options, recipe, run, WARM_UP + TIMED, seconds, out / "second")


def _measure(
    options: "PretrainOptions", recipe: Recipe, run: Run, steps: int, seconds: float, out: Path
) -> Speed:  # fmt: skip
    from kobert_pipeline.pretrain.held_out import HeldOutEvaluator
    from kobert_pipeline.pretrain.model import LossModule
    from kobert_pipeline.pretrain.phases import PhaseSchedule
    from kobert_pipeline.pretrain.stage import initial_model
    from kobert_pipeline.shards.format import Shards
    from kobert_pipeline.tokenizer.loading import vocabulary_in
    from kobert_pipeline.training.device import adapt_to_device, device

    report("measuring the speed")
    started, tokenizer = time.monotonic(), run.folder(origin(recipe).tokenizer[1])
    plan, (vocabulary, special) = adapt_to_device(options.plan), vocabulary_in(tokenizer)
    train_shards, held_out = (Shards.open(run.folder("shards"), split, special) for split in ("train", "held_out"))
    checkpoint, parts = checkpoint_to_continue(recipe, run), options.parts()
    options, model, _ = initial_model(options, train_shards, vocabulary, tokenizer, checkpoint)
    module = LossModule(model, options.objective, options.architecture, plan.fp32_residual_connection).to(device())
    planning = time.monotonic()
    schedule = PhaseSchedule(train_shards, parts, vocabulary.get_vocab_size(), plan.seed)
    planning_seconds, start_seconds = time.monotonic() - planning, time.monotonic() - started
    evaluating = time.monotonic()
    HeldOutEvaluator(module, options, plan.mixed_precision, held_out, vocabulary, out)(0)
    evaluation_seconds, seconds_per_token, steps_per_token = time.monotonic() - evaluating, 0.0, 0.0
    for phase, (tokens, _) in enumerate(parts):
        extra_seconds, step_seconds = _time_steps(
            module, plan, schedule, phase, steps, seconds / len(parts), out / str(phase)
        )
        loader, share = schedule.loaders[phase], tokens / options.total_tokens
        start_seconds += extra_seconds
        # every epoch is planned when it begins, which takes as long as for the first
        step_seconds += planning_seconds / len(parts) / loader.steps_per_epoch()
        seconds_per_token += share * step_seconds / loader.tokens_per_step()
        steps_per_token += share / loader.tokens_per_step()
    # shares are of tokens, so the mean is of steps per token, and tokens per step are its inverse
    return Speed(seconds_per_token, 1 / steps_per_token, start_seconds, evaluation_seconds)


def _time_steps(
    module: Any, plan: Any, schedule: Any, phase: int, steps: int, seconds: float, out: Path
) -> tuple[float, float]:
    """Take `steps` steps of a phase, or fewer within `seconds`: the seconds that the first ones took longer, and those
    of a later one (0 if there are only first ones)."""
    from kobert_pipeline.pretrain.model import batches
    from kobert_pipeline.training.loop import Stopped, train

    # nothing is learned in so few steps, so the learning rate stays low; no checkpoint is written
    quick = {"warmup": 1.0, "log_every": WARM_UP, "checkpoint_every": steps, "checkpoint_minutes": None}
    plan = plan.model_copy(update=quick | {"evaluate_every": WARM_UP, "max_minutes": None})
    first, batch_at = schedule.ends[phase - 1] if phase else 0, batches(schedule, plan, module)
    started = time.monotonic()

    def at(step: int) -> int:
        # a phase with fewer steps than are taken begins again
        return first + step % (schedule.ends[phase] - first)

    try:
        train(
            module, lambda step, *part: batch_at(at(step), *part), plan, steps, out, evaluate=lambda step: {},
            should_stop=lambda step: step > WARM_UP and time.monotonic() - started > seconds,
            parts_at=lambda step, max_tokens: schedule.parts_at(at(step), max_tokens),
        )  # fmt: skip
    except Stopped:  # by a signal or the time limit; there is nothing to resume
        raise KeyboardInterrupt from None
    # a line for every WARM_UP steps (`log_every`): the first is written when the timed steps begin
    lines = [line for line in read_json_lines(out / "logs" / "log.jsonl") if "learning_rate" in line]
    timed = max(1, lines[-1]["step"] - WARM_UP)
    step_seconds = (lines[-1]["seconds"] - lines[0]["seconds"]) / timed
    return max(0.0, lines[0]["seconds"] - WARM_UP * step_seconds), step_seconds
