"""The records of a stage: `started.json` is written first and `manifest.json` last, atomically, so a folder with a
manifest is complete.

The fingerprint covers the stage, its options and the contents of everything it read; not machine, workers or time.
Equal: the stage is skipped. Different: refused, with the changed option named. Files are checked against their SHA-256
before anything reads them, and the records against their own digest.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from kobert_pipeline.errors import Damaged, NotFinished, Stale, UserError
from kobert_pipeline.files import (
    DONE_SUFFIX,
    PART_SUFFIX,
    digest,
    files_below,
    read_json_with_digest,
    sha256,
    write_json_with_digest,
)
from kobert_pipeline.runs.stage_folder import FINISHED, RECORDS, STARTED, WORKING, delete, matches, refuse_foreign_files

FORMAT = 2
ELAPSED_INTERVAL = 10.0
"""Seconds of a stage's time that a SIGKILL can lose: so often the time is noted."""


@dataclass(frozen=True)
class Record:
    """What a stage is made from."""

    stage: str
    version: int
    options: dict[str, Any]
    inputs: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """Hash of stage, format, options and the contents of the inputs."""
        return digest([FORMAT, self.stage, self.version, self.options, self.inputs])


def is_finished(folder: Path) -> bool:
    """Whether the folder has a manifest."""
    return (folder / FINISHED).is_file()


def read(folder: Path) -> dict[str, Any]:
    """The manifest. Raises NotFinished where there is none, Damaged where it is not what was written."""
    if not is_finished(folder):
        raise NotFinished(f"{folder} is not finished (it has no {FINISHED}); run the stage that makes it")
    return read_json_with_digest(folder / FINISHED)


def start(folder: Path, record: Record, writes: Iterable[str]) -> None:
    """Mark the folder as ours and under way, unless it is already. `writes` are the patterns of all files that will be
    written there. Raises NotOurs where it holds another file."""
    refuse_foreign_files(folder)
    if not (folder / STARTED).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_json_with_digest(
            folder / STARTED, {"fingerprint": record.fingerprint, **vars(record), "writes": list(writes)}
        )


def list_files(folder: Path, writes: Iterable[str]) -> dict[str, Any]:
    """Size and SHA-256 of every file of the stage's result."""
    found = {name: folder / name for name in artefacts(folder, writes)}
    return {name: {"size": path.stat().st_size, "sha256": sha256(path)} for name, path in found.items()}


def finish(
    folder: Path,
    record: Record,
    writes: Iterable[str],
    files: dict[str, Any],
    counts: dict[str, Any],
    seconds: float,
    **more: Any,
) -> None:
    """Write the manifest, with the files `listed`: from now on the stage is finished."""
    content = {
        "fingerprint": record.fingerprint,
        **vars(record),
        "writes": list(writes),
        "files": files,
        "counts": counts,
        "seconds": round(seconds, 2),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "device": device(),
        **more,
    }
    write_json_with_digest(folder / FINISHED, content)


@contextmanager
def record_elapsed(folder: Path) -> Iterator[float]:
    """Note the stage's seconds every `ELAPSED_INTERVAL` while the block runs, and at its end. Yields those of earlier
    commands."""
    before, began, ended = elapsed_seconds(folder), time.monotonic(), threading.Event()

    def note() -> None:
        with suppress(OSError):  # on a full disk the stage itself says so
            write_json_with_digest(
                folder / "logs" / "elapsed.json", {"seconds": round(before + time.monotonic() - began, 2)}
            )

    def note_regularly() -> None:
        while not ended.wait(ELAPSED_INTERVAL):
            note()

    thread = threading.Thread(target=note_regularly, daemon=True)
    thread.start()
    try:
        yield before
    finally:
        ended.set()
        thread.join()
        if folder.exists():
            note()


def elapsed_seconds(folder: Path) -> float:
    """Seconds of earlier commands that worked on this stage; those after the last note are lost by a SIGKILL."""
    path = folder / "logs" / "elapsed.json"
    return float(read_json_with_digest(path)["seconds"]) if path.exists() else 0.0


def artefacts(folder: Path, writes: Iterable[str]) -> Iterator[str]:
    """The names of the files that are the stage's result, in order: what its patterns match, but for records, marks and
    working files."""
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
    """Whether nothing in the folder is worth resuming from: no artefact and no checkpoint."""
    return not any(artefacts(folder, writes)) and not (folder / "checkpoints").exists()


def verify(folder: Path) -> dict[str, Any]:
    """The manifest, after every file in it was found unchanged and no file of the stage's kinds beside them. Raises
    Damaged, naming the file, otherwise."""
    manifest = read(folder)
    if (folder / STARTED).is_file():
        read_json_with_digest(folder / STARTED)
    if not manifest.keys() >= {"stage", "writes", "files", "counts", "seconds", "inputs"}:
        raise Damaged(
            f"{folder / FINISHED} lacks entries of a manifest; restore it, or move its folder away and run again"
        )
    advice = f"restore it, or make it again with --redo {manifest['stage']}"
    for name, expected in manifest["files"].items():
        path = path_inside(folder, name)
        if not path.is_file():
            raise Damaged(f"{path} is missing although {folder / FINISHED} lists it; {advice}")
        if path.stat().st_size != expected["size"] or sha256(path) != expected["sha256"]:
            raise Damaged(f"{path} is damaged: it differs from what {folder / FINISHED} lists; {advice}")
    unlisted = [name for name in artefacts(folder, manifest["writes"]) if name not in manifest["files"]]
    if unlisted:
        raise Damaged(
            f"{folder / unlisted[0]} is not listed in {folder / FINISHED}, so it is not used; move it out of the folder"
        )
    return manifest


def path_inside(folder: Path, name: str) -> Path:
    """A file of the folder by its name in a manifest. Raises Damaged for a name that leads out of the folder."""
    path = folder / name
    plain = PurePosixPath(name)
    if plain.is_absolute() or ".." in plain.parts or not path.resolve().is_relative_to(folder.resolve()):
        raise Damaged(
            f"{folder / FINISHED} lists {name!r}, which is not inside {folder}; make the stage again in another "
            "--run-dir"
        )
    return path


def content_hash(manifest: dict[str, Any]) -> str:
    """One hash of all files of a finished stage: what later stages depend on."""
    return hashlib.sha256(
        json.dumps({name: file["sha256"] for name, file in manifest["files"].items()}, sort_keys=True).encode()
    ).hexdigest()


def refuse_if_changed(folder: Path, record: Record, name: str) -> None:
    """Raise Stale, naming the first difference, when the folder was started or finished from another record. `name` is
    what --redo takes: the stage, and what of it (`finetune/nsmc/1`)."""
    path = folder / (FINISHED if is_finished(folder) else STARTED)
    if not path.is_file():
        return
    before = read_json_with_digest(path)
    if before["fingerprint"] == record.fingerprint:
        return
    section = name.split("/")[:2]
    several = f" (or {'/'.join(section)}, all of it)" if name.count("/") > 1 else ""
    changed = difference(before, record, ".".join(section))
    other = "with different options" if changed.startswith("option ") else "from something else"
    raise Stale(
        f"{folder} was created {other}: {changed}; "
        f"use another --run-dir, or give `kobert run` --redo {name}{several} to delete and make it again"
    )


def difference(before: dict[str, Any], record: Record, section: str | None = None) -> str:
    """What changed between a stored record and this one, in words; `section` is that of the recipe, the stage's by
    default."""
    old, new = flat(before["options"]), flat(record.options)
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            return f"option {section or record.stage}.{key} was {old.get(key)!r} and is now {new.get(key)!r}"
    for key in sorted(before["inputs"].keys() | record.inputs.keys()):
        if before["inputs"].get(key) != record.inputs.get(key):
            return f"its input {key} has changed"
    if before["version"] != record.version:
        return f"it has version {before['version']} of the stage's format, this is version {record.version}"
    return "it was made by a version of kobert with other records"


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


def reuse(folder: Path, record: Record, writes: Iterable[str]) -> dict[str, Any] | None:
    """Take over an equal stage of another run beside this one; its manifest, or None where there is none that could be
    taken over."""
    stage = next(parent for parent in (folder, *folder.parents) if parent.name == record.stage)
    runs, depth = stage.parent.parent, len(folder.relative_to(stage).parts)
    for path in sorted(runs.glob("/".join(["*", record.stage, *"*" * depth, FINISHED]))):
        try:
            if path.parent != folder and read_json_with_digest(path).get("fingerprint") == record.fingerprint:
                return link_from(path.parent, folder, record, writes, str(path.parent.relative_to(runs)))
        except (UserError, OSError):
            continue  # what is wrong with another run, or done to it meanwhile, is not this one's trouble
    return None


def link_from(source: Path, folder: Path, record: Record, writes: Iterable[str], name: str) -> dict[str, Any]:
    """Take over the files of an equal stage, and no others, by hard link (or copy), and finish.
    Raises UserError or OSError, and leaves no folder, when they are not what its manifest lists."""
    made = verify(source)
    delete(folder)
    try:
        start(folder, record, writes)
        for file in made["files"]:
            _link(source / file, folder / file)
        if made["fingerprint"] != record.fingerprint or list_files(folder, writes) != made["files"]:
            raise UserError(f"{source} was changed while it was taken over; run the same command again")
        finish(
            folder,
            record,
            writes,
            made["files"],
            made["counts"],
            made["seconds"],
            reused_from=name,
            device=made.get("device"),
        )
    except (UserError, OSError):
        delete(folder)
        raise
    return read(folder)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def versions() -> dict[str, str]:
    """Python and the libraries that results depend on."""
    names = (
        "kobert-pipeline",
        "kiwipiepy",
        "kiwipiepy_model",
        "tokenizers",
        "transformers",
        "torch",
        "numpy",
        "pyarrow",
    )
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def device() -> dict[str, Any]:
    """What this process computes on: `name`, and the `count` of them that work together. A stage without torch runs on
    the CPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return {"name": torch.cuda.get_device_name(), "count": int(os.environ.get("WORLD_SIZE", "1"))}
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"name": f"CPU ({models[0] if models else platform.machine()}, {os.cpu_count()} cores)", "count": 1}
