"""How a run goes on, skips or refuses: jobs in order, each done unless its manifest says that it is. Knows no stage.

Of several processes that train together the first does all of it. The others follow: they hear what it is about to make, make the same, and
write nothing of the run's books.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kobert_pipeline import manifest, stage_folder
from kobert_pipeline.errors import NotOurs, UserError, did_you_mean
from kobert_pipeline.files import read_json_with_digest, sha256
from kobert_pipeline.manifest import Record
from kobert_pipeline.processes import several

STAGES = ("corpus", "analysis", "tokenizer", "shards", "features", "pretrain", "finetune", "publish")


SIGHT = 60.0
"""Seconds until a file that one node wrote is seen by another, at the longest: network folders are read through a cache."""


@dataclass(frozen=True)
class Job:
    """One folder to make: a stage, or one of several runs of it (`name`). `writes` are the patterns of the files it makes. `reads` are
    folders of earlier jobs, `raw` gives files of the user, `fixed` whatever else the result depends on: for one, what it makes of the
    folders that it only `weighs`. `check` reads the user's files as far as that takes seconds, for `kobert check`, and `sample` looks into
    each of many and gives a sentence for every unfit one, with whether a run would skip it; `wants` refuses, before anything begins, what
    lacks a library."""

    stage: str
    folder: Path
    version: int
    options: dict[str, Any]
    make: Callable[[Path], dict[str, Any]]
    writes: tuple[str, ...]
    reads: dict[str, Path] = field(default_factory=dict)
    weighs: tuple[Path, ...] = ()
    raw: Callable[[], list[Path]] = list
    fixed: Callable[[], dict[str, str]] = dict
    check: Callable[[], object] = dict
    sample: Callable[[], list[tuple[str, bool]]] = list
    wants: Callable[[], object] = dict
    resumes: bool = False
    name: str = ""

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
        """All folders of earlier jobs that it needs."""
        return (*self.reads.values(), *self.weighs)

    def is_among(self, named: list[str]) -> bool:
        """Whether one of the names is its stage's, its own (`finetune/nsmc/1`), or that of several it is one of (`finetune/nsmc`)."""
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
        _refuse_unknown(name, planned)
        if until and STAGES.index(name.partition("/")[0]) > STAGES.index(until):
            raise UserError(f"--redo {name} lies beyond --until {until}; leave one of them out, or give a later stage to --until")
    for job in planned:
        stage_folder.finish_deletion(job.folder)
    last = STAGES.index(until) if until else len(STAGES)
    chosen = [job for job in planned if only in (None, job.stage) and STAGES.index(job.stage) <= last]
    for job in chosen:
        if job.is_among(redo or []) or not manifest.is_finished(job.folder):
            job.wants()
    for job in chosen:
        if only:
            _refuse_changed_sources(job, {one.folder: one for one in planned})
        outcome = _do(job, verified, say, redo=job.is_among(redo or []))
        outcomes.append(outcome)
        say(f"{outcome.status:8} {job.title}  ({outcome.seconds:.1f} s)")
    _part()
    return outcomes


def _refuse_unknown(name: str, planned: list[Job]) -> None:
    """Raise UserError unless `name` is a stage, or a job of the recipe."""
    stage = name.partition("/")[0]
    if stage not in STAGES:
        raise UserError(f"there is no stage {stage!r}{did_you_mean(stage, STAGES)}")
    if name != stage and not any(job.is_among([name]) for job in planned):
        own = [job.path for job in planned if job.stage == stage]
        sections = ["/".join(path.split("/")[:2]) for path in own]
        raise UserError(f"the recipe has nothing called {name}{did_you_mean(name, {stage, *sections, *own})}")


def follow(planned: list[Job], only: str | None) -> None:
    """The part of every process but the first: make what that one begins. Raises `Ended` when it ended early."""
    from kobert_pipeline.training.team import team

    for job in [job for job in planned if only in (None, job.stage)]:
        told = team().hear()
        if told["makes"]:
            _refuse_another(job, told["fingerprint"])
            job.make(job.folder.absolute())
    _part()


def _refuse_another(job: Job, fingerprint: str) -> None:
    """Raise UserError unless this process sees the folder that the first one began, and was given the same options."""
    path, last = job.folder / stage_folder.STARTED, time.monotonic() + SIGHT
    while not (begun := read_json_with_digest(path) if path.is_file() else {}) or begun["fingerprint"] != fingerprint:
        if time.monotonic() >= last:
            raise UserError(
                f"process {os.environ['RANK']} does not see what the first one began in {job.folder}: "
                f"give every node the same command and a run folder that all of them see"
            )
        time.sleep(0.2)
    here = Record(job.stage, job.version, job.options, begun["inputs"])
    if here.fingerprint != fingerprint:
        raise UserError(
            f"process {os.environ['RANK']} was started otherwise than the first: {manifest.difference(begun, here)}; "
            f"give every node the same command"
        )


def _tell(job: Job, record: Record, makes: bool) -> None:
    """Of several processes the others wait to hear what the first does with a job."""
    if several():
        from kobert_pipeline.training.team import team

        team().tell({"job": job.title, "makes": makes, "fingerprint": record.fingerprint})


def _part() -> None:
    if several():
        from kobert_pipeline.training.team import part

        part()


def _refuse_changed_sources(job: Job, planned: dict[Path, Job]) -> None:
    """Compare the finished stages that the job is made from with the recipe, as far as it is known without the user's files and the
    analyzer: a machine that only trains has neither."""
    for folder in job.weighs:
        manifest.read(folder)
    for folder in job.sources:
        source = planned[folder]
        _refuse_changed_sources(source, planned)
        if manifest.is_finished(folder):
            read = {label: manifest.contents(manifest.read(at)) for label, at in source.reads.items() if manifest.is_finished(at)}
            known = Record(source.stage, source.version, source.options, manifest.read(folder)["inputs"] | read)
            manifest.refuse_if_changed(folder, known, source.path)


def _do(job: Job, verified: dict[Path, dict[str, Any]], say: Callable[[str], None], redo: bool) -> Outcome:
    began = time.monotonic()
    record = record_of(job, verified)
    if redo:
        stage_folder.delete(job.folder)
    status, made = _there_already(job, record, redo)
    if made is None:
        say(f"running  {job.title}")
        manifest.start(job.folder, record, job.writes)
        _tell(job, record, makes=True)
        with manifest.noting_elapsed(job.folder) as before:
            counts = _made(job)
        files = manifest.listed(job.folder, job.writes)
        manifest.finish(job.folder, record, job.writes, files, counts, before + time.monotonic() - began)
        for name in stage_folder.foreign_files(job.folder):
            say(f"note     {job.folder / name} was put there meanwhile; it is not listed in the manifest, and left alone")
        made = manifest.read(job.folder)
    else:
        _tell(job, record, makes=False)
    verified[job.folder] = made
    return Outcome(job, status, time.monotonic() - began, made["counts"])


def _there_already(job: Job, record: Record, redo: bool) -> tuple[str, dict[str, Any] | None]:
    """What becomes of the job, and its manifest where it needs not be made: in its own folder, or in that of another run beside this one.
    Raises UserError for a folder that is stale, is damaged, or holds files that are not ours."""
    manifest.refuse_if_changed(job.folder, record, job.path)
    if manifest.is_finished(job.folder):
        return "skipped", manifest.verify(job.folder)
    stage_folder.refuse_foreign_files(job.folder)
    if reused := None if redo else manifest.reuse(job.folder, record, job.writes):
        return "reused", reused
    if not job.resumes:
        stage_folder.delete(job.folder)  # a partial stage that cannot be resumed
    return "done", None


def _made(job: Job) -> dict[str, Any]:
    """The counts of the job, done now. Where it refuses, nothing of the attempt is kept that could not be resumed: the user will change
    an option or a file, and the folder must not stand in the way."""
    try:
        return job.make(job.folder.absolute())
    except UserError:
        if not job.resumes or manifest.has_no_results(job.folder, job.writes):
            with suppress(NotOurs):  # somebody put a file there meanwhile
                stage_folder.delete(job.folder)
        raise


def record_of(job: Job, verified: dict[Path, dict[str, Any]]) -> Record:
    """What the job is made from, every input verified. Raises UserError for an input that is missing or damaged."""
    inputs = job.fixed()
    for label, folder in job.reads.items():
        if folder not in verified:
            verified[folder] = manifest.verify(folder)
        inputs[label] = manifest.contents(verified[folder])
    inputs |= {f"file {number} {path.name}": sha256(path) for number, path in enumerate(job.raw(), 1)}
    return Record(job.stage, job.version, job.options, inputs)
