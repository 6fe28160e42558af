"""Runs jobs in order: a job whose manifest says that it is finished and unchanged is skipped, an interrupted one is
resumed, a changed one is refused. Knows no stage.

In distributed training rank 0 does all of this; other ranks wait for its decision, run the same stage and write no
manifests.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kobert_pipeline.distributed import channel, destroy_process_group, is_distributed
from kobert_pipeline.errors import NotOurs, UserError, did_you_mean
from kobert_pipeline.files import read_json_with_digest, sha256
from kobert_pipeline.runs import manifest, stage_folder
from kobert_pipeline.runs.manifest import Record

STAGES = ("corpus", "analysis", "tokenizer", "shards", "features", "pretrain", "finetune", "publish")


NETWORK_FOLDER_DELAY = 60.0
"""Seconds, at most, until one node sees a file that another wrote: network folders are read through a cache."""


@dataclass(frozen=True)
class Job:
    """One folder to make: a stage, or one of several runs of a stage."""

    stage: str
    folder: Path
    version: int
    """Of the stage's file format; a folder of another version is stale."""
    options: dict[str, Any]
    run: Callable[[Path], dict[str, Any]]
    """Fills the folder that it is given and returns the counts for the manifest."""
    writes: tuple[str, ...]
    """Patterns of every file that the stage writes to its folder."""
    inputs: dict[str, Path] = field(default_factory=dict)
    """Folders of earlier jobs, by their names in the manifest; their contents are part of the fingerprint."""
    candidates: tuple[Path, ...] = ()
    """Folders of earlier jobs that only decide something (the trials of a grid): `extra_inputs` says what they
    decided."""
    source_files: Callable[[], list[Path]] = list
    """Files of the user; their contents are part of the fingerprint."""
    extra_inputs: Callable[[], dict[str, str]] = dict
    """Whatever else the result depends on."""
    validate: Callable[[], object] = dict
    """Reads the user's files as far as that takes seconds, for `kobert check`."""
    sample: Callable[[], list[tuple[str, bool]]] = list
    """Looks into each of many files and returns a sentence for every unfit one, with whether a run would skip it."""
    preflight: Callable[[], object] = dict
    """Refuses before any job is started, for one where a library is missing."""
    resumable: bool = False
    """Whether a partial folder is resumed; otherwise it is deleted and made again."""
    name: str = ""
    """Which of several runs of the stage: `nsmc/1`."""

    @property
    def title(self) -> str:
        """As shown to people: `finetune nsmc/1`."""
        return f"{self.stage} {self.name}".strip()

    @property
    def path(self) -> str:
        """As --redo takes it: `finetune/nsmc/1`."""
        return f"{self.stage}/{self.name}".rstrip("/")

    @property
    def sources(self) -> tuple[Path, ...]:
        """All folders of earlier jobs that this one needs."""
        return (*self.inputs.values(), *self.candidates)

    def is_selected_by(self, named: list[str]) -> bool:
        """Whether one of the names is its stage's, its own (`finetune/nsmc/1`), or that of several it is one of
        (`finetune/nsmc`)."""
        return any(f"{self.path}/".startswith(f"{name}/") for name in named)


@dataclass
class Outcome:
    """What became of a job."""

    job: Job
    status: str
    seconds: float
    counts: dict[str, Any]


def run(
    planned: list[Job],
    only: str | None = None,
    until: str | None = None,
    redo: list[str] | None = None,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
) -> list[Outcome]:
    """Do the jobs in order; skip what is finished and unchanged. Raises UserError where a stage is stale or damaged."""
    outcomes: list[Outcome] = []
    verified: dict[Path, dict[str, Any]] = {}
    for name in redo or []:
        _check_redo_name(name, planned)
        if until and STAGES.index(name.partition("/")[0]) > STAGES.index(until):
            raise UserError(
                f"--redo {name} lies beyond --until {until}; leave one of them out, or give a later stage to --until"
            )
    for job in planned:
        stage_folder.finish_deletion(job.folder)
    last = STAGES.index(until) if until else len(STAGES)
    chosen = [job for job in planned if only in (None, job.stage) and STAGES.index(job.stage) <= last]
    for job in chosen:
        if job.is_selected_by(redo or []) or not manifest.is_finished(job.folder):
            job.preflight()
    for job in chosen:
        if only:
            _check_sources(job, {one.folder: one for one in planned})
        outcome = _run_job(job, verified, say, redo=job.is_selected_by(redo or []))
        outcomes.append(outcome)
        say(f"{outcome.status:8} {job.title}  ({outcome.seconds:.1f} s)")
    _leave_group()
    return outcomes


def _check_redo_name(name: str, planned: list[Job]) -> None:
    """Raise UserError unless `name` is a stage, or a job of the recipe."""
    stage = name.partition("/")[0]
    if stage not in STAGES:
        raise UserError(f"there is no stage {stage!r}{did_you_mean(stage, STAGES)}")
    if name != stage and not any(job.is_selected_by([name]) for job in planned):
        own = [job.path for job in planned if job.stage == stage]
        sections = ["/".join(path.split("/")[:2]) for path in own]
        raise UserError(f"the recipe has nothing called {name}{did_you_mean(name, {stage, *sections, *own})}")


def follow(planned: list[Job], only: str | None) -> None:
    """On every rank but 0: run what rank 0 starts. Raises `MainProcessExited` when rank 0 exits early."""
    for job in [job for job in planned if only in (None, job.stage)]:
        decision = channel().receive()
        if decision["runs"]:
            _check_same_job(job, decision["fingerprint"])
            job.run(job.folder.absolute())
    _leave_group()


def _check_same_job(job: Job, fingerprint: str) -> None:
    """Raise UserError unless this rank sees the folder that rank 0 started, and was given the same options."""
    path, deadline = job.folder / stage_folder.STARTED, time.monotonic() + NETWORK_FOLDER_DELAY
    while (
        not (started := read_json_with_digest(path) if path.is_file() else {}) or started["fingerprint"] != fingerprint
    ):
        if time.monotonic() >= deadline:
            raise UserError(
                f"rank {os.environ['RANK']} does not see what rank 0 started in {job.folder}: "
                f"give every node the same command and a run folder that all of them see"
            )
        time.sleep(0.2)  # a file of another node cannot be waited for in any other way
    here = Record(job.stage, job.version, job.options, started["inputs"])
    if here.fingerprint != fingerprint:
        raise UserError(
            f"rank {os.environ['RANK']} was started with other options than rank 0: "
            f"{manifest.difference(started, here)}; "
            f"give every node the same command"
        )


def _send_decision(job: Job, record: Record, runs: bool) -> None:
    """In distributed training: tell the other ranks whether rank 0 runs a job."""
    if is_distributed():
        channel().send({"job": job.title, "runs": runs, "fingerprint": record.fingerprint})


def _leave_group() -> None:
    if is_distributed():
        destroy_process_group()


def _check_sources(job: Job, planned: dict[Path, Job]) -> None:
    """Compare the finished stages that the job is made from with the recipe, as far as it is known without the user's
    files and the analyzer: a machine that only trains has neither."""
    for folder in job.candidates:
        manifest.read(folder)
    for folder in job.sources:
        source = planned[folder]
        _check_sources(source, planned)
        if manifest.is_finished(folder):
            read = {
                label: manifest.content_hash(manifest.read(at))
                for label, at in source.inputs.items()
                if manifest.is_finished(at)
            }
            known = Record(source.stage, source.version, source.options, manifest.read(folder)["inputs"] | read)
            manifest.refuse_if_changed(folder, known, source.path)


def _run_job(job: Job, verified: dict[Path, dict[str, Any]], say: Callable[[str], None], redo: bool) -> Outcome:
    start_time = time.monotonic()
    record = record_of(job, verified)
    if redo:
        stage_folder.delete(job.folder)
    status, made = _existing_result(job, record, redo)
    if made is None:
        say(f"running  {job.title}")
        manifest.start(job.folder, record, job.writes)
        _send_decision(job, record, runs=True)
        with manifest.record_elapsed(job.folder) as before:
            counts = _run_stage(job)
        files = manifest.list_files(job.folder, job.writes)
        manifest.finish(job.folder, record, job.writes, files, counts, before + time.monotonic() - start_time)
        for name in stage_folder.foreign_files(job.folder):
            say(
                f"note     {job.folder / name} was put there meanwhile; it is not listed in the manifest, and left "
                "alone"
            )
        made = manifest.read(job.folder)
    else:
        _send_decision(job, record, runs=False)
    verified[job.folder] = made
    return Outcome(job, status, time.monotonic() - start_time, made["counts"])


def _existing_result(job: Job, record: Record, redo: bool) -> tuple[str, dict[str, Any] | None]:
    """What becomes of the job, and its manifest where it need not be run: in its own folder, or in that of another run
    beside this one. Raises UserError for a folder that is stale, is damaged, or holds files that are not ours."""
    manifest.refuse_if_changed(job.folder, record, job.path)
    if manifest.is_finished(job.folder):
        return "skipped", manifest.verify(job.folder)
    stage_folder.refuse_foreign_files(job.folder)
    if reused := None if redo else manifest.reuse(job.folder, record, job.writes):
        return "reused", reused
    if not job.resumable:
        stage_folder.delete(job.folder)  # a partial stage that cannot be resumed
    return "done", None


def _run_stage(job: Job) -> dict[str, Any]:
    """Run the stage and return its counts. Where it refuses, nothing of the attempt is kept that could not be resumed:
    the user will change an option or a file, and a leftover folder would then be refused as stale."""
    try:
        return job.run(job.folder.absolute())
    except UserError:
        if not job.resumable or manifest.has_no_results(job.folder, job.writes):
            with suppress(NotOurs):  # somebody put a file there meanwhile
                stage_folder.delete(job.folder)
        raise


def record_of(job: Job, verified: dict[Path, dict[str, Any]]) -> Record:
    """What the job is made from, every input verified. Raises UserError for an input that is missing or damaged."""
    inputs = job.extra_inputs()
    for label, folder in job.inputs.items():
        if folder not in verified:
            verified[folder] = manifest.verify(folder)
        inputs[label] = manifest.content_hash(verified[folder])
    inputs |= {f"file {number} {path.name}": sha256(path) for number, path in enumerate(job.source_files(), 1)}
    return Record(job.stage, job.version, job.options, inputs)
