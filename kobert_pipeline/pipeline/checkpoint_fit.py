"""Whether a recipe fits the checkpoint that it starts from, as far as its config can be read without a network."""

from pathlib import Path

from kobert_pipeline.checkpoint.source import local_folder
from kobert_pipeline.checkpoint.stage import MODEL
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pretrain.continued import refuse_unfit
from kobert_pipeline.training.hf_config import max_input_length, with_model_type


def refuse_unfit_checkpoint(recipe: Recipe, run_dir: Path) -> None:
    """Raise UserError unless the checkpoint has as many positions as the recipe uses, and can be pretrained as it
    says. One on the Hub that was not fetched yet is checked by the stages."""
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
    if recipe.continues:
        refuse_unfit(recipe.pretrain.objective, recipe.pretrain.longest, config, recipe.checkpoint)
