"""Load a published checkpoint, saying plainly what is wrong with a folder that is none."""

from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.manifest import is_finished, verify

NEEDED = ("config.json", "model.safetensors", "tokenizer_config.json", "morphemes.json")


def checkpoint(folder: Path, needed: tuple[str, ...] = NEEDED) -> Path:
    """`folder`, if it is a published checkpoint and unchanged since; raises UserError otherwise."""
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder} is not a published checkpoint: {', '.join(missing)} missing; `kobert publish` makes one")
    if is_finished(folder):
        verify(folder)
    return folder


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a checkpoint or of a run's tokenizer stage."""
    from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE, MorphemeTokenizer

    if not (folder / VOCABULARY_FILE).is_file():
        raise UserError(f"{folder} holds no {VOCABULARY_FILE}; name a published checkpoint or a tokenizer folder of a run")
    return MorphemeTokenizer.from_pretrained(folder)


def task_of(model: Any) -> dict[str, Any]:
    """What fine-tuning noted of the task, {} where there was none."""
    given: dict[str, dict[str, Any]] = getattr(model.config, "task_specific_params", None) or {}
    return next(iter(given.values()), {})


def reading_of(model: Any, options: tuple[str, ...]) -> dict[str, Any]:
    """Those of a task's `reading` options that were not the default in fine-tuning."""
    return {name: value for name, value in task_of(model).items() if name in options}


def load_model(folder: Path, with_tokenizer: bool = True) -> Any:
    """The model with the head it was published with, in evaluation mode; without its tokenizer, that of a fine-tuning in a run will do."""
    import transformers

    from kobert_pipeline.finetune.feature_based import CONFIG, WEIGHTS, FeatureBasedTagger
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()

    try:
        if not with_tokenizer and (folder / CONFIG).is_file():
            return FeatureBasedTagger.from_pretrained(checkpoint(folder, (CONFIG, WEIGHTS))).eval()
        name = read_json(checkpoint(folder, NEEDED if with_tokenizer else NEEDED[:2]) / "config.json")["architectures"][0]
        return getattr(transformers, name).from_pretrained(folder).eval()
    except Exception as error:
        if type(error).__name__ == "SafetensorError":
            raise UserError(f"{folder / 'model.safetensors'} is damaged ({error}); copy or publish it again") from None
        raise
