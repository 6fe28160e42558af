"""`kobert status`: which jobs of a run are finished, without running or changing anything."""

from pathlib import Path
from typing import Any

from kobert_pipeline.errors import Damaged, NotOurs, Stale, UserError
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.runner import Job, record_of
from kobert_pipeline.runs.stage_folder import is_started, refuse_foreign_files

KINDS = {Stale: "stale", Damaged: "damaged", NotOurs: "not ours"}
"""The status for each kind of error; any other error means that the job waits for something."""
INPUT_NOT_DONE = "it reads "
"""How a reason begins that is only about an earlier job."""


def status_of(planned: list[Job]) -> list[dict[str, str]]:
    """One row per job, with its `status`: `done`, `stale: why`, `damaged: which file`, `not ours: which file`,
    `started`, `waiting: for what`, or `missing`. A job is only `done` if all jobs that it depends on are."""
    verified: dict[Path, dict[str, Any]] = {}
    rows: dict[Path, dict[str, str]] = {}
    for job in planned:
        blocking = [rows[folder] for folder in job.sources if folder in rows and rows[folder]["status"] != "done"]
        state = _blocked_state(job, blocking[0]) if blocking else _state(job, verified)
        rows[job.folder] = {"job": job.title, "folder": str(job.folder), **state}
    return list(rows.values())


def _blocked_state(job: Job, source: dict[str, str]) -> dict[str, str]:
    """The state of a job that depends on one that is not done; `source` is the row of that one."""
    if not job.folder.exists():
        return {"status": "missing", "seconds": ""}
    source_state = source["status"].split(":")[0]
    is_stale = manifest.is_finished(job.folder) and source_state in ("stale", "damaged")
    state = "stale" if is_stale else "waiting"
    return {"status": f"{state}: {INPUT_NOT_DONE}{source['job']}, which is {source_state}", "seconds": ""}


def _state(job: Job, verified: dict[Path, dict[str, Any]]) -> dict[str, str]:
    """The state of a job whose inputs are done."""
    if not job.folder.exists():
        return {"status": "missing", "seconds": ""}
    try:
        if not manifest.is_finished(job.folder):  # files that are added to a finished stage are allowed
            refuse_foreign_files(job.folder)
        manifest.refuse_if_changed(job.folder, record_of(job, verified), job.path)
        if not is_started(job.folder):
            return {"status": "missing", "seconds": ""}
        if not manifest.is_finished(job.folder):
            return {"status": "started", "seconds": ""}
        verified[job.folder] = manifest.verify(job.folder)
        return {"status": "done", "seconds": str(verified[job.folder]["seconds"])}
    except UserError as error:
        kind = KINDS.get(type(error), "waiting")
        return {"status": f"{kind}: {error}", "seconds": ""}
