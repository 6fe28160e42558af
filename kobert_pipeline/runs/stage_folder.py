"""A stage's folder: which of its files kobert wrote, and so may delete.

Before anything else a stage writes `started.json`, which contains patterns of every file that the stage will write.
Only files that match are ever deleted. Any other file belongs to the user, and kobert refuses to work in its folder.
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
"""Subfolders that are not part of the result: the manifest does not list their files, and `kobert clean` may delete the
files of the last two."""


def is_started(folder: Path) -> bool:
    """Whether the folder has a record of its inputs."""
    return (folder / STARTED).is_file() or (folder / FINISHED).is_file()


def matches(name: str, writes: Iterable[str]) -> bool:
    """Whether kobert wrote a file of the folder: it is a record, or matches one of the patterns, or is what the library
    safetensors writes until a file of weights is whole."""
    writes = tuple(writes)
    weights = (pattern.rpartition("/") for pattern in writes if pattern.endswith(".safetensors"))
    unfinished = (f"{folder}{slash}.tmp??????" for folder, slash, _ in weights)
    return matches_any(name, (*writes, *RECORDS, *unfinished))


def foreign_files(folder: Path) -> list[str]:
    """The files in the folder that its record does not cover; all of them if there is no record."""
    names = list(files_below(folder))
    writes = written_by(folder) if names else ()
    return [name for name in names if not matches(name, writes)]


def refuse_foreign_files(folder: Path) -> None:
    """Raise NotOurs if the folder contains a file that its record does not cover. A folder without files is free to
    use."""
    if folder.is_symlink() and not folder.exists():
        raise NotOurs(
            f"{folder} is a link to a folder that does not exist; repair or remove it, or choose another --run-dir"
        )
    if folder.exists() and not folder.is_dir():
        raise NotOurs(f"{folder} is a file that kobert did not write; move it away, or choose another --run-dir")
    if foreign := foreign_files(folder):
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        raise NotOurs(
            f"{folder / foreign[0]}{more} was not written by kobert, so {folder} is neither written to nor deleted; "
            "move the file away, or choose another --run-dir"
        )


def written_by(folder: Path) -> tuple[str, ...]:
    """The patterns in the folder's record, none if it has no record."""
    for name in (STARTED, FINISHED):
        if (folder / name).is_file():
            return tuple(read_json_with_digest(folder / name).get("writes", ()))
    return ()


def delete(folder: Path) -> None:
    """Delete the files that the folder's record covers, and then the record.

    Raises NotOurs, before anything is deleted, if there is any other file.
    """
    refuse_foreign_files(folder)
    if not is_started(folder):
        return
    path = folder / (STARTED if (folder / STARTED).is_file() else FINISHED)
    record = read_json_with_digest(path)
    # Marked first and unmarked last, so that after a kill the rest is neither used nor taken for the user's files, and
    # `finish_deletion` can complete the deletion.
    write_json_with_digest(folder / STARTED, record | {"deleting": True})
    (folder / FINISHED).unlink(missing_ok=True)
    remove_files(folder, [name for name in files_below(folder) if name != STARTED])
    (folder / STARTED).unlink()
    remove_if_empty(folder)


def finish_deletion(folder: Path) -> None:
    """Complete a deletion that was interrupted."""
    if (folder / STARTED).is_file() and is_being_deleted(folder):
        delete(folder)


def is_being_deleted(folder: Path) -> bool:
    """Whether a deletion of the folder was started and not completed."""
    return bool(read_json_with_digest(folder / STARTED).get("deleting"))


def leftovers(folder: Path) -> dict[str, int]:
    """{file: bytes} of a finished stage's checkpoints and work files, or of all files of a stage whose deletion was
    interrupted."""
    if not is_started(folder):
        return {}
    record: dict[str, Any] = read_json_with_digest(folder / (FINISHED if (folder / FINISHED).is_file() else STARTED))
    written = (name for name in files_below(folder) if matches(name, record.get("writes", ())))
    if record.get("deleting"):
        names = list(written)
    elif (folder / FINISHED).is_file():
        names = [name for name in written if name.partition("/")[0] in ("checkpoints", "work")]
    else:  # an unfinished stage resumes from its checkpoints
        names = []
    return {name: (folder / name).lstat().st_size for name in names}
