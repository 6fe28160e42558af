"""What of a run is done: the question of `kobert status`, answered without doing anything."""

from kobert_pipeline import manifest
from kobert_pipeline.errors import UserError
from kobert_pipeline.pipeline import Job, record_of


def status_of(planned: list[Job]) -> list[dict[str, str]]:
    """A row per job: `done`, `stale: why`, `damaged: which file`, `begun` or `missing`."""
    return [{"job": job.title, "folder": str(job.folder), **_state(job)} for job in planned]


def _state(job: Job) -> dict[str, str]:
    if not job.folder.exists():
        return {"status": "missing", "seconds": ""}
    try:
        manifest.refuse_if_changed(job.folder, record_of(job, {}))
        if not manifest.is_finished(job.folder):
            return {"status": "begun", "seconds": ""}
        return {"status": "done", "seconds": str(manifest.verify(job.folder)["seconds"])}
    except UserError as error:
        kind = "stale" if "made otherwise" in str(error) else "damaged" if "damaged" in str(error) or "missing" in str(error) else "waiting"
        return {"status": f"{kind}: {error}", "seconds": ""}
