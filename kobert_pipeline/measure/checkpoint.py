"""A published checkpoint made ready to be measured: its model, its tokenizer, and its task as it was fine-tuned."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from kobert_pipeline import options, recipe
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.files import read_json

BATCH = 64


@dataclass(frozen=True)
class Predicted:
    """What a checkpoint makes of examples: a prediction for each, their scores in percent, and of span tasks the characters (start, end) of
    the best span of each, where there is one."""

    features: Features
    predictions: list[Any]
    scores: dict[str, float]
    spans: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class Checkpoint:
    """Model, tokenizer and task; `max_length` is that of fine-tuning."""

    model: Any
    tokenizer: Any
    task: Task
    max_length: int

    @classmethod
    def load(cls, folder: Path, task: str | None = None, settings: list[str] | None = None) -> "Checkpoint":
        """What `folder` holds. `task` and `settings` (KEY=VALUE) lie over what it notes of its task. Raises UserError where that is too
        little, or where model and task do not fit."""
        from kobert_pipeline.use.load import load_model, load_tokenizer, task_of
        from kobert_pipeline.use.predict import windows_of

        model, tokenizer = load_model(folder), load_tokenizer(folder)
        noted = noted_task(folder, model.config)
        given, longest = noted.get("task", {}), noted.get("max_length", windows_of(model, tokenizer))
        if task is not None and given.get("name") != task:
            given = {"name": task}
        if not given:
            raise UserError(f"{folder} does not say which task it was fine-tuned on; name it with --task{did_you_mean('', Task.names())}")
        for setting in settings or []:
            recipe.put(given, setting)
        fitted = fitting(chosen(given), model)
        return cls(model, tokenizer, fitted.recalled(task_of(model)), longest)

    def __call__(self, examples: list[Example]) -> Predicted:
        """Predict by the code of fine-tuning, from features that the checkpoint's own tokenizer makes."""
        from kobert_pipeline.finetune.model import logits

        features = Features(self.task.featurize(examples, self.tokenizer, self.max_length), examples)
        found = logits(self.model, features, BATCH, self.device)
        predictions = self.task.predict(found, features)
        best = self.task.best_spans(found, features) if isinstance(self.task, SpanTask) else {}
        spans = {number: (start, end) for number, (_, start, end) in best.items()}
        return Predicted(features, predictions, self.task.score(predictions, examples), spans)

    @cached_property
    def device(self) -> Any:
        """Where the model runs; it is moved there."""
        from kobert_pipeline.training.device import device

        place = device()
        self.model.to(place)
        return place


def noted_task(folder: Path, config: Any) -> dict[str, Any]:
    """What a checkpoint notes of its fine-tuning: `task` (its options) and `max_length`, as far as they are known. The recipe in its
    training manifest says all; without it the config still says the name and the length."""
    found: dict[str, Any] = {}
    for name, noted in (getattr(config, "task_specific_params", None) or {}).items():
        reading = {key: value for key, value in noted.items() if key in SpanTask.reading + TaggingTask.reading}
        found = {"task": {"name": name} | reading} | {key: noted[key] for key in ("max_length",) if key in noted}
    path = folder / "training_manifest.json"
    if path.is_file():
        history = read_json(path)
        tuned = [stage.split("/")[1] for stage in history.get("stages", {}) if stage.startswith("finetune/")]
        made = history.get("recipe", {})
        for name in tuned[:1]:
            features = made.get("finetune", {}).get(name, {}).get("features") or name
            found |= {key: value for key, value in made.get("features", {}).get(features, {}).items() if key in ("task", "max_length")}
    return found


def chosen(given: dict[str, Any]) -> Task:
    """The task of these options. Raises UserError for options it does not have."""
    try:
        return Task.choose(given)
    except ValidationError as error:
        raise UserError(f"task {given.get('name')}: {options.explain(error)}") from None
    except PydanticCustomError as error:
        raise UserError(f"task: {error.message()}") from None


def fitting(task: Task, model: Any) -> Task:
    """The task, with the model's labels where it leaves them open. Raises UserError for a model with another head or other labels."""
    head, kind = task.auto_class.removeprefix("AutoModel"), type(model).__name__
    if not kind.endswith(head):
        raise UserError(f"the task {task.name} needs a model of the kind {head}, and this is a {kind}; name another --task")
    names = [model.config.id2label[number] for number in range(model.config.num_labels)]
    if isinstance(task, SequenceTask | TaggingTask) and task.labels is None:
        types = [name.removeprefix("B-") for name in names if name.startswith("B-")]
        task = task.model_copy(update={"labels": types if isinstance(task, TaggingTask) else names})
    wanted = list(task.config().get("id2label", {}).values())  # heads that score spans or choices name nothing
    if wanted and wanted != names:
        raise UserError(f"the checkpoint's labels are {', '.join(names)}, those of the task {task.name} {', '.join(wanted)}")
    return task
