"""Load a checkpoint: its model, its tokenizer, and the task that it was fine-tuned on.

A checkpoint is a published folder, any folder that `transformers` reads, a repository of the Hugging Face Hub, or the
model folder of a fine-tuning and the tokenizer folder of its run. No code in a folder is ever run (`trust_remote_code`
is False): the folder may come from anybody.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from kobert_pipeline.checkpoint.source import lacks_of_tokenizer, load_checkpoint_tokenizer, local_folder, locate
from kobert_pipeline.config import options, recipe_file
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.manifest import is_finished, verify
from kobert_pipeline.tokenizer.loading import is_morpheme_tokenizer
from kobert_pipeline.training.hf_config import fine_tuned_for, inference_length, model_class
from kobert_pipeline.training.weight_files import ONNX, ONNX_INT8, WEIGHTS, weight_files

MODEL_FILES = ("config.json", WEIGHTS)
TORCH = "torch"
BACKENDS = {TORCH: WEIGHTS, "onnx": ONNX, "onnx-int8": ONNX_INT8}
"""{backend: the file of a published checkpoint that it computes}"""
TASK_BY_HEAD = {
    "ForSequenceClassification": "classification", "ForMultipleChoice": "choice", "ForQuestionAnswering": "korquad",
    "ForTokenClassification": "tagging",
}  # fmt: skip
"""{suffix of a model class: task} for checkpoints that do not name their task."""


@dataclass(frozen=True)
class Checkpoint:
    """A model with its tokenizer and task. `max_length` is that of fine-tuning, so that texts are truncated or split
    into windows as in training."""

    model: Any
    tokenizer: Any
    task: Task
    max_length: int

    @classmethod
    def load(cls, folder: Path, task: str | None = None, settings: list[str] | None = None) -> "Checkpoint":
        """Load the published checkpoint in `folder` for a task, as `of_task` does."""
        folder = locate(str(folder))
        return cls.of_task(folder, *load(folder), task, settings)

    @classmethod
    def of_task(
        cls, folder: Path, model: Any, tokenizer: Any, task: str | None = None, settings: list[str] | None = None
    ) -> "Checkpoint":
        """The loaded parts of `folder` with their task. `task` and `settings` (KEY=VALUE) override the task's options
        in the checkpoint. Raises UserError where neither names a task, or where model and task do not fit."""
        options = task_options(folder, model.config.to_dict())
        if task is not None and options.get("name") != task:
            options = {"name": task}  # the options of one task mean nothing to another
        if not options:
            raise UserError(
                f"{folder} does not say which task it was fine-tuned on; name it with "
                f"--task{did_you_mean('', Task.names())}"
            )
        for setting in settings or []:
            recipe_file.apply_setting(options, setting)
        return cls.of(model, tokenizer, options)

    @classmethod
    def of(cls, model: Any, tokenizer: Any, options: dict[str, Any]) -> "Checkpoint":
        """A loaded model with the task of these options. Raises UserError where they do not fit, or where the task
        needs a library that is not installed."""
        max_length = min(inference_length(model.config.to_dict()), tokenizer.model_max_length)
        task = fit_to_model(choose_task(options), model)
        task.refuse_missing_libraries()
        return cls(model, tokenizer, task, max_length)

    @cached_property
    def device(self) -> Any:
        """The best device that the model can be on; it is moved there at the first use."""
        from kobert_pipeline.training.device import device_for

        best = device_for(self.model)
        self.model.to(best)
        return best


def load(folder: Path, tokenizer_folder: Path | None = None, backend: str = TORCH) -> tuple[Any, Any]:
    """Load model and tokenizer of a published checkpoint or, with the `tokenizer_folder` of its run, of an unpublished
    model. With another of the `BACKENDS` the model is an `OnnxModel`. Raises UserError where one of them does not load,
    or their vocabularies differ in size."""
    model = load_model(folder, tokenizer_folder is None) if backend == TORCH else load_onnx(folder, backend)
    tokenizer = load_tokenizer(tokenizer_folder or folder)
    tokens = model.config.vocab_size
    # embeddings of other packages' checkpoints may have spare rows
    fits = len(tokenizer) == tokens if is_morpheme_tokenizer(tokenizer) else len(tokenizer) <= tokens
    if not fits:
        fix = "name the tokenizer of its run" if tokenizer_folder else "publish it again"
        raise UserError(
            f"{tokenizer_folder or folder} has a tokenizer of {len(tokenizer)} tokens and the model in {folder} "
            f"{tokens}; {fix}"
        )
    # the tokenizer of a run has no length of its own, and a published one may be edited
    tokenizer.model_max_length = min(tokenizer.model_max_length, inference_length(model.config.to_dict()))
    return model, tokenizer


def load_model(folder: Path, with_tokenizer: bool = True) -> Any:
    """Load the model with its saved head, in evaluation mode. With `with_tokenizer` the folder must be a published
    checkpoint, without it a model folder of a run is enough."""
    from kobert_pipeline.finetune import feature_based, model
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    required = MODEL_FILES
    # a feature-based tagger is no class of `transformers`, so it is never published and has its own files
    if not with_tokenizer and (folder / feature_based.CONFIG).is_file():
        required = (feature_based.CONFIG, feature_based.WEIGHTS)
    refuse_incomplete(folder, required, with_tokenizer)
    with load_errors(folder):
        return model.load(folder)


def load_onnx(folder: Path, backend: str) -> Any:
    """Load the ONNX file of a published checkpoint. Raises UserError where it is missing or does not load."""
    from kobert_pipeline.finetune import onnx_model
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    refuse_incomplete(folder, ("config.json",))
    if model_class(read_json(folder / "config.json"), folder).__name__.endswith("ForMultipleChoice"):
        raise UserError(f"{folder} chooses between candidates, which no ONNX file does yet; give --backend {TORCH}")
    name = BACKENDS[backend]
    if not (folder / name).is_file():
        option = "int8" if name == ONNX_INT8 else "true"
        raise UserError(f"{folder} has no {name}; publish it with onnx: {option}, or give --backend {TORCH}")
    with load_errors(folder):
        return onnx_model.load(folder, name)


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a checkpoint or of a run's tokenizer stage, with this package's code, not the folder's."""
    folder = local_folder(str(folder)) or folder
    if lacking := lacks_of_tokenizer(folder):
        raise UserError(
            f"{folder} has no tokenizer: it lacks {', '.join(lacking)}; name a checkpoint or the tokenizer folder of a "
            "run"
        )
    with load_errors(folder):
        return load_checkpoint_tokenizer(folder)


def refuse_incomplete(folder: Path, required: tuple[str, ...] = MODEL_FILES, with_tokenizer: bool = True) -> None:
    """Raise UserError unless `folder` has the required files (weights also in parts), `with_tokenizer` also those of a
    tokenizer, and, where it has a manifest, they are unchanged."""
    present = [WEIGHTS] if weight_files(folder) else []
    missing = [name for name in required if name not in present and not (folder / name).is_file()]
    lacking = lacks_of_tokenizer(folder) if with_tokenizer else []
    if missing or lacking:
        # a folder that lacks nothing else is that of a run's model
        other = "" if missing else ", or give `kobert predict`, embed or similar its tokenizer with --tokenizer FOLDER"
        raise UserError(
            f"{folder} is not a published checkpoint: {', '.join(missing + lacking)} missing; `kobert publish` makes "
            f"one{other}"
        )
    if is_finished(folder):  # a checkpoint that was downloaded may come without a manifest
        verify(folder)


@contextmanager
def load_errors(folder: Path) -> Iterator[None]:
    """Turn any exception of a library that reads `folder` into a UserError: the files may come from anybody, with
    anything wrong with them."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        damaged = "its weights are damaged: " if type(error).__name__ == "SafetensorError" else ""
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        # a library that is missing is no fault of the folder, and its error says what to install
        advice = "" if isinstance(error, ImportError) else "; copy or publish it again"
        raise UserError(f"{folder} does not load: {damaged}{reason}{advice}") from error


def task_options(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The options of the task that a checkpoint was fine-tuned on, {} where it does not name one."""
    name, state = fine_tuned_for(config)
    if name not in Task.names():
        return {}
    state = options.with_new_names(state)
    # predictions depend on the config alone; the training manifest adds how files are read, such as column names
    inference = {key: state[key] for key in choose_task({"name": name}).inference_options if key in state}
    return {**recipe_options(folder / "training_manifest.json", name), "name": name, **inference}


def recipe_options(training_manifest: Path, name: str) -> dict[str, Any]:
    """The options of the task `name` in the recipe of a training manifest, {} where it has none."""
    history = read_json(training_manifest) if training_manifest.is_file() else {}
    stages, recipe = (_object(history, key) for key in ("stages", "recipe"))
    for stage in stages:
        if stage.startswith("finetune/"):  # finetune/NAME/SEED: all of them share one task, so the first will do
            tuned = stage.split("/")[1]
            features = _object(_object(recipe, "finetune"), tuned).get("features") or tuned
            task = _object(_object(_object(recipe, "features"), str(features)), "task")
            return options.with_new_names(task) if task.get("name") == name else {}
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
    if name == "classification" and model.config.problem_type not in (None, "single_label_classification"):
        raise UserError(f"{folder} names no task and is for {model.config.problem_type}; use it through transformers")
    return {"name": name}


def head_of(model: Any) -> str:
    """The name of the model's class in `transformers`, whose suffix says what its head is for."""
    # models that are not of `transformers` (an ONNX file, one over a frozen encoder) know whose outputs they have
    return str(getattr(model, "class_name", type(model).__name__))


def fit_to_model(task: Task, model: Any) -> Task:
    """The task, with the model's labels where its options do not give them. Raises UserError for a model with another
    head or other labels."""
    head = task.auto_class.removeprefix("AutoModel")
    if not head_of(model).endswith(head):
        raise UserError(
            f"the task {task.name} needs a model of the kind {head}, and this is a {head_of(model)}; choose "
            "another --task"
        )
    # by id, since the order of keys in a config file is anybody's
    labels = [str(label) for _, label in sorted(model.config.id2label.items())]
    if isinstance(task, TaggingTask):
        return with_entity_types(task, labels)
    if isinstance(task, SequenceTask) and task.labels is None:
        task = task.model_copy(update={"labels": labels})
    expected = list(task.config().get("id2label", {}).values())  # heads that score spans or choices have no labels
    if expected and expected != labels:
        raise UserError(
            f"the checkpoint's labels are {', '.join(labels[:9])}, those of the task {task.name} are "
            f"{', '.join(expected)}; choose another --task"
        )
    return task


def with_entity_types(task: TaggingTask, labels: list[str]) -> TaggingTask:
    """The task with the entity types of a model's BIO labels, where its options do not give them. Raises UserError for
    other labels."""
    types = [label.removeprefix("B-") for label in labels[1::2]]  # O, B-X, I-X, B-Y, I-Y, ...
    task = task if task.labels is not None else task.model_copy(update={"labels": types})
    expected = list(task.config()["id2label"].values())
    if labels != expected or not types or len(set(types)) < len(types):
        allowed = ", ".join(expected) if task.labels != types else "O, B-X, I-X, B-Y, I-Y and so on"
        raise UserError(f"the checkpoint's labels are {', '.join(labels[:9])}; {allowed} were expected")
    return task


def files_to_upload(folder: Path) -> dict[str, int]:
    """{file: size in bytes} of a finished checkpoint. Raises UserError where the licence of a training file is not
    known, so that nobody uploads by accident what must not be shared."""
    refuse_incomplete(folder)
    record = manifest.read(folder)
    if without := record["counts"].get("files_without_licence", 0):
        raise UserError(
            f"{folder} was trained on {without} files without a stated or known licence (its README.md lists them); "
            "give each its `license` in the recipe, or say in publish's option `permission` why it may be shared, and "
            "publish again"
        )
    return {name: file["size"] for name, file in record["files"].items()}
