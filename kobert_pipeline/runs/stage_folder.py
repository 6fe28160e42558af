"""A stage's folder: what proves that it is ours, and which of its files may be deleted.

Before its first byte a stage writes `started.json`, which says what the folder is made from and names, as patterns,
every file that will be written there. Only files that match are ever deleted, and any other file makes the command
refuse: somebody put it there.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import NotOurs
from kobert_pipeline.files import (
    files_below,
    matches_any,
    read_json_with_digest,
    remove_files,
    remove_if_empty,
    write_json_with_digest,
)

STARTED, FINISHED = "started.json", "manifest.json"
RECORDS = (STARTED, FINISHED, "logs/elapsed.json")
WORKING = ("logs", "checkpoints", "work")
"""Subfolders that are no result: they are neither listed nor compared, and `kobert clean` may empty the last two."""
RECORD_OF_0_1 = "begun.json"


def is_started(folder: Path) -> bool:
    """Whether the folder holds a record of what it is made from."""
    return (folder / STARTED).is_file() or (folder / FINISHED).is_file()


def matches(name: str, writes: Iterable[str]) -> bool:
    """Whether a file of the folder is one of ours: a record, or what one of the patterns names."""
    return matches_any(name, (*writes, *RECORDS))


def foreign_files(folder: Path) -> list[str]:
    """The files in the folder that its record does not name, all of them where it has no record."""
    names = list(files_below(folder))
    writes = written_by(folder) if names else ()
    return [name for name in names if not matches(name, writes)]


def refuse_foreign_files(folder: Path) -> None:
    """Raise NotOurs unless every file in the folder is one that its record names. A folder without files is
    nobody's."""
    if folder.is_symlink() and not folder.exists():
        raise NotOurs(f"{folder} is a link that leads nowhere; repair or remove it, or choose another --run-dir")
    if folder.exists() and not folder.is_dir():
        raise NotOurs(f"{folder} is a file that kobert did not write; move it away, or choose another --run-dir")
    if foreign := foreign_files(folder):
        others = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        raise NotOurs(
            f"{folder / foreign[0]}{others} was not written by kobert, so {folder} is neither written to nor deleted; "
            f"move it away, or choose another --run-dir"
        )


def written_by(folder: Path) -> tuple[str, ...]:
    """The patterns of what the folder's own record says was written there. Raises NotOurs where no record says so."""
    for name in (STARTED, FINISHED):
        if (folder / name).is_file():
            return tuple(read_json_with_digest(folder / name).get("writes", ()))
    if (folder / RECORD_OF_0_1).is_file():
        raise NotOurs(
            f"{folder} was made by kobert 0.1, whose records this version does not read; choose another --run-dir, or "
            "move it away"
        )
    return ()


def delete(folder: Path) -> None:
    """Delete the files that the folder's record names, and then the record; what is not ours makes it refuse before
    anything is deleted.

    The record says first that the folder is being deleted, so that after a kill `finish_deletion` completes it and
    nobody takes what is left for a stage.
    """
    refuse_foreign_files(folder)
    if not is_started(folder):
        return
    path = folder / (STARTED if (folder / STARTED).is_file() else FINISHED)
    record = read_json_with_digest(path)
    write_json_with_digest(folder / STARTED, record | {"deleting": True})
    (folder / FINISHED).unlink(missing_ok=True)
    remove_files(folder, [name for name in files_below(folder) if name != STARTED])
    (folder / STARTED).unlink()
    remove_if_empty(folder)


def finish_deletion(folder: Path) -> None:
    """Complete a deletion that was killed half-way."""
    if (folder / STARTED).is_file() and is_being_deleted(folder):
        delete(folder)


def is_being_deleted(folder: Path) -> bool:
    """Whether the folder's record says that a deletion began."""
    return bool(read_json_with_digest(folder / STARTED).get("deleting"))


def leftovers(folder: Path) -> dict[str, int]:
    """{file: bytes} of what a finished stage no longer needs (its checkpoints and work files), or of a stage that is
    being deleted."""
    if not is_started(folder):
        return {}
    record: dict[str, Any] = read_json_with_digest(folder / (FINISHED if (folder / FINISHED).is_file() else STARTED))
    if record.get("deleting"):
        kinds: tuple[str, ...] = ()
    elif (folder / FINISHED).is_file():
        kinds = ("checkpoints", "work")
    else:
        return {}
    ours = (name for name in files_below(folder) if matches(name, record.get("writes", ())))
    return {name: (folder / name).lstat().st_size for name in ours if not kinds or name.partition("/")[0] in kinds}
