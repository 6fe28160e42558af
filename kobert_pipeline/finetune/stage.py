"""Features + a pretrained model -> a fine-tuned model for one seed. The model is picked on dev; the test set is read once, at the end."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, write_json_lines
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.options import Options
from kobert_pipeline.processes import leads

VERSION = 1
MODEL = "model"
"""Folder of the best model below the run's."""


class FinetuneOptions(Options):
    """One fine-tuning."""

    features: str | None = None
    """Name of the featurized set; default: the name of this fine-tuning."""
    weights: Literal["pretrained", "random"] = "pretrained"
    """`random`: the same network without pretraining, as a control."""
    seeds: list[int] = Field([1], min_length=1)
    """One run each."""
    encoder: Literal["tuned", "frozen"] = "tuned"
    """`frozen`: the feature-based approach (Devlin et al. 2019, section 5.3), for tasks that tag: a BiLSTM learns over the encoder's last
    four layers, which stay as they were. Such a model is not published."""
    plan: FinetunePlan = FinetunePlan()
    """Optimizer, schedule, epochs."""


def run(options: FinetuneOptions, seed: int, features: Path, pretrained: Path, out: Path) -> dict[str, Any]:
    """Train with `seed`, keep the best epoch in `out/model`, write `predictions.jsonl` for the test set."""
    import torch

    from kobert_pipeline.finetune.batching import Batches
    from kobert_pipeline.finetune.model import TaskModule, build, load, measure
    from kobert_pipeline.training.device import device
    from kobert_pipeline.training.evaluations import Evaluations
    from kobert_pipeline.training.log import quiet_transformers
    from kobert_pipeline.training.loop import train

    described = read_json(features / "task.json")
    task: Task = Task.choose(described["task"])
    positions = read_json(pretrained / "config.json")["max_position_embeddings"]
    if described["max_length"] > positions:
        raise UserError(
            f"features were made with max_length {described['max_length']}, beyond the model's {positions} positions; lower max_length"
        )
    splits = {name: Features.load(features / name) for name in ("train", "dev", "test") if (features / name).is_dir()}
    plan = options.plan.model_copy(update={"seed": seed})
    quiet_transformers()
    torch.manual_seed(seed)
    place = device()
    model = build(task, pretrained, options.weights == "random", plan, described["max_length"], options.encoder == "frozen").to(place)
    batches = Batches(splits["train"], task.targets(splits["train"]), plan.batch_size, seed)
    plan = plan.model_copy(update={"evaluate_every": plan.evaluate_every or batches.per_epoch})
    evaluations = Evaluations(out / "evaluations.json")

    def on_dev(step: int) -> dict[str, float]:
        _, scores = measure(model, task, splits["dev"], 2 * plan.batch_size, place, settle=True)
        # the first of equals is kept, and a step measured again after a resume is not better than itself
        if leads() and all(scores[task.metric] > values[task.metric] for other, values in evaluations.values.items() if other < step):
            model.save_pretrained(out / MODEL)
        return evaluations.add(step, scores)

    steps = plan.epochs * batches.per_epoch
    trained = train(TaskModule(model), partial(batches.batch, device=place), plan, steps, out, on_dev, name="finetune")
    if not leads():
        return {}  # what follows is read, measured and written by the first process alone
    best = max(evaluations.values, key=lambda step: (evaluations[step][task.metric], -step))
    if not (out / MODEL / "model.safetensors").is_file():
        raise UserError(f"{out / MODEL}, the model of the best step ({best}), is missing; delete {out} and run again")
    model = load(task, out / MODEL).to(place)
    counts: dict[str, Any] = {"steps": steps, "train_loss": round(trained.loss, 4), "best_step": best, "dev": evaluations[best]}
    if "test" in splits:
        predictions, scores = measure(model, task, splits["test"], 2 * plan.batch_size, place)
        rows = zip(splits["test"].examples, predictions, strict=True)
        write_json_lines(out / "predictions.jsonl", ({"id": example["id"], "prediction": given} for example, given in rows))
        counts["test"] = {name: round(value, 4) for name, value in scores.items()}
    return counts
