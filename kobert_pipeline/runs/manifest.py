"""The records of a stage's folder: `started.json`, written first, and `manifest.json`, written last.

Both are written atomically, so a folder with a manifest is complete. The fingerprint in them covers the stage, its
options and the contents of everything it read, but not the machine, the number of workers or the time. If it is the
same, the stage is skipped; if it differs, the stage is refused with the name of the changed option. Every file is
checked against its SHA-256 before another stage reads it, and every record against its own digest.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from kobert_pipeline.errors import Damaged, NotFinished, Stale
from kobert_pipeline.files import (
    DONE_SUFFIX,
    PART_SUFFIX,
    digest,
    files_below,
    read_json_with_digest,
    sha256,
    write_json_with_digest,
)
from kobert_pipeline.runs.environment import device, versions
from kobert_pipeline.runs.input_difference import input_difference
from kobert_pipeline.runs.stage_folder import FINISHED, RECORDS, STARTED, WORKING, matches, refuse_foreign_files

FORMAT = 3
"""Version of the records and of the options' names; part of every fingerprint, so results of another are never used."""
ELAPSED_INTERVAL = 10.0
"""Seconds between two writes of a stage's elapsed time, and so the most that a SIGKILL can lose."""


@dataclass(frozen=True)
class Record:
    """Everything that determines the result of a stage."""

    stage: str
    version: int
    """Version of the stage's file format."""
    options: dict[str, Any]
    inputs: dict[str, str]
    """Hashes by name: of earlier stages' files, of the user's files, and of whatever else the stage reads."""

    @property
    def fingerprint(self) -> str:
        """Hash of all fields."""
        return digest([FORMAT, self.stage, self.version, self.options, self.inputs])


def is_finished(folder: Path) -> bool:
    """Whether the folder has a manifest."""
    return (folder / FINISHED).is_file()


def read(folder: Path) -> dict[str, Any]:
    """The manifest. Raises NotFinished if there is none, and Damaged if it was changed."""
    if not is_finished(folder):
        raise NotFinished(f"{folder} is not finished (it has no {FINISHED}); run its stage first (or `kobert run`)")
    return read_json_with_digest(folder / FINISHED)


def start(folder: Path, record: Record, writes: Iterable[str], **more: Any) -> None:
    """Write `started.json`, unless it exists. `writes` are the patterns of all files that the stage will write, `more`
    are facts that are not part of the fingerprint.

    Raises NotOurs if the folder contains a file that kobert did not write.
    """
    refuse_foreign_files(folder)
    # an existing record is kept, since the files of a resumed stage were created from it
    if not (folder / STARTED).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_json_with_digest(
            folder / STARTED, {"fingerprint": record.fingerprint, **vars(record), "writes": list(writes), **more}
        )


def list_files(folder: Path, writes: Iterable[str]) -> dict[str, Any]:
    """{name: {"size": bytes, "sha256": hash}} of every file of the stage's result."""
    paths = {name: folder / name for name in artefacts(folder, writes)}
    return {name: {"size": path.stat().st_size, "sha256": sha256(path)} for name, path in paths.items()}


def finish(
    folder: Path,
    record: Record,
    writes: Iterable[str],
    files: dict[str, Any],
    counts: dict[str, Any],
    elapsed: dict[str, float],
    **more: Any,
) -> None:
    """Write the manifest, which makes the stage finished; `files` is what `list_files` gives, `elapsed` the fields of
    `Elapsed`."""
    content = {
        "fingerprint": record.fingerprint,
        **vars(record),
        "writes": list(writes),
        "files": files,
        "counts": counts,
        **elapsed,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "device": device(),
        **more,
    }
    write_json_with_digest(folder / FINISHED, content)


class Elapsed(NamedTuple):
    """How long a stage ran, over all commands that worked on it."""

    seconds: float
    cpu_seconds: float
    """CPU time of this process and of the processes that it waited for. Time spent waiting is not in it, but beside
    other busy programs the same work takes more of it, too, by a third in one case. Of several ranks, rank 0's."""


@contextmanager
def record_elapsed(folder: Path) -> Iterator[Callable[[], Elapsed]]:
    """Write how long the stage ran every `ELAPSED_INTERVAL` while the block runs, and at its end.

    Yields a function that gives it, with the time that earlier commands spent on the stage.
    """
    before, start_time, start_cpu, ended = elapsed_before(folder), time.monotonic(), _cpu_seconds(), threading.Event()

    def elapsed() -> Elapsed:
        seconds, cpu = time.monotonic() - start_time, _cpu_seconds() - start_cpu
        return Elapsed(round(before.seconds + seconds, 2), round(before.cpu_seconds + cpu, 2))

    def write() -> None:
        with suppress(OSError):  # a full disk is reported by the stage itself, which writes there too
            write_json_with_digest(folder / "logs" / "elapsed.json", elapsed()._asdict())

    def write_regularly() -> None:
        while not ended.wait(ELAPSED_INTERVAL):
            write()

    thread = threading.Thread(target=write_regularly, daemon=True)
    thread.start()
    try:
        yield elapsed
    finally:
        ended.set()
        # the thread ends first: it and the write below use the same temporary file
        thread.join()
        if folder.exists():  # the stage may have failed and deleted its folder
            write()


def elapsed_before(folder: Path) -> Elapsed:
    """How long earlier, interrupted commands worked on this stage."""
    path = folder / "logs" / "elapsed.json"
    if not path.exists():
        return Elapsed(0, 0)
    recorded = read_json_with_digest(path)
    return Elapsed(recorded["seconds"], recorded["cpu_seconds"])


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def artefacts(folder: Path, writes: Iterable[str]) -> Iterator[str]:
    """The names of the files that are the stage's result, in order: all that match its patterns, except records,
    unfinished files, marks of finished files, and working files."""
    patterns = tuple(writes)
    for name in files_below(folder):
        result = (
            name not in RECORDS
            and not name.endswith((PART_SUFFIX, DONE_SUFFIX))
            and name.partition("/")[0] not in WORKING
        )
        if result and matches(name, patterns):
            yield name


def has_no_results(folder: Path, writes: Iterable[str]) -> bool:
    """Whether the folder contains nothing to resume from: no artefact and no checkpoint."""
    return not any(artefacts(folder, writes)) and not (folder / "checkpoints").exists()


def verify(folder: Path) -> dict[str, Any]:
    """Return the manifest after checking every file that it lists.

    Raises Damaged, with the name of the file, if one is missing or changed, or if the folder contains a file that
    matches the stage's patterns but is not listed.
    """
    manifest = read(folder)
    if (folder / STARTED).is_file():
        read_json_with_digest(folder / STARTED)  # raises Damaged now, and not when the folder is to be deleted
    if not manifest.keys() >= {"stage", "writes", "files", "counts", "seconds", "inputs"}:
        raise Damaged(f"{folder / FINISHED} lacks required entries; restore it, or move its folder away and run again")
    advice = f"restore it, or create it again with --redo {manifest['stage']}"
    for name, expected in manifest["files"].items():
        path = path_inside(folder, name)
        if not path.is_file():
            raise Damaged(f"{path} is missing although {folder / FINISHED} lists it; {advice}")
        # sizes first: a truncated file of gigabytes is found without reading it
        if path.stat().st_size != expected["size"] or sha256(path) != expected["sha256"]:
            raise Damaged(f"{path} is damaged: it differs from what {folder / FINISHED} lists; {advice}")
    # a copied shard, for example, would be trained on without being part of any fingerprint
    unlisted = [name for name in artefacts(folder, manifest["writes"]) if name not in manifest["files"]]
    if unlisted:
        raise Damaged(
            f"{folder / unlisted[0]} is not listed in {folder / FINISHED}, so it is not used; move it out of the folder"
        )
    return manifest


def path_inside(folder: Path, name: str) -> Path:
    """The path of a file that a manifest lists. Raises Damaged for a name that leads out of the folder."""
    path = folder / name
    relative = PurePosixPath(name)
    # resolve() also follows symbolic links, which the name alone does not show
    if relative.is_absolute() or ".." in relative.parts or not path.resolve().is_relative_to(folder.resolve()):
        raise Damaged(
            f"{folder / FINISHED} lists {name!r}, which is not inside {folder}; run the stage in another --run-dir"
        )
    return path


def read_record(folder: Path) -> dict[str, Any]:
    """The manifest of a finished stage, else what `start` wrote; {} if the folder has neither."""
    path = folder / (FINISHED if is_finished(folder) else STARTED)
    return read_json_with_digest(path) if path.is_file() else {}


def stale_record(folder: Path, record: Record) -> dict[str, Any] | None:
    """The record that the folder was finished with, else the one it was started with, if that is another one; None for
    the same one, and for a folder that was not started."""
    before = read_record(folder)
    return before if before and before["fingerprint"] != record.fingerprint else None


def refuse_if_changed(folder: Path, record: Record, name: str) -> None:
    """Raise Stale, naming the first difference, if the folder was started or finished with another record.

    `name` is the job as --redo takes it: `finetune/nsmc/1`.
    """
    before = stale_record(folder, record)
    if before is None:
        return
    section = name.split("/")[:2]
    # the seeds of a fine-tuning share their options, so they are usually all stale
    all_seeds = f" (all of it: {'/'.join(section)})" if name.count("/") > 1 else ""
    changed = difference(before, record, ".".join(section))
    cause = "with different options" if changed.startswith("option ") else "from different inputs"
    raise Stale(
        f"{folder} was created {cause}: {changed}; to keep it, choose another --run-dir; to replace it, add --redo "
        f"{name}{all_seeds} or --redo-changed (all that has changed) to `kobert run`, or --redo to "
        f"`kobert {record.stage}`"
    )


OTHERS_NAMED = 4
"""Changed options that are named besides the first one."""


def difference(before: dict[str, Any], record: Record, section: str | None = None) -> str:
    """The first difference between a stored record and this one, in words. `section` is the part of the recipe that
    holds the options, by default the stage's."""
    old, new = flat(before["options"]), flat(record.options)
    if changed := [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]:
        key = changed[0]
        others = [*changed[1 : 1 + OTHERS_NAMED], *(["..."] if len(changed) > 1 + OTHERS_NAMED else [])]
        more = f" (also changed: {', '.join(others)})" if others else ""
        return f"option {section or record.stage}.{key} was {old.get(key)!r} and is now {new.get(key)!r}{more}"
    if changed_input := input_difference(before["inputs"], record.inputs):
        return changed_input
    if before["version"] != record.version:
        return f"it has version {before['version']} of the stage's format, this is version {record.version}"
    return "it was created by a version of kobert with other records"


def flat(options: Any, prefix: str = "") -> dict[str, Any]:
    """Nested options as {"a.b.0": value}."""
    if isinstance(options, dict):
        items = [(str(key), value) for key, value in options.items()]
    elif isinstance(options, list):
        items = [(str(i), value) for i, value in enumerate(options)]
    else:
        return {prefix: options}
    return {
        key: value for name, item in items for key, value in flat(item, f"{prefix}.{name}" if prefix else name).items()
    }
