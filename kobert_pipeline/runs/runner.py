"""Runs jobs in order: a finished and unchanged job is skipped, an interrupted one resumed, and a changed one refused.
A job that another run has finished with the same options and inputs is reused from there.

In distributed training rank 0 does all of this; other ranks wait for its decision, run the same stage and write no
manifests.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kobert_pipeline.distributed import channel, destroy_process_group, is_distributed
from kobert_pipeline.errors import NotOurs, Postponed, UserError, did_you_mean
from kobert_pipeline.files import read_json_with_digest, sha256
from kobert_pipeline.progress import current_display
from kobert_pipeline.runs import manifest, stage_folder
from kobert_pipeline.runs.content_hash import input_hash
from kobert_pipeline.runs.manifest import Record
from kobert_pipeline.runs.reuse import reuse

STAGES = ("checkpoint", "corpus", "analysis", "tokenizer", "shards", "features", "pretrain", "finetune", "publish")

NETWORK_FOLDER_DELAY = 60.0
"""Maximum seconds until one node sees a file that another node wrote: network file systems cache their folders."""


@dataclass(frozen=True)
class Job:
    """One folder of a run and how to create it: a whole stage, or one of its parts such as a fine-tuning's seed.

    All optional functions default to `list` or `dict`, which when called do nothing and return an empty result.
    """

    stage: str
    folder: Path
    version: int
    """Version of the stage's file format; a folder with another version is stale."""
    options: dict[str, Any]
    run: Callable[[Path], dict[str, Any]]
    """Writes the results to the given folder, and returns the counts for the manifest."""
    writes: tuple[str, ...]
    """Patterns of every file that the stage writes to its folder."""
    inputs: dict[str, Path] = field(default_factory=dict)
    """Folders of earlier jobs, by their names in the manifest; their contents are part of the fingerprint."""
    candidates: tuple[Path, ...] = ()
    """Folders of earlier jobs that only help to choose an option (the trials of a grid search). Their contents are not
    part of the fingerprint; the choice is, by `extra_inputs`."""
    source_files: Callable[[], list[Path]] = list
    """Lists the user's files; their contents are part of the fingerprint."""
    extra_inputs: Callable[[], dict[str, str]] = dict
    """Returns anything else that the result depends on, for the fingerprint."""
    validate: Callable[[], list[str]] = list
    """For `kobert check`: reads the user's files if that takes only seconds, and returns sentences about what was read.
    Raises UserError for a bad one."""
    sample: Callable[[], list[tuple[str, bool | None]]] = list
    """Reads a sample of the files, for `kobert check`, where there is too much to read, and returns (problem, whether a
    run would skip the file) for each bad file, and (what is read, None) for each source."""
    preflight: Callable[[], object] = dict
    """Raises UserError before any job is started, for example if a library is missing."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Entries of the folder's records that are not part of the fingerprint."""
    resumable: bool = False
    """Whether a partial folder is resumed; otherwise it is deleted and created again."""
    name: str = ""
    """Which part of the stage: `nsmc/1`; empty for a whole stage."""

    @property
    def title(self) -> str:
        """The job's name in messages: `finetune nsmc/1`."""
        return f"{self.stage} {self.name}".strip()

    @property
    def path(self) -> str:
        """The job's name for --redo: `finetune/nsmc/1`."""
        return f"{self.stage}/{self.name}".rstrip("/")

    @property
    def sources(self) -> tuple[Path, ...]:
        """Folders of all earlier jobs that this one needs."""
        return (*self.inputs.values(), *self.candidates)

    def is_selected_by(self, names: list[str]) -> bool:
        """Whether one of the names is this job's (`finetune/nsmc/1`), or contains it (`finetune/nsmc`, `finetune`)."""
        # with the slash, finetune/nsmc does not select finetune/nsmc-random
        return any(f"{self.path}/".startswith(f"{name}/") for name in names)


@dataclass
class Outcome:
    """The result of a job. `seconds` is the time that this command spent on it, without earlier interrupted ones."""

    job: Job
    status: str
    """`done` (run or resumed now), `skipped` (was finished before) or `reused` (taken from another run)."""
    seconds: float
    counts: dict[str, Any]


def run(
    planned: list[Job],
    only: str | None = None,
    until: str | None = None,
    redo: list[str] | None = None,
    redo_changed: bool = False,
) -> list[Outcome]:
    """Run the jobs in order, except those that are finished and unchanged.

    `only` names a single stage, `until` the last one, and `redo` stages or jobs to delete and run again; with
    `redo_changed` these are all that are stale. Raises UserError if a stage is stale or damaged, and Postponed at the
    end if one of the jobs did.
    """
    outcomes: list[Outcome] = []
    postponed: dict[Path, Job] = {}
    verified: dict[Path, dict[str, Any]] = {}
    _check_names(redo or [], until, planned)
    # for all jobs, since the folders of jobs that are not chosen may be inputs of the chosen ones
    for job in planned:
        stage_folder.finish_deletion(job.folder)
    chosen = chosen_jobs(planned, only, until)
    # all preflight checks first, so that a library missing for the last stage is reported now and not after hours
    for job in chosen:
        # which jobs `redo_changed` runs is known only when the stages before them have run
        if redo_changed or job.is_selected_by(redo or []) or not manifest.is_finished(job.folder):
            job.preflight()
    display = current_display()
    for position, job in enumerate(chosen, 1):
        if only:  # the loop does not reach the earlier stages, so they are compared with the recipe here
            _check_sources(job, {other.folder: other for other in planned})
        display.begin(job.title, position, len(chosen))
        if outcome := _run_or_postpone(job, verified, postponed, job.is_selected_by(redo or []), redo_changed):
            outcomes.append(outcome)
            display.say(f"{outcome.status:8} {job.title}  ({outcome.seconds:.1f} s)")
    _leave_group()
    if postponed:
        titles = ", ".join(job.title for job in postponed.values())
        raise Postponed(f"the test sets of {titles} wait; the same command without --before-test reads them")
    return outcomes


def chosen_jobs(planned: list[Job], only: str | None, until: str | None) -> list[Job]:
    """The jobs of the single stage `only`, or up to the stage `until`; all without either."""
    last = STAGES.index(until) if until else len(STAGES)
    return [job for job in planned if only in (None, job.stage) and STAGES.index(job.stage) <= last]


def _run_or_postpone(
    job: Job, verified: dict[Path, dict[str, Any]], postponed: dict[Path, Job], redo: bool, redo_changed: bool
) -> Outcome | None:
    """Run one job; None, and an entry in `postponed`, if it is postponed or needs one that was."""
    waits_for = next((postponed[folder].title for folder in job.sources if folder in postponed), None)
    try:
        if waits_for:
            _send_decision(job, runs=False)
            raise Postponed(waits_for)
        return _run_job(job, verified, redo, redo_changed)
    except Postponed as rest:
        postponed[job.folder] = job
        current_display().say(f"waits    {job.title}  (for {rest})")
        return None


def check_stage_name(stage: str) -> None:
    """Raise UserError, with a guess, for a name that is not a stage's."""
    if stage not in STAGES:
        raise UserError(f"there is no stage {stage!r}{did_you_mean(stage, STAGES)}")


def _check_names(names: list[str], until: str | None, planned: list[Job]) -> None:
    """Raise UserError for a stage that does not exist, or a name of --redo that is not a stage or a job of the recipe,
    or that --until excludes."""
    if until is not None:
        check_stage_name(until)
    for name in names:
        stage = name.partition("/")[0]
        check_stage_name(stage)
        if name != stage and not any(job.is_selected_by([name]) for job in planned):
            paths = [job.path for job in planned if job.stage == stage]
            sections = ["/".join(path.split("/")[:2]) for path in paths]
            raise UserError(f"the recipe has nothing called {name}{did_you_mean(name, {stage, *sections, *paths})}")
        if until and STAGES.index(stage) > STAGES.index(until):
            raise UserError(
                f"--redo {name} is after --until {until}; leave one of them out, or give a later stage to --until"
            )


def follow(planned: list[Job], only: str | None) -> None:
    """On every rank but 0: run the jobs that rank 0 runs. Raises `MainProcessExited` when rank 0 exits early."""
    # rank 0 sends one decision for each of these jobs, in this order
    for job in [job for job in planned if only in (None, job.stage)]:
        decision = channel().receive()
        if decision["runs"]:
            _check_same_job(job, decision["fingerprint"])
            with suppress(Postponed):  # as on rank 0, which says so
                job.run(job.folder.absolute())
    _leave_group()


def _check_same_job(job: Job, fingerprint: str) -> None:
    """Raise UserError unless this rank sees the folder that rank 0 started, and has the same options."""
    started = _wait_for_record(job, fingerprint)
    here = Record(job.stage, job.version, job.options, started["inputs"])
    if here.fingerprint != fingerprint:
        raise UserError(
            f"rank {os.environ['RANK']} was started with other options than rank 0: "
            f"{manifest.difference(started, here)}; give every node the same command"
        )


def _wait_for_record(job: Job, fingerprint: str) -> dict[str, Any]:
    """The `started.json` that rank 0 wrote. Raises UserError if it does not appear in time."""
    path, deadline = job.folder / stage_folder.STARTED, time.monotonic() + NETWORK_FOLDER_DELAY
    while True:
        started = read_json_with_digest(path) if path.is_file() else {}
        # this node may still see the record of an earlier attempt
        if started and started["fingerprint"] == fingerprint:
            return started
        if time.monotonic() >= deadline:
            raise UserError(
                f"rank {os.environ['RANK']} does not see what rank 0 started in {job.folder}: "
                "give every node the same command and a run folder that all of them see"
            )
        time.sleep(0.2)  # network file systems do not notify one node of what another writes


def _send_decision(job: Job, runs: bool, fingerprint: str = "") -> None:
    """In distributed training: send the other ranks whether rank 0 runs a job, and then the fingerprint of its
    record."""
    if is_distributed():
        channel().send({"job": job.title, "runs": runs, "fingerprint": fingerprint})


def _leave_group() -> None:
    """In distributed training: destroy this rank's process group, so that the process can exit cleanly."""
    if is_distributed():
        destroy_process_group()


def _check_sources(job: Job, planned: dict[Path, Job]) -> None:
    """Raise UserError if a finished stage that the job depends on, directly or not, does not match the recipe.

    The user's files and the analyzer are not compared: a machine that only trains has neither of them.
    """
    for folder in job.candidates:
        manifest.read(folder)  # raises NotFinished: without all of its trials a grid search cannot choose
    for folder in job.sources:
        _check_sources(planned[folder], planned)
        if manifest.is_finished(folder):
            refuse_if_stale(planned[folder])


def refuse_if_stale(job: Job) -> None:
    """Raise Stale if a finished job has other options than the recipe, or was made from other earlier stages."""
    recorded = manifest.read(job.folder)["inputs"]
    finished = {label: folder for label, folder in job.inputs.items() if manifest.is_finished(folder)}
    current = {label: input_hash(manifest.read(folder), recorded.get(label)) for label, folder in finished.items()}
    # what is not compared is taken from the manifest itself, so that it counts as unchanged
    manifest.refuse_if_changed(job.folder, Record(job.stage, job.version, job.options, recorded | current), job.path)


def _run_job(job: Job, verified: dict[Path, dict[str, Any]], redo: bool, redo_changed: bool) -> Outcome:
    """Run one job, or skip or reuse it. `verified` maps folders to the manifests that this command has checked."""
    start_time = time.monotonic()
    # before `record_of` hashes the files, so that a change in between is noticed, too
    read = _stamps(job)
    # raises for a missing or damaged input, and so before `redo` deletes a result that could not be created again
    record = record_of(job, verified)
    redo = redo or (redo_changed and manifest.stale_record(job.folder, record) is not None)
    if redo:
        stage_folder.delete(job.folder)
    status, result = _existing_result(job, record, redo)
    if result is None:
        current_display().start()
        manifest.start(job.folder, record, job.writes, **job.facts)
        _send_decision(
            job, True, record.fingerprint
        )  # after `start`, which writes the record that the other ranks compare
        with manifest.record_elapsed(job.folder) as elapsed:
            counts = _run_stage(job)
        _refuse_changed(job, read, record)
        files = manifest.list_files(job.folder, job.writes)
        manifest.finish(job.folder, record, job.writes, files, counts, elapsed()._asdict(), **job.facts)
        for name in stage_folder.foreign_files(job.folder):
            note = f"{job.folder / name} was added during the run; it is not in the manifest, and is left alone"
            current_display().say(f"note     {note}")
        result = manifest.read(job.folder)
    else:
        _send_decision(job, runs=False)
    # so that later jobs, which read this folder, do not hash its files again
    verified[job.folder] = result
    return Outcome(job, status, time.monotonic() - start_time, result["counts"])


def _stamps(job: Job) -> dict[Path, tuple[int, int]]:
    """The size and time of each of the user's files that a job reads."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in job.source_files()}


def _refuse_changed(job: Job, read: dict[Path, tuple[int, int]], record: Record) -> None:
    """Raise UserError where one of the user's files is not as it was when the job began: its result may be of either
    content, and the record would name the one before."""
    now, hashes = _stamps(job), set(record.inputs.values())
    # hashed only where its time is another: a file that was copied or saved as it was has not changed
    touched = [path for path in {**now, **read} if now.get(path) != read.get(path)]
    if changed := next((path for path in touched if path not in now or sha256(path) not in hashes), None):
        raise UserError(f"{changed} changed while {job.title} ran; run it again with --redo {job.path}")


def _existing_result(job: Job, record: Record, redo: bool) -> tuple[str, dict[str, Any] | None]:
    """The status that the job will have, and its manifest (from its own folder, or reused from another run), or None if
    the job must be run. Deletes a partial folder that cannot be resumed.

    Raises UserError for a folder that is stale, damaged, or holds files that kobert did not write.
    """
    # first, so that a partial folder made from other options or inputs is refused and not deleted below
    manifest.refuse_if_changed(job.folder, record, job.path)
    if manifest.is_finished(job.folder):
        return "skipped", manifest.verify(job.folder)
    stage_folder.refuse_foreign_files(job.folder)
    # also in place of a partial folder: what another run has finished is there at once
    if reused := None if redo else reuse(job.folder, record, job.writes):
        return "reused", reused
    if not job.resumable:
        stage_folder.delete(job.folder)
    return "done", None


def _run_stage(job: Job) -> dict[str, Any]:
    """Run the stage and return its counts. If it raises UserError, a folder without anything to resume is deleted."""
    try:
        return job.run(job.folder.absolute())
    except UserError:
        # The user will now change an option or a file, and a leftover folder would then be refused as stale.
        if not job.resumable or manifest.has_no_results(job.folder, job.writes):
            with suppress(NotOurs):  # someone added a file to the folder meanwhile, so it is kept
                stage_folder.delete(job.folder)
        raise


def record_of(job: Job, verified: dict[Path, dict[str, Any]]) -> Record:
    """The record of a job's options and inputs, after checking each input. Raises UserError for one that is missing or
    damaged."""
    inputs, recorded = job.extra_inputs(), manifest.read_record(job.folder).get("inputs", {})
    for label, folder in job.inputs.items():
        if folder not in verified:
            verified[folder] = manifest.verify(folder)
        inputs[label] = input_hash(verified[folder], recorded.get(label))
    # numbered, because files of different folders may have the same name
    inputs |= {f"file {position} {path.name}": sha256(path) for position, path in enumerate(job.source_files(), 1)}
    return Record(job.stage, job.version, job.options, inputs)
