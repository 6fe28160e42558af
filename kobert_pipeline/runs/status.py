"""What of a run is done: the question of `kobert status`, answered without doing anything."""

from pathlib import Path
from typing import Any

from kobert_pipeline.errors import Damaged, NotOurs, Stale, UserError
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.runner import Job, record_of
from kobert_pipeline.runs.stage_folder import is_started, refuse_foreign_files

KINDS = {Stale: "stale", Damaged: "damaged", NotOurs: "not ours"}
"""What each kind of refusal means for a stage; any other says that it waits for something."""


def status_of(planned: list[Job]) -> list[dict[str, str]]:
    """A row per job: `done`, `stale: why`, `damaged: which file`, `not ours: which file`, `started`, `waiting: for
    what` or `missing`. Whatever is made from a job that is not done is not called done either."""
    verified: dict[Path, dict[str, Any]] = {}
    rows: dict[Path, dict[str, str]] = {}
    for job in planned:
        unsound = [rows[folder] for folder in job.sources if folder in rows and rows[folder]["status"] != "done"]
        state = _state(job, verified) if not unsound else _blocked_state(job, unsound[0])
        rows[job.folder] = {"job": job.title, "folder": str(job.folder), **state}
    return list(rows.values())


def _blocked_state(job: Job, source: dict[str, str]) -> dict[str, str]:
    """Of a job whose source is not done."""
    if not job.folder.exists():
        return {"status": "missing", "seconds": ""}
    kind = (
        "stale" if manifest.is_finished(job.folder) and source["status"].startswith(("stale", "damaged")) else "waiting"
    )
    return {"status": f"{kind}: it reads {source['job']}, which is {source['status'].split(':')[0]}", "seconds": ""}


def _state(job: Job, verified: dict[Path, dict[str, Any]]) -> dict[str, str]:
    if not job.folder.exists():
        return {"status": "missing", "seconds": ""}
    try:
        if not manifest.is_finished(job.folder):
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
