"""Run stages of a recipe for a command, and print what came of it."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kobert_pipeline.cli.exit_codes import interrupt_on_sigterm
from kobert_pipeline.cli.formatting import print_json, print_upload
from kobert_pipeline.cli.run_results import outcome_row, print_results
from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import locked
from kobert_pipeline.progress import current_display, shown_on
from kobert_pipeline.runs.compare import Table, records, score_table
from kobert_pipeline.runs.runner import Outcome, chosen_jobs, follow
from kobert_pipeline.runs.runner import run as run_jobs


def run_recipe(
    recipe: str,
    settings: list[str] | None,
    run_dir: Path | None,
    num_workers: int | None,
    as_json: bool,
    only: str | None = None,
    until: str | None = None,
    redo: list[str] | None = None,
    redo_changed: bool = False,
    fit_minutes: float | None = None,
    before_test: bool = False,
    after: Callable[[], dict[str, Any]] | None = None,
) -> None:
    """Run the chosen stages of a recipe, then call `after`, and print the outcome of both. The token budget of a
    pretraining is fitted to `fit_minutes` from now; `before_test` postpones what reads test sets."""
    started = time.monotonic()
    interrupt_on_sigterm()  # before the slow imports, so that a SIGTERM during them exits cleanly too
    from kobert_pipeline.pipeline.duration import expect
    from kobert_pipeline.pipeline.fit import fit_before, measured_fit
    from kobert_pipeline.pipeline.stages import plan
    from kobert_pipeline.runs.displays import progress_display

    redoes = "pretrain" in (redo or [])
    loaded, planned = plan(recipe, settings, run_dir, num_workers, fit_before(redo), before_test)
    _refuse_missing(only, [job.stage for job in planned], recipe)
    if not is_main_process():
        # without the lock of the folder, which rank 0 holds for all
        follow(planned, only)
        return
    # The lock also covers the upload, so that no other process changes the checkpoint while it is read.
    with locked(planned[0].folder.parent):
        with progress_display() as display, shown_on(display):
            if fit_minutes is not None:  # under the lock, since measuring reads shards and writes to the folder
                fit = partial(measured_fit, fit_minutes, started + 60 * fit_minutes, redoes)
                loaded, planned = plan(recipe, settings, run_dir, num_workers, fit)
            expect(recipe, loaded, planned, chosen_jobs(planned, only, until), num_workers, redo or [])
            outcomes = run_jobs(planned, only, until, redo, redo_changed)
        uploaded = after() if after else None
    _print_outcome(outcomes, _scores(outcomes, planned[0].folder.parent, loaded.table), uploaded, as_json)


def _refuse_missing(only: str | None, stages: list[str], recipe: str) -> None:
    """Raise UserError for a stage that a recipe does not have."""
    if only and only not in stages:
        raise UserError(f"{recipe} has no stage {only}; its stages are {', '.join(dict.fromkeys(stages))}")


def _scores(outcomes: list[Outcome], run_dir: Path, columns: dict[str, str]) -> Table | None:
    """The table of scores with the recipe's `columns`; None without any, or without a fine-tuning."""
    if not columns or not any(outcome.job.stage == "finetune" for outcome in outcomes):
        return None
    try:
        return score_table([run_dir], columns)
    except UserError as error:  # a misspelt score must not cost the outcome of hours
        current_display().say(f"note     there is no table of scores: {error}")
        return None


def _print_outcome(
    outcomes: list[Outcome], scores: Table | None, uploaded: dict[str, Any] | None, as_json: bool
) -> None:
    if as_json:
        rows = [outcome_row(outcome) for outcome in outcomes]
        table = {"table": records(scores)} if scores else {}
        print_json({"stages": rows} | table | ({"upload": uploaded} if uploaded else {}))
        return
    print_results(outcomes, scores)
    if uploaded:
        print_upload(uploaded)
