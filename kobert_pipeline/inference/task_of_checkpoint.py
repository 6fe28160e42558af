"""The task of a checkpoint: the one that it names, or one for its head, with the labels of its model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.tasks.multilabel import Multilabel
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune.inference_state import fine_tuned_for
from kobert_pipeline.inference.loading import head_of
from kobert_pipeline.training.hf_config import output_names

TASK_BY_HEAD = {
    "ForSequenceClassification": "classification", "ForMultipleChoice": "choice", "ForQuestionAnswering": "korquad",
    "ForTokenClassification": "tagging",
}  # fmt: skip
"""{suffix of a model class: task} for checkpoints that do not name their task."""


def task_options(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The options of the task that a checkpoint was fine-tuned on, {} where it does not name one."""
    name, state = fine_tuned_for(config)
    if name not in Task.names():
        return {}
    task, options = Task.variant(name), recipe_options(folder / "training_manifest.json", name)
    # predictions depend on the config alone; the training manifest adds how files are read, such as column names
    inference = {key: state[key] for key in task.inference_options if key in state}
    return {**options, "name": name, **inference}


def recipe_options(training_manifest: Path, name: str) -> dict[str, Any]:
    """The options of the task `name` in the recipe of a training manifest, {} where it has none."""
    history = read_json(training_manifest) if training_manifest.is_file() else {}
    stages, recipe = (_object(history, key) for key in ("stages", "recipe"))
    for stage in stages:
        # finetune/NAME/SEED: the model's own is before those that it started from or learned from
        if stage.startswith("finetune/"):
            tuned = stage.split("/")[1]
            features = _object(_object(recipe, "finetune"), tuned).get("features") or tuned
            task = _object(_object(_object(recipe, "features"), str(features)), "task")
            return task if task.get("name") == name else {}
    return {}


def _object(value: Any, key: str) -> dict[str, Any]:
    """The JSON object under `key`, {} where there is none: the file may be anybody's, and hold anything."""
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def choose_task(values: dict[str, Any]) -> Task:
    """The task of these options. Raises UserError for options it does not have."""
    try:
        return Task.choose(values)
    except PydanticCustomError as error:
        raise UserError(f"task {values.get('name')}: {error.message()}") from None


def task_by_head(folder: Path, model: Any) -> dict[str, Any]:
    """The options of a task for the model's head, with the task's defaults. Raises UserError where no task has such a
    head."""
    name = next((name for head, name in TASK_BY_HEAD.items() if head_of(model).endswith(head)), None)
    if name is None:
        raise UserError(
            f"{folder} ({head_of(model)}) neither labels texts nor answers questions nor tags nor fills masks; "
            "use it through transformers"
        )
    if name == "classification" and model.config.problem_type == Multilabel.problem_type:
        name = "multilabel"
    elif name == "classification" and len(model.config.id2label) == 1:
        name = "regression"  # a softmax over one output is always 1
    elif name == "classification" and model.config.problem_type not in (None, "single_label_classification"):
        raise UserError(f"{folder} names no task and is for {model.config.problem_type}; use it through transformers")
    return {"name": name}


def texts_as_read(config: dict[str, Any], tokenizer: Any, texts: Sequence[str], max_length: int) -> list[str]:
    """The texts, of a question and its context the question as the task of a model's fine-tuning reads it."""
    name, state = fine_tuned_for(config)
    task = Task.choose({"name": name}).with_inference_state(state) if name and len(texts) == 2 else None
    if not isinstance(task, SpanTask):
        return list(texts)
    return [task.question_text(texts[0], tokenizer, max_length), texts[1]]


def for_model(task: Task, model: Any, label_names: Mapping[str, int | str] | None = None) -> Task:
    """The task, with the model's labels where its options do not give them, or these names. Raises UserError for a
    model with another head or other labels."""
    head = task.auto_class.removeprefix("AutoModel")
    if not head_of(model).endswith(head):
        raise UserError(
            f"the task {task.name} needs a model of the kind {head}, and this is a {head_of(model)}; choose "
            "another --task"
        )
    names_before, names = (output_names(model.config.id2label, renamed) for renamed in ({}, label_names or {}))
    return task.with_names(dict(zip(names_before, names, strict=True))).with_model_labels(names)
