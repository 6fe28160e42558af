"""Where the data of a recipe is."""

import os
from pathlib import Path

from kobert_pipeline.corpus.data_files import bundled
from kobert_pipeline.errors import UserError


def data_folder(recipe: str, given: str | None) -> Path:
    """The folder of a recipe's data: `given` by the recipe, else by KOBERT_DATA, else the one that comes with a clone.
    Raises UserError for one that does not exist, and where there is none."""
    chosen = given or os.environ.get("KOBERT_DATA")
    if not chosen:
        if (box := bundled()) is not None:
            return box
        raise UserError(
            f"recipe {recipe} names data files, which come with a clone of the repository (its folder corpora) or by "
            "`kobert download`; say where they are with --set data_dir=PATH or the environment variable KOBERT_DATA"
        )
    if not Path(chosen).is_dir():
        resolved = "" if Path(chosen).is_absolute() else f" (in full: {Path(chosen).absolute()})"
        raise UserError(f"data_dir {chosen} is not a folder{resolved}; give another with --set data_dir=PATH")
    return Path(chosen)
