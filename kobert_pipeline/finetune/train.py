"""Train on one split, evaluate on another, keep the best model. Only those two splits are passed in, so that no choice
can depend on a test set."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.rows import pad_id_of
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.tasks.contrastive import Contrastive
from kobert_pipeline.finetune.batching import Batches, BatchSchedule
from kobert_pipeline.finetune.contrastive import ContrastiveModule
from kobert_pipeline.finetune.distill import SOFT_LABELS, SoftLabels
from kobert_pipeline.finetune.encoder_layers import layerwise_lr_decay
from kobert_pipeline.finetune.model import TaskModule, predict, refuse_without_end
from kobert_pipeline.finetune.plan import FinetunePlan, length_of
from kobert_pipeline.training.device import device
from kobert_pipeline.training.evaluations import EVALUATIONS, Evaluations, rounded
from kobert_pipeline.training.loop import train
from kobert_pipeline.training.trackers import Tracking


class DevEvaluator:
    """Called with a step, evaluates the model on dev. The best model so far is saved in `best_folder`, if one is
    given."""

    def __init__(
        self, model: Any, task: Task, dev: Features, plan: FinetunePlan, out: Path, best_folder: Path | None
    ) -> None:
        self.model, self.task, self.dev, self.plan, self.best_folder = model, task, dev, plan, best_folder
        self.evaluations = Evaluations(out / EVALUATIONS)

    def __call__(self, step: int) -> dict[str, float]:
        """The scores of `step`, the one that selects models first: progress shows that one."""
        scores = predict(self.model, self.task, self.dev, device(), calibrate=True, activity="predicting dev").scores
        # compared with earlier steps only: of equal scores the first wins, and after a resume a step evaluated again
        # must not lose against its own score
        select, evaluations = self.task.selection_score, self.evaluations.values
        earlier = [select(values) for other_step, values in evaluations.items() if other_step < step]
        is_best = all(select(rounded(scores)) > score for score in earlier)
        best_folder = self.best_folder if is_best and is_main_process() else None
        if best_folder:
            self.model.save_pretrained(best_folder)
        values = self.evaluations.add(step, scores, is_best, best_folder)
        metric = self.task.selection_metric(values)
        return {metric: values[metric], **values}

    def best(self, until: int) -> int:
        """The step with the best score up to step `until`, the first of equals."""
        return max(
            (step for step in self.evaluations.values if step <= until),
            key=lambda step: (self.task.selection_score(self.evaluations[step]), -step),
        )

    def should_stop(self, step: int) -> bool:
        """Whether the last `early_stopping_patience` evaluations were no better than an earlier one."""
        patience = self.plan.early_stopping_patience
        if patience is None:
            return False
        # evaluations after `step` are on disk where a killed run is resumed; it must stop at the same step all the same
        best = self.best(step)
        return sum(best < evaluated <= step for evaluated in self.evaluations.values) >= patience


def loss_module(
    model: Any, task: Task, plan: FinetunePlan, class_weights: np.ndarray | None = None
) -> tuple[torch.nn.Module, FinetunePlan]:
    """The module that computes the task's loss, and the plan for the training loop."""
    if not isinstance(task, Contrastive):
        return TaskModule(model, class_weights), plan
    # the module itself splits what is too large for a device, since it needs whole batches
    return ContrastiveModule(model, task, plan.max_tokens_per_device), plan.model_copy(
        update={"max_tokens_per_device": None}
    )


def width_multiple(plan: FinetunePlan, device_type: str) -> int:
    """The number that the widths of training batches are multiples of. In bf16, tensor cores are fastest with multiples
    of 8; on CPU oneDNN keeps memory for each shape, which even widths halve for 2 % more tokens."""
    if plan.mixed_precision != "bf16":
        return 1
    return 2 if device_type == "cpu" else 8


def train_and_select(
    model: Any,
    task: Task,
    train_set: Features,
    dev: Features,
    plan: FinetunePlan,
    out: Path,
    best_folder: Path | None = None,
    tracking: Tracking | None = None,
    soft: SoftLabels | None = None,
    class_weights: np.ndarray | None = None,
) -> dict[str, Any]:
    """Train `model` with `plan`, whose seed is the run's, and `class_weights` (labels,), and select the best step.

    `soft`: texts with soft labels that are learned before the training set. Returns steps, loss, the best step and its
    scores on dev; its weights are in `best_folder` afterwards. Raises UserError as `refuse_without_end` does."""
    refuse_without_end(model, train_set)
    make_batches = partial(
        Batches, batch_size=plan.batch_size, seed=plan.seed, pad_id=pad_id_of(model),
        pad_to_multiple_of=width_multiple(plan, device().type),
    )  # fmt: skip
    batches = make_batches(train_set, task.targets(train_set), class_weights=class_weights)
    epochs, evaluate_every = length_of(plan, batches.per_epoch)
    parts = [(batches, epochs)]
    if soft:
        parts.insert(0, (make_batches(soft.texts, {SOFT_LABELS: soft.texts.arrays[SOFT_LABELS]}), soft.epochs))
    schedule = BatchSchedule(parts)
    # counted in epochs of the labelled examples, also while soft labels are learned
    plan = plan.model_copy(update={"evaluate_every": evaluate_every})
    on_dev = DevEvaluator(model, task, dev, plan, out, best_folder)
    lr_scales = layerwise_lr_decay(model, plan.layerwise_lr_decay) if plan.layerwise_lr_decay < 1 else None
    module, plan = loss_module(model, task, plan, class_weights)
    trained = train(
        module, partial(schedule.batch, device=device()), plan, schedule.steps, out, on_dev,
        lr_scales=lr_scales, should_stop=on_dev.should_stop, tracking=tracking, parts_at=schedule.parts_at,
    )  # fmt: skip
    best, evaluations = on_dev.best(trained.steps), on_dev.evaluations
    if best_folder and is_main_process():
        evaluations.verify_best(best_folder)
    return {"steps": trained.steps, "train_loss": round(trained.loss, 4), "best_step": best, "dev": evaluations[best]}
