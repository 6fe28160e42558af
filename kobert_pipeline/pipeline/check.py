"""What `kobert check` looks at, without running anything: files, libraries, disk space."""

from kobert_pipeline.download.sources import MissingFiles
from kobert_pipeline.errors import UserError
from kobert_pipeline.pipeline.disk_space import refuse_full_disk
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.runs.runner import Job


def problems(recipe: Recipe, planned: list[Job]) -> tuple[list[str], list[str], int]:
    """Check the files, libraries and disk space that the jobs need, without running them.

    Returns three things: the problems that would stop a run, the problems of files that a run would skip, and the bytes
    of disk space that a run needs (0 if a problem would stop it, because the size is then not known).
    """
    stopping, skippable = list[str](), list[str]()
    for job in planned:
        sampled = job.sample()
        stopping += [problem for problem, would_be_skipped in sampled if not would_be_skipped]
        skippable += [problem for problem, would_be_skipped in sampled if would_be_skipped]
        # stops at a job's first problem, since the later checks would only report a missing file again
        for check in (job.source_files, job.preflight, job.validate):
            try:
                check()
            except UserError as error:
                stopping += error.sentences if isinstance(error, MissingFiles) else [str(error)]
                break
    needed = 0
    if not stopping:
        try:
            needed = refuse_full_disk(recipe, planned)
        except UserError as error:
            stopping.append(str(error))
    return list(dict.fromkeys(stopping)), skippable, needed  # without repetitions: several jobs may read the same file
