"""Features + a pretrained model -> a fine-tuned model for one seed. The model is picked on dev; the test set is read
once, at the end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from kobert_pipeline.config.options import Options, Seed
from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, write_json_lines
from kobert_pipeline.finetune.plan import FinetunePlan, Plans
from kobert_pipeline.training.evaluations import EVALUATIONS, read_evaluations
from kobert_pipeline.training.hf_config import max_input_length
from kobert_pipeline.training.plan import TRAINING_WRITES

VERSION = 1
MODEL = "model"
"""Folder of the best model below the run's."""
MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors", "feature_based.json")
WRITES = (*(f"{MODEL}/{name}" for name in MODEL_FILES), "predictions.jsonl", *TRAINING_WRITES)
"""Patterns of every file that the stage writes to its folder."""


class FinetuneOptions(Options):
    """One fine-tuning."""

    features: str | None = None
    """Name of the featurized set; default: the name of this fine-tuning."""
    init: Literal["pretrained", "scratch"] = "pretrained"
    """`scratch`: the same network without pretraining, as a control."""
    seeds: list[Seed] = Field([1], min_length=1)
    """One run each."""
    encoder: Literal["tuned", "frozen"] = Field("tuned", exclude_if=lambda value: value == "tuned")
    """`frozen`: the feature-based approach (Devlin et al. 2019, section 5.3), for tasks that tag: a BiLSTM learns over
    the encoder's last four layers, which stay as they were. Such a model is not published."""
    plan: Plans = Plans()
    """Optimizer, schedule, epochs; lists of learning rates and epochs are tried."""

    @model_validator(mode="after")
    def _layers(self) -> "FinetuneOptions":
        if self.encoder == "frozen" and self.plan.layerwise_lr_decay < 1:
            raise ValueError(
                f"encoder is 'frozen' and plan.layerwise_lr_decay {self.plan.layerwise_lr_decay:g}, but no layer of it "
                "learns; leave one out"
            )
        return self


def run(
    options: FinetuneOptions,
    seed: int,
    features: Path,
    pretrained: Path,
    out: Path,
    trials: Mapping[str, Path] | None = None,
) -> dict[str, Any]:
    """Train with `seed`, keep the best epoch in `out/model`, write `predictions.jsonl` for the test set. `trials`: the
    folders of the settings that were tried, of which the best is taken."""
    task = task_of(features)
    plan = chosen_plan(options, task, trials or {})
    counts = {name: getattr(plan, name) for name in options.plan.varied} | _fitted(
        options, plan, seed, features, pretrained, out, MODEL
    )
    if not is_main_process():
        return {}  # what follows is read, measured and written by the first process alone
    return counts | evaluate_test(task, features, out)


def trial(
    options: FinetuneOptions, plan: FinetunePlan, seed: int, features: Path, pretrained: Path, out: Path
) -> dict[str, Any]:
    """Try one setting: train as `run` does and leave the scores on dev, but no model. The test set is not opened."""
    from kobert_pipeline.training.loop import NotFinite

    try:
        return _fitted(options, plan, seed, features, pretrained, out, None)
    except (
        NotFinite
    ) as error:  # as happens to learning rates that are too high: it is not the one to take, and the others are tried
        (out / EVALUATIONS).unlink(missing_ok=True)
        return {"not_finite": str(error).partition(";")[0]}


def chosen_setting(options: FinetuneOptions, features: Path, trials: Mapping[str, Path]) -> dict[str, str]:
    """What a run depends on of the settings that were tried: the one that was chosen. Another list may choose the
    same."""
    return {"setting that is best on dev": best_of(trials, task_of(features))} if trials else {}


def chosen_plan(options: FinetuneOptions, task: Task, trials: Mapping[str, Path]) -> FinetunePlan:
    """The plan of the best setting, or the only one."""
    settings = options.plan.settings()
    return settings[best_of(trials, task)] if options.plan.varied else next(iter(settings.values()))


def best_of(trials: Mapping[str, Path], task: Task) -> str:
    """The setting whose best step has the best score on dev, the first of equals. Raises UserError where none came as
    far as a score."""
    scores = {}
    for name, folder in trials.items():
        if found := read_evaluations(folder / EVALUATIONS):
            scores[name] = max(values[task.metric] for values in found.values())
    if not scores:
        raise UserError(
            f"no setting that was tried came as far as a score on dev ({', '.join(trials)}); give lower learning rates"
        )
    return max(scores, key=lambda name: scores[name])


def task_of(features: Path) -> Task:
    """The task of a featurized set."""
    return Task.choose(read_json(features / "task.json")["task"])


def _fitted(
    options: FinetuneOptions,
    plan: FinetunePlan,
    seed: int,
    features: Path,
    pretrained: Path,
    out: Path,
    kept: str | None,
) -> dict[str, Any]:
    """Train on train and choose on dev; the other split of `features` is not touched."""
    import torch

    from kobert_pipeline.finetune.fitting import train_and_select
    from kobert_pipeline.finetune.model import build
    from kobert_pipeline.training.device import device
    from kobert_pipeline.training.log import quiet_transformers

    task, max_length = task_of(features), read_json(features / "task.json")["max_length"]
    positions = max_input_length(read_json(pretrained / "config.json"))
    if max_length > positions:
        raise UserError(
            f"features were made with max_length {max_length}, beyond the model's {positions} positions; lower "
            "max_length"
        )
    train, dev = (Features.load(features / split) for split in ("train", "dev"))
    plan = plan.model_copy(update={"seed": seed})
    quiet_transformers()
    torch.manual_seed(seed)
    model = build(task, pretrained, options.init == "scratch", plan, max_length, options.encoder == "frozen").to(
        device()
    )
    return train_and_select(model, task, train, dev, plan, out, out / kept if kept else None)


def evaluate_test(task: Task, features: Path, out: Path) -> dict[str, Any]:
    """Scores of `out/model` on the test set, if there is one, and its predictions in `out/predictions.jsonl`."""
    from kobert_pipeline.finetune.model import load, predict
    from kobert_pipeline.training.device import device
    from kobert_pipeline.training.hf_config import fine_tuned_for

    if not (features / "test").is_dir():
        return {}
    test = Features.load(features / "test")
    model = load(out / MODEL).to(device())
    _, state = fine_tuned_for(model.config.to_dict())
    found = predict(model, task.with_inference_state(state), test, device())
    rows = zip(test.examples, found.predictions, strict=True)
    write_json_lines(out / "predictions.jsonl", ({"id": example["id"], "prediction": given} for example, given in rows))
    return {"test": {name: round(value, 4) for name, value in found.scores.items()}}
