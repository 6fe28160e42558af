"""A recipe's name and its settings -> the validated recipe and its jobs."""

import os
from pathlib import Path

from pydantic import ValidationError

from kobert_pipeline import recipe as recipes
from kobert_pipeline.disk_space import refuse_full_disk
from kobert_pipeline.errors import UserError
from kobert_pipeline.options import explain
from kobert_pipeline.pipeline import Recipe, jobs
from kobert_pipeline.running import Job


def plan(recipe: str, settings: list[str] | None, run_dir: Path | None, num_workers: int | None) -> tuple[Recipe, list[Job]]:
    """The recipe with `settings` laid over it, and everything it asks for. Raises UserError for a recipe or data folder that is none."""
    content = recipes.load(recipe, settings or [])
    try:
        loaded = Recipe.model_validate(content)
    except ValidationError as error:
        raise UserError(f"recipe {recipe}: {explain(error)}") from None
    given = loaded.data_dir or os.environ.get("KOBERT_DATA")
    if not given:
        raise UserError(
            f"recipe {recipe} names data files: say where they are with --set data_dir=PATH or the environment variable KOBERT_DATA"
        )
    if not Path(given).is_dir():
        where = "" if Path(given).is_absolute() else f" (that is {Path(given).absolute()}, as seen from the current folder)"
        raise UserError(f"data_dir {given} is not a folder{where}; give another with --set data_dir=PATH")
    name = recipes.find(recipe).stem
    return loaded, list(jobs(loaded, name, Path(given), run_dir or Path("runs") / name, num_workers))


def problems(recipe: Recipe, planned: list[Job]) -> tuple[list[str], list[str], int]:
    """What is wrong with the files, libraries and disk that the jobs need, a sentence each: what a run would refuse, and what it would
    skip. The last is the bytes of disk that the run will take, 0 where another problem keeps them from being known."""
    refused, skipped = list[str](), list[str]()
    for job in planned:
        found = job.sample()
        refused += [sentence for sentence, is_skipped in found if not is_skipped]
        skipped += [sentence for sentence, is_skipped in found if is_skipped]
        try:
            for look in (job.raw, job.wants, job.check):
                look()
        except UserError as problem:
            refused.append(str(problem))
    needed = 0
    if not refused:
        try:
            needed = refuse_full_disk(recipe, planned)
        except UserError as problem:
            refused.append(str(problem))
    return list(dict.fromkeys(refused)), skipped, needed


def published_folder(planned: list[Job], name: str | None) -> Path:
    """The folder of the recipe's checkpoint `name`, or of its only one. Raises UserError where that is not one."""
    folders = {job.name: job.folder for job in planned if job.stage == "publish"}
    if name is None and len(folders) == 1:
        return next(iter(folders.values()))
    if name not in folders:
        said = f"has no checkpoint {name!r}" if name else f"publishes {len(folders)} checkpoints"
        raise UserError(f"the recipe {said}; choose one with --name (allowed: {', '.join(sorted(folders)) or 'nothing'})")
    return folders[name]
