"""Where a run reads and writes: its folders, the data, and the stages that its tokenizer and model come from."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kobert_pipeline.checkpoint.stage as checkpoint_stage
import kobert_pipeline.pretrain.stage as pretrain_stage
from kobert_pipeline.errors import UserError
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.tables.data_files import bundled
from kobert_pipeline.training.trackers import Tracker, Tracking

Fit = dict[str, Any]
"""How a budget was found: `total_tokens`, the `recipe_total_tokens` in whose place it is, `minutes`, and the speed."""


@dataclass(frozen=True)
class Run:
    """Where a run reads and writes.

    Messages show `data_dir` and `run_dir` as the user gave them. Stages get absolute paths, since their workers may run
    in other folders or on other machines.
    """

    name: str
    data_dir: Path
    run_dir: Path
    num_workers: int | None = None
    """Worker processes of the stages before training; None: one per core. It does not change the result."""
    report_to: tuple[Tracker, ...] = ()
    fit: Fit | None = None
    """How the token budget of the pretraining was fitted to a time, if it was."""
    before_test: bool = False
    """Whether fine-tunings are postponed when only their test sets are left."""

    @property
    def data(self) -> Path:
        """`data_dir` as an absolute path."""
        return self.data_dir.absolute()

    def folder(self, *parts: str) -> Path:
        """A folder inside the run folder as an absolute path; without `parts` the run folder itself."""
        return self.run_dir.joinpath(*parts).absolute()

    def tracking(self, job: str) -> Tracking:
        """What tracks the training of a job."""
        return Tracking(self.report_to, self.folder().name, job, self.folder())


@dataclass(frozen=True)
class Origin:
    """Where the tokenizer and the model that is fine-tuned come from: (stage, folder in the run) of each."""

    tokenizer: tuple[str, str]
    model: tuple[str, str]
    upstream: tuple[str, ...]
    """The stages that every published model of the run depends on."""
    card_stages: tuple[str, ...]
    """The upstream stages whose files and counts are in the published folder."""


FROM_TEXT = Origin(
    ("tokenizer", "tokenizer"), ("pretrain", f"pretrain/{pretrain_stage.MODEL}"),
    ("corpus", "analysis", "tokenizer", "shards", "pretrain"), ("tokenizer", "pretrain", "corpus"),
)  # fmt: skip
CONTINUED = Origin(
    ("checkpoint", f"checkpoint/{checkpoint_stage.TOKENIZER}"), ("pretrain", f"pretrain/{pretrain_stage.MODEL}"),
    ("checkpoint", "corpus", "shards", "pretrain"), ("checkpoint", "pretrain", "corpus"),
)  # fmt: skip
FROM_CHECKPOINT = Origin(
    ("checkpoint", f"checkpoint/{checkpoint_stage.TOKENIZER}"), ("checkpoint", f"checkpoint/{checkpoint_stage.MODEL}"),
    ("checkpoint",), ("checkpoint",),
)  # fmt: skip


def origin(recipe: Recipe) -> Origin:
    """The origin of a recipe's models."""
    if recipe.checkpoint is None:
        return FROM_TEXT
    if recipe.continues:
        return CONTINUED
    if recipe.corpus is None:
        return FROM_CHECKPOINT
    # the corpus is for the examples that are made from it, or for soft labels of its texts
    stages = ("checkpoint", "corpus")
    return replace(
        FROM_CHECKPOINT, upstream=(*stages, *(["shards"] if recipe.needs_shards else [])), card_stages=stages
    )


def checkpoint_to_continue(recipe: Recipe, run: Run) -> Path | None:
    """The model of an existing checkpoint that is pretrained further."""
    return run.folder("checkpoint", checkpoint_stage.MODEL) if recipe.continues else None


def data_folder(recipe: str, data_dir: str | None) -> Path:
    """The folder of a recipe's data: the recipe's `data_dir`, else KOBERT_DATA, else the one that comes with a clone.
    Raises UserError for a folder that does not exist, and where none is named."""
    chosen = data_dir or os.environ.get("KOBERT_DATA")
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
