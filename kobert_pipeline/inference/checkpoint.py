"""Load a finished checkpoint: its model, its tokenizer, and its task as it was fine-tuned. It is a published folder or,
before that, the model folder of a fine-tuning with the tokenizer folder of its run. No code of a folder is ever run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from kobert_pipeline.config import options, recipe_file
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.manifest import is_finished, verify
from kobert_pipeline.training.hf_config import fine_tuned_for, inference_length

MODEL_FILES = ("config.json", "model.safetensors")
NEEDED = (*MODEL_FILES, "tokenizer_config.json", "morphemes.json")
BY_HEAD = {
    "ForSequenceClassification": "classification", "ForMultipleChoice": "choice", "ForQuestionAnswering": "korquad",
    "ForTokenClassification": "tagging",
}  # fmt: skip
"""What a head can do whose checkpoint names no task."""


@dataclass(frozen=True)
class Checkpoint:
    """Model, tokenizer and task. `max_length` is that of fine-tuning: texts are read as they were there."""

    model: Any
    tokenizer: Any
    task: Task
    max_length: int

    @classmethod
    def load(cls, folder: Path, task: str | None = None, settings: list[str] | None = None) -> "Checkpoint":
        """The published checkpoint in `folder`; `task` and `settings` (KEY=VALUE) override what it says of its task.
        Raises UserError where it says nothing and `task` is not given, or where model and task do not fit."""
        model, tokenizer = load(folder)
        found = task_options(folder, model.config.to_dict())
        if task is not None and found.get("name") != task:
            found = {"name": task}
        if not found:
            raise UserError(
                f"{folder} does not say which task it was fine-tuned on; name it with "
                f"--task{did_you_mean('', Task.names())}"
            )
        for setting in settings or []:
            recipe_file.apply_setting(found, setting)
        return cls.of(model, tokenizer, found)

    @classmethod
    def of(cls, model: Any, tokenizer: Any, given: dict[str, Any]) -> "Checkpoint":
        """A loaded model with the task of the options `given`. Raises UserError where they do not fit."""
        longest = min(inference_length(model.config.to_dict()), tokenizer.model_max_length)
        return cls(model, tokenizer, fit_to_model(choose_task(given), model), longest)

    @cached_property
    def device(self) -> Any:
        """Where the model runs; it is moved there."""
        from kobert_pipeline.training.device import device

        place = device()
        self.model.to(place)
        return place


def load(folder: Path, tokenizer_folder: Path | None = None) -> tuple[Any, Any]:
    """Model and tokenizer of a published checkpoint or, with the `tokenizer_folder` of its run, of a fine-tuning that
    is not published. Raises UserError where one of them does not load, or they are not of one another."""
    model = load_model(folder, tokenizer_folder is None)
    tokenizer = load_tokenizer(tokenizer_folder or folder)
    tokens = model.config.vocab_size
    if len(tokenizer) != tokens:
        raise UserError(
            f"{tokenizer_folder or folder} has a tokenizer of {len(tokenizer)} tokens and the model in {folder} "
            f"{tokens}; "
            f"{'name the tokenizer of its run' if tokenizer_folder else 'publish it again'}"
        )
    tokenizer.model_max_length = min(tokenizer.model_max_length, inference_length(model.config.to_dict()))
    return model, tokenizer


def load_model(folder: Path, with_tokenizer: bool = True) -> Any:
    """The model with the head that was saved, in evaluation mode. Without its tokenizer, the model of a fine-tuning in
    a run will do."""
    from kobert_pipeline.finetune import feature_based, model
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    needed = NEEDED if with_tokenizer else MODEL_FILES
    if not with_tokenizer and (folder / feature_based.CONFIG).is_file():
        needed = (feature_based.CONFIG, feature_based.WEIGHTS)
    refuse_incomplete(folder, needed)
    with one_sentence(folder):
        return model.load(folder)


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a checkpoint or of a run's tokenizer stage, by this package's code."""
    from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE, MorphemeTokenizer

    if not (folder / VOCABULARY_FILE).is_file():
        raise UserError(
            f"{folder} holds no {VOCABULARY_FILE}; name a published checkpoint or a tokenizer folder of a run"
        )
    with one_sentence(folder):
        return MorphemeTokenizer.from_pretrained(folder, trust_remote_code=False)


def refuse_incomplete(folder: Path, needed: tuple[str, ...] = NEEDED) -> None:
    """Raise UserError unless `folder` is a published checkpoint and, where it has a manifest, unchanged since."""
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"{folder} is not a published checkpoint: {', '.join(missing)} missing; `kobert publish` makes one"
        )
    if is_finished(folder):
        verify(folder)


@contextmanager
def one_sentence(folder: Path) -> Iterator[None]:
    """Whatever a library says of the files in `folder` as a UserError: they may be anybody's, and anything may be wrong
    with them."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        damaged = "model.safetensors is damaged: " if type(error).__name__ == "SafetensorError" else ""
        said = " ".join(str(error).split())[:300]
        raise UserError(
            f"{folder} does not load: {damaged}{said or type(error).__name__}; copy or publish it again"
        ) from error


def task_options(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The options of the task that a checkpoint was fine-tuned on, {} where it names none. What predictions depend
    on is in its config; the recipe in its training manifest adds how files are read, such as the names of their
    columns."""
    name, state = fine_tuned_for(config)
    if name not in Task.names():
        return {}
    read_as = files_options(folder / "training_manifest.json", name)
    return {
        **read_as,
        "name": name,
        **{key: state[key] for key in choose_task({"name": name}).inference_options if key in state},
    }


def files_options(manifest: Path, name: str) -> dict[str, Any]:
    """The options of the task `name` in the recipe of a training manifest, {} where that says nothing of it."""
    history = read_json(manifest) if manifest.is_file() else {}
    stages, made = (_object(history, key) for key in ("stages", "recipe"))
    for stage in stages:
        if stage.startswith("finetune/"):
            tuned = stage.split("/")[1]
            features = _object(_object(made, "finetune"), tuned).get("features") or tuned
            found = _object(_object(_object(made, "features"), str(features)), "task")
            return found if found.get("name") == name else {}
    return {}


def _object(value: Any, key: str) -> dict[str, Any]:
    """The JSON object under `key`, {} where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def choose_task(given: dict[str, Any]) -> Task:
    """The task of these options. Raises UserError for options it does not have."""
    try:
        return Task.choose(given)
    except ValidationError as error:
        raise UserError(f"task {given.get('name')}: {options.first_error(error)}") from None
    except PydanticCustomError as error:
        raise UserError(f"task: {error.message()}") from None


def task_by_head(folder: Path, model: Any) -> dict[str, Any]:
    """The options of a task that the model's head can do. Raises UserError where no task has such a head."""
    name = next((name for head, name in BY_HEAD.items() if head_of(model).endswith(head)), None)
    if name is None:
        kind = type(model).__name__
        raise UserError(
            f"{folder} ({kind}) neither labels texts nor answers questions nor tags nor fills masks; use it through "
            "transformers"
        )
    if name == "classification" and model.config.problem_type not in (None, "single_label_classification"):
        raise UserError(f"{folder} names no task and is for {model.config.problem_type}; use it through transformers")
    return {"name": name}


def head_of(model: Any) -> str:
    """The name of the model's class, by which `transformers` tells what its head is for."""
    kind = type(model).__name__
    return "ForTokenClassification" if kind == "FeatureBasedTagger" else kind


def fit_to_model(task: Task, model: Any) -> Task:
    """The task, with the model's labels where it leaves them open. Raises UserError for a model with another head or
    other labels."""
    head = task.auto_class.removeprefix("AutoModel")
    if not head_of(model).endswith(head):
        raise UserError(
            f"the task {task.name} needs a model of the kind {head}, and this is a {type(model).__name__}; name "
            "another --task"
        )
    names = [str(name) for _, name in sorted(model.config.id2label.items())]
    if isinstance(task, TaggingTask):
        return with_types(task, names)
    if isinstance(task, SequenceTask) and task.labels is None:
        task = task.model_copy(update={"labels": names})
    expected = list(task.config().get("id2label", {}).values())  # heads that score spans or choices name nothing
    if expected and expected != names:
        raise UserError(
            f"the checkpoint's labels are {', '.join(names[:9])}, those of the task {task.name} {', '.join(expected)}"
        )
    return task


def with_types(task: TaggingTask, names: list[str]) -> TaggingTask:
    """The task with the types of entities that the labels `names` of a model mark. Raises UserError for labels of
    another form."""
    types = [name.removeprefix("B-") for name in names[1::2]]
    task = task if task.labels is not None else task.model_copy(update={"labels": types})
    expected = list(task.config()["id2label"].values())
    if names != expected or not types or len(set(types)) < len(types):
        of_task = f"{', '.join(expected)}" if task.labels != types else "O, B-X, I-X, B-Y, I-Y and so on"
        raise UserError(f"the checkpoint's labels are {', '.join(names[:9])}; {of_task} were expected")
    return task


def files_to_upload(folder: Path) -> dict[str, int]:
    """{file: bytes} of a finished checkpoint that may be passed on."""
    refuse_incomplete(folder)
    made = manifest.read(folder)
    if without := made["counts"].get("files_without_licence", 0):
        raise UserError(
            f"{folder} was made from {without} files without a stated licence (its README.md lists them); give each "
            "its `license` in the "
            f"recipe, or say in publish's option `permission` why it may be passed on, and publish again"
        )
    return {name: file["size"] for name, file in made["files"].items()}
