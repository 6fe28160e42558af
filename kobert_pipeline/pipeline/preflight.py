"""What is refused before a job begins: a checkpoint that does not fit the recipe, and `sources` that name no file of
the corpus, since a misspelt name would otherwise stop the run hours later."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kobert_pipeline.checkpoint.source import local_folder
from kobert_pipeline.checkpoint.stage import MODEL
from kobert_pipeline.corpus.document import first_unmatched
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.errors import UserError, list_first
from kobert_pipeline.files import read_json
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pretrain.continued import refuse_unfit
from kobert_pipeline.tables.data_files import distinct_labels
from kobert_pipeline.training.hf_config import max_input_length, with_model_type

NAMES_SHOWN = 10
"""Sources of the corpus that an error names."""


def validate_checkpoint(recipe: Recipe, run_dir: Path) -> None:
    """Raise UserError unless the checkpoint has as many positions as the recipe uses and a head for each of its tasks,
    and can be pretrained as it says. One on the Hub that was not fetched yet is checked by the stages."""
    if recipe.checkpoint is None:
        return
    # a folder of this machine, or the run's copy of what was fetched
    folder = local_folder(recipe.checkpoint) or run_dir / "checkpoint" / MODEL
    path = folder / "config.json"
    if not path.is_file():
        return
    config = with_model_type(read_json(path), path)
    positions = max_input_length(config)
    for name, features in recipe.features.items():
        if features.max_length > positions:
            raise UserError(
                f"features.{name}.max_length is {features.max_length}, but {recipe.checkpoint} has {positions} "
                "positions; lower it"
            )
    refuse_missing_heads(recipe, config, recipe.checkpoint)
    if recipe.continues:
        refuse_unfit(recipe.pretrain.objective, recipe.pretrain.longest, config, recipe.checkpoint)


def refuse_missing_heads(recipe: Recipe, config: dict[str, Any], checkpoint: str) -> None:
    """Raise UserError for a fine-tuning whose head `transformers` does not have for the type of model that the
    checkpoint's config names."""
    import transformers

    kind = config["model_type"]
    for name, tuned in recipe.finetune.items():
        task = recipe.features[tuned.features or name].task
        if tuned.ngrams or tuned.encoder == "frozen":
            continue  # they have no head of `transformers`
        heads = getattr(transformers, task.auto_class)._model_mapping
        if kind in transformers.CONFIG_MAPPING and transformers.CONFIG_MAPPING[kind] not in heads:
            raise UserError(
                f"finetune.{name} uses the task {task.name}, for which {checkpoint} (of the type {kind}) has no head "
                f"(transformers' {task.auto_class}); give another checkpoint"
            )


def refuse_unmatched(corpus: CorpusOptions | None, data_dir: Path, patterns_of: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError for a pattern that matches no source of the corpus; `patterns_of`: {option: its patterns}."""
    if corpus is None or not any(patterns_of.values()):
        return
    try:
        names = source_names(corpus, data_dir)
    except UserError:
        return  # a missing file is reported by the stage corpus, with how to get it
    for option, patterns in patterns_of.items():
        if (pattern := first_unmatched(patterns, names)) is not None:
            raise UserError(
                f"{option} has {pattern!r}, which is the name of no source of the corpus: they are "
                f"{list_first(names, NAMES_SHOWN)}; give such names, of files without their "
                "folders (* matches any text), or leave it out for all of them"
            )


def source_names(corpus: CorpusOptions, data_dir: Path) -> list[str]:
    """The names of the sources of the documents. Raises UserError where a file is missing."""
    files = [(reader, path) for reader in corpus.sources for path in reader.files_to_check(data_dir)]
    labels = distinct_labels((path for _, path in files), data_dir)  # as the stage corpus gives them
    return sorted({reader.source_of(path, labels) for reader, path in files})
