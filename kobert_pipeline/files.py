"""Files that are either whole or not there: written beside their place, then renamed onto it."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError

PART_SUFFIX = ".part"


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a path to write to; when the block ends without an error it becomes `path`, durably."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + PART_SUFFIX)
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write `value` readably, keys in the order given."""
    with whole(path) as part:
        part.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read JSON. A file that is not JSON is the user's to mend."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is not a JSON file in UTF-8 ({error})") from None


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json_lines(path: Path, rows: Iterator[Any]) -> None:
    """One JSON value a line."""
    with whole(path) as part, part.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_json_lines(path: Path) -> list[Any]:
    """The values that `write_json_lines` wrote."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def finish_part(path: Path, counts: dict[str, Any]) -> None:
    """Mark `path` as whole, beside it, with its SHA-256 and counts, so that a stage killed later need not do it again."""
    write_json(_mark(path), {"sha256": sha256(path), "counts": counts})


def finished_part(path: Path) -> dict[str, Any] | None:
    """The counts of a part that was finished and has not changed since; None when it must be done."""
    if not path.exists() or not _mark(path).exists():
        return None
    mark = read_json(_mark(path))
    if mark["sha256"] != sha256(path):
        raise UserError(f"{path} has changed since it was written; delete it and run again, then it is made anew")
    counts: dict[str, Any] = mark["counts"]
    return counts


def _mark(path: Path) -> Path:
    return path.with_name(path.name + ".done.json")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder` for this process. Raises UserError when another process holds it, or when it is no folder."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        wrong = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), folder)
        raise UserError(f"{folder} cannot be the folder of a run: {wrong} is no folder; choose another --run-dir") from None
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # unlike flock's, not inherited by processes forked meanwhile
        except (BlockingIOError, PermissionError):
            raise UserError(f"another kobert process works on {folder}; wait for it, or choose another --run-dir") from None
        yield
