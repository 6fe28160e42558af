"""Finished means written last: a stage folder gets `begun.json` first and `manifest.json` at the end, by rename.

The fingerprint covers the stage, its options and the contents of everything it read; not machine, workers or time. Equal: the stage is
skipped. Different: refused, with the changed option named. Files are checked against their SHA-256 before anything reads them.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import PART_SUFFIX, read_json, sha256, write_json

BEGUN, FINISHED = "begun.json", "manifest.json"
FORMAT = 1
NOT_ARTEFACTS = ("logs", "checkpoints", "work")
"""Folders of a stage that are no result: they are neither listed nor compared."""
DONE_MARK = ".done.json"


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


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def is_finished(folder: Path) -> bool:
    """Whether the folder has a manifest."""
    return (folder / FINISHED).is_file()


def is_begun(folder: Path) -> bool:
    """Whether the folder says what it is made from; of parts in one that does not, nobody knows."""
    return (folder / BEGUN).is_file() or is_finished(folder)


def delete(folder: Path) -> None:
    """Delete a folder by renaming it away first, so that a kill leaves no half of it in its place."""
    sweep(folder)
    if folder.exists():
        folder.rename(_away(folder))
        sweep(folder)


def sweep(folder: Path) -> None:
    """Delete what a killed `delete` of this folder left; its manifest first, so that nobody takes it for a stage."""
    away = _away(folder)
    if away.is_dir() and not away.is_symlink():
        (away / FINISHED).unlink(missing_ok=True)
        shutil.rmtree(away)
    else:
        away.unlink(missing_ok=True)  # a link to a folder elsewhere is let go of


def _away(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.deleted")


def read(folder: Path) -> dict[str, Any]:
    """The manifest. Raises UserError where the stage is not finished."""
    if not is_finished(folder):
        raise UserError(f"{folder} is not finished (it has no {FINISHED}); run the stage that makes it")
    manifest: dict[str, Any] = read_json(folder / FINISHED)
    return manifest


def begin(folder: Path, record: Record) -> None:
    """Mark the folder as under way, unless it is already, from the same record."""
    if not (folder / BEGUN).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / BEGUN, {"fingerprint": record.fingerprint, **vars(record)})


def listed(folder: Path) -> dict[str, Any]:
    """Size and SHA-256 of every file of the stage's result."""
    return {str(path.relative_to(folder)): {"size": path.stat().st_size, "sha256": sha256(path)} for path in artefacts(folder)}


def finish(folder: Path, record: Record, files: dict[str, Any], counts: dict[str, Any], seconds: float, **more: Any) -> None:
    """Write the manifest, with the files `listed`: from now on the stage is finished."""
    write_json(
        folder / FINISHED,
        {
            "fingerprint": record.fingerprint,
            **vars(record),
            "files": files,
            "counts": counts,
            "seconds": round(seconds, 2),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "versions": versions(),
            "device": device(),
            **more,
        },
    )


def elapsed(folder: Path) -> float:
    """Seconds of earlier calls that worked on this stage and stopped in good order (a SIGKILL notes nothing)."""
    path = folder / "logs" / "elapsed.json"
    return float(read_json(path)) if path.exists() else 0.0


def note_elapsed(folder: Path, seconds: float) -> None:
    """Remember the seconds that the stage has taken so far."""
    write_json(folder / "logs" / "elapsed.json", round(seconds, 2))


def artefacts(folder: Path) -> Iterator[Path]:
    """The files that are the stage's result, in order."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        own = inside.name in (BEGUN, FINISHED) and len(inside.parts) == 1
        if path.is_file() and not own and inside.parts[0] not in NOT_ARTEFACTS and not path.name.endswith((PART_SUFFIX, DONE_MARK)):
            yield path


def is_bare(folder: Path) -> bool:
    """Whether nothing in the folder is worth going on from: no artefact and no checkpoint."""
    return not any(artefacts(folder)) and not (folder / "checkpoints").exists()


def verify(folder: Path) -> dict[str, Any]:
    """The manifest, after every file in it was found unchanged. Raises UserError that names the file otherwise."""
    manifest = read(folder)
    advice = f"restore it, or make it again with --redo {manifest['stage']}"
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise UserError(f"{path} is missing although {folder / FINISHED} lists it; {advice}")
        if path.stat().st_size != expected["size"] or sha256(path) != expected["sha256"]:
            raise UserError(f"{path} is damaged: it differs from what {folder / FINISHED} lists; {advice}")
    return manifest


def contents(manifest: dict[str, Any]) -> str:
    """One hash of all files of a finished stage: what later stages depend on."""
    return hashlib.sha256(
        json.dumps({name: file["sha256"] for name, file in manifest["files"].items()}, sort_keys=True).encode()
    ).hexdigest()


def refuse_if_changed(folder: Path, record: Record, name: str) -> None:
    """Raise UserError, naming the first difference, when the folder was begun or finished from another record. `name` is what --redo takes:
    the stage, and what of it (`finetune/nsmc/1`)."""
    path = folder / (FINISHED if is_finished(folder) else BEGUN)
    if not path.is_file():
        return
    before = read_json(path)
    if before["fingerprint"] == record.fingerprint:
        return
    section = name.split("/")[:2]
    several = f" (or {'/'.join(section)}, all of it)" if name.count("/") > 1 else ""
    raise UserError(
        f"{folder} was made otherwise: {difference(before, record, '.'.join(section))}; "
        f"use another --run-dir, or give `kobert run` --redo {name}{several} to delete and make it again"
    )


def difference(before: dict[str, Any], record: Record, section: str | None = None) -> str:
    """What changed between a stored record and this one, in words; `section` is that of the recipe, the stage's by default."""
    old, new = flat(before["options"]), flat(record.options)
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            return f"option {section or record.stage}.{key} was {old.get(key)!r} and is now {new.get(key)!r}"
    for key in sorted(before["inputs"].keys() | record.inputs.keys()):
        if before["inputs"].get(key) != record.inputs.get(key):
            return f"its input {key} has changed"
    return f"it has version {before['version']} of the stage's format, this is version {record.version}"


def flat(options: Any, prefix: str = "") -> dict[str, Any]:
    """Nested options as {"a.b.0": value}."""
    if isinstance(options, dict):
        items = [(str(key), value) for key, value in options.items()]
    elif isinstance(options, list):
        items = [(str(i), value) for i, value in enumerate(options)]
    else:
        return {prefix: options}
    return {key: value for name, item in items for key, value in flat(item, f"{prefix}.{name}" if prefix else name).items()}


def reuse(folder: Path, record: Record) -> dict[str, Any] | None:
    """Take over an equal stage of another run beside this one; its manifest, or None where there is none that could be taken over."""
    runs = next(parent.parent.parent for parent in (folder, *folder.parents) if parent.name == record.stage)
    for path in sorted(runs.glob(f"*/{record.stage}/**/{FINISHED}")):
        try:
            if path.parent != folder and read_json(path).get("fingerprint") == record.fingerprint:
                return adopt(path.parent, folder, record, str(path.parent.relative_to(runs)))
        except (UserError, OSError):
            continue  # what is wrong with another run, or done to it meanwhile, is not this one's trouble
    return None


def adopt(source: Path, folder: Path, record: Record, name: str) -> dict[str, Any]:
    """Take over the files of an equal stage, and no others, by hard link (or copy), and finish.
    Raises UserError or OSError, and leaves no folder, when they are not what its manifest lists."""
    made = verify(source)
    delete(folder)
    try:
        begin(folder, record)
        for file in made["files"]:
            _link(source / file, folder / file)
        if made["fingerprint"] != record.fingerprint or listed(folder) != made["files"]:
            raise UserError(f"{source} was changed while it was taken over; run the same command again")
        finish(folder, record, made["files"], made["counts"], made["seconds"], reused_from=name, device=made.get("device"))
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
    names = ("kobert-pipeline", "kiwipiepy", "kiwipiepy_model", "tokenizers", "transformers", "torch", "numpy", "pyarrow")
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def device() -> dict[str, Any]:
    """What this process computes on: `name`, and the `count` of them that work together. A stage without torch runs on the CPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return {"name": torch.cuda.get_device_name(), "count": int(os.environ.get("WORLD_SIZE", "1"))}
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"name": f"CPU ({models[0] if models else platform.machine()}, {os.cpu_count()} cores)", "count": 1}
