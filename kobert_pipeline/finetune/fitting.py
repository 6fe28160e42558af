"""Train on one split, measure on another, keep the best. It is handed those two and no other, so that no choice can
rest on a test set."""

from functools import partial
from pathlib import Path
from typing import Any

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.batching import Batches
from kobert_pipeline.finetune.layers import layerwise_lr_decay
from kobert_pipeline.finetune.model import TaskModule, predict
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.training.device import device
from kobert_pipeline.training.evaluations import EVALUATIONS, Evaluations, rounded
from kobert_pipeline.training.loop import train


class DevEvaluator:
    """Called with a step, it measures the model on dev, and keeps it in the folder `kept`, if there is one, when it is
    the best so far."""

    def __init__(self, model: Any, task: Task, dev: Features, plan: FinetunePlan, out: Path, kept: Path | None) -> None:
        self.model, self.task, self.dev, self.plan, self.kept = model, task, dev, plan, kept
        self.found = Evaluations(out / EVALUATIONS)

    def __call__(self, step: int) -> dict[str, float]:
        """The scores of `step`."""
        scores = predict(self.model, self.task, self.dev, device(), calibrate=True).scores
        # the first of equals is kept, and a step measured again after a resume is not better than itself
        earlier = [values[self.task.metric] for other, values in self.found.values.items() if other < step]
        better = all(rounded(scores)[self.task.metric] > score for score in earlier)
        kept = self.kept if better and is_main_process() else None
        if kept:
            self.model.save_pretrained(kept)
        return self.found.add(step, scores, kept)

    def best(self, until: int) -> int:
        """The best step up to `until`, the first of equals."""
        return max(
            (step for step in self.found.values if step <= until),
            key=lambda step: (self.found[step][self.task.metric], -step),
        )

    def should_stop(self, step: int) -> bool:
        """Whether as many evaluations as the plan has patience were no better than one before them. It looks at those
        up to `step` alone: a run that goes on after a kill ends where it would have ended."""
        patience = self.plan.early_stopping_patience
        return patience is not None and sum(self.best(step) < other <= step for other in self.found.values) >= patience


def train_and_select(
    model: Any, task: Task, train_set: Features, dev: Features, plan: FinetunePlan, out: Path, kept: Path | None = None
) -> dict[str, Any]:
    """Train `model` by `plan`, whose seed is the run's. Steps, loss, the best step and its scores on dev; `kept` then
    holds its weights."""
    # under bf16 the CPU's library keeps memory for every shape it has met: gigabytes, for as many widths as windows
    # have
    multiple = 8 if plan.mixed_precision == "bf16" else 1
    batches = Batches(train_set, task.targets(train_set), plan.batch_size, plan.seed, pad_to_multiple_of=multiple)
    plan = plan.model_copy(update={"evaluate_every": plan.evaluate_every or batches.per_epoch})
    on_dev = DevEvaluator(model, task, dev, plan, out, kept)
    slower = layerwise_lr_decay(model, plan.layerwise_lr_decay) if plan.layerwise_lr_decay < 1 else None
    trained = train(
        TaskModule(model), partial(batches.batch, device=device()), plan, plan.epochs * batches.per_epoch, out, on_dev,
        name="finetune", lr_scales=slower, should_stop=on_dev.should_stop,
    )  # fmt: skip
    best = on_dev.best(trained.steps)
    if kept and is_main_process():
        on_dev.found.verify_kept(kept)
    return {"steps": trained.steps, "train_loss": round(trained.loss, 4), "best_step": best, "dev": on_dev.found[best]}
