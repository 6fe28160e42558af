"""Files that are either whole or not there (written beside their place, then renamed onto it), and records that carry
their own digest."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from kobert_pipeline.errors import Damaged, UserError

if TYPE_CHECKING:
    import numpy as np

PART_SUFFIX, DONE_SUFFIX = ".part", ".done.json"
LITTER = (".DS_Store", "Thumbs.db", "desktop.ini", "._*", ".nfs*", "__pycache__", ".ipynb_checkpoints")
"""What systems and tools leave everywhere: neither ours nor the user's own work, so it is left alone without a word."""
MAX_JSON_DEPTH = 100
"""Levels of lists and objects in JSON; whatever walks through them by recursion can."""
SURROGATES = re.compile("[\ud800-\udfff]")
"""Half characters: JSON can name one (\\ud83d), no encoding can write it."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
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
    with atomic_write(path) as part:
        part.write_text(json_text(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read JSON. A file that is not JSON is the user's to mend."""
    try:
        return parse_json(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except ValueError as error:
        raise UserError(f"{path} is not a JSON file in UTF-8 ({error})") from None


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ).hexdigest()


def write_json_with_digest(path: Path, value: dict[str, Any]) -> None:
    """Write a record that decides a result: the digest of its content is its last key, so that a change of it is
    noticed."""
    content = {key: one for key, one in value.items() if key != "digest"}
    write_json(path, content | {"digest": digest(json.loads(json.dumps(content)))})


def read_json_with_digest(path: Path) -> dict[str, Any]:
    """What `write_json_with_digest` wrote, without the digest. Raises Damaged for anything else."""
    try:
        value = read_json(path)
    except UserError as error:
        raise Damaged(f"{path} is damaged: {error}; restore it, or move its folder away and run again") from None
    if not isinstance(value, dict) or value.pop("digest", None) != digest(value):
        raise Damaged(
            f"{path} is damaged or was edited: it differs from its own digest; restore it, or move its folder away and "
            "run again"
        )
    return value


def parse_json(text: str) -> Any:
    """The value that JSON text spells. Raises ValueError for any other text, and for values that nothing here could
    work with."""
    try:
        value = json.loads(text)
    except RecursionError:
        value, depth = None, MAX_JSON_DEPTH + 1
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python converts no integer of more than 4,300 digits
        raise ValueError("an integer in it has too many digits") from None
    else:
        depth = _depth(value)
    if depth > MAX_JSON_DEPTH:
        raise ValueError(f"its lists and objects are nested more than {MAX_JSON_DEPTH} deep")
    return value


def _depth(value: Any) -> int:
    """How deep lists and objects are nested in `value`, counted up to `DEEPEST` + 1 and without recursion."""
    depth, level = 0, [value]
    while depth <= MAX_JSON_DEPTH and (level := [one for one in level if isinstance(one, (dict, list))]):
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def json_text(value: Any, indent: int | None = None) -> str:
    """`value` as JSON that any encoding can write: a lone surrogate, which UTF-8 has no bytes for, makes all of it
    ASCII escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if SURROGATES.search(text) is None else json.dumps(value, indent=indent)


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json_lines(path: Path, rows: Iterator[Any]) -> None:
    """One JSON value a line."""
    with atomic_write(path) as part, part.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json_text(row) + "\n")


def read_json_lines(path: Path) -> list[Any]:
    """The values that `write_json_lines` wrote."""
    with path.open(encoding="utf-8") as file:
        return [parse_json(line) for line in file]


class _Writer:
    """A file that numpy does not take for one. Of a real one it writes arrays itself, and its errors then say neither
    that the disk is full nor any other cause."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write


def write_array(path: Path, array: "np.ndarray") -> None:
    """Write an .npy file."""
    import numpy as np

    with atomic_write(path) as part, part.open("wb") as file:
        np.lib.format.write_array(cast(IO[bytes], _Writer(file)), np.asanyarray(array), allow_pickle=False)


def finish_part(path: Path, counts: dict[str, Any], *others: Path) -> None:
    """Note beside `path` that it and the `others` that belong to it are complete, with their SHA-256 and the counts, so
    that a stage killed later need not make them again."""
    files = {one.name: sha256(one) for one in (path, *others)}
    write_json_with_digest(path.with_name(path.name + DONE_SUFFIX), {"files": files, "counts": counts})


def finished_part(path: Path) -> dict[str, Any] | None:
    """The counts of a part that was finished and has not changed since; None when it must be made. Raises Damaged when
    it has changed."""
    mark = path.with_name(path.name + DONE_SUFFIX)
    if not path.exists() or not mark.exists():
        return None
    noted = read_json_with_digest(mark)
    for name, expected in noted["files"].items():
        if not (changed := path.with_name(name)).is_file() or sha256(changed) != expected:
            raise Damaged(
                f"{changed} has changed since it was written; delete {mark} and run again, then it is made anew"
            )
    counts: dict[str, Any] = noted["counts"]
    return counts


def files_below(folder: Path) -> Iterator[str]:
    """Every file below `folder` but litter, by its path with slashes. A symbolic link counts as a file and is never
    followed."""
    try:
        entries = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return  # also a work folder of a stage under way, which `kobert status` may see vanish
    for path in entries:
        if any(fnmatchcase(path.name, litter) for litter in LITTER):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from (f"{path.name}/{name}" for name in files_below(path))
        else:
            yield path.name


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether `name`, a path below a folder with slashes, fits one of `patterns`. A `*` stays inside one part of the
    path; `dir/**` is everything below `dir`. What is being written (`.part`) and the marks of finished files
    (`.done.json`) count as the file itself."""
    for suffix in (PART_SUFFIX, DONE_SUFFIX):
        name = name.removesuffix(suffix)
    parts = name.split("/")
    return any(_part_by_part(parts, pattern.split("/")) for pattern in patterns)


def _part_by_part(parts: list[str], pattern: list[str]) -> bool:
    if pattern[-1] == "**" and len(parts) >= len(pattern):
        parts, pattern = parts[: len(pattern) - 1], pattern[:-1]
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))


def remove_tree(folder: Path, patterns: Iterable[str]) -> None:
    """Delete the files below `folder` that fit one of the patterns, and the subfolders that become empty; all others
    stay."""
    patterns = tuple(patterns)
    remove_files(folder, [name for name in files_below(folder) if matches_any(name, patterns)])


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Delete files of `folder` by their names, and the folders below it that are empty then."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    for path in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):  # the deepest first
        remove_if_empty(path)


def remove_if_empty(folder: Path) -> None:
    """Delete the folder unless something is in it, or it is a link."""
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder` for this process. Raises UserError when another process holds it, or when it is no folder."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        wrong = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), folder)
        raise UserError(
            f"{folder} cannot be the folder of a run: {wrong} is not a folder; choose another --run-dir"
        ) from None
    except (FileNotFoundError, ValueError) as error:  # in /proc nothing can be made; a name may hold a NUL
        raise UserError(f"{folder} cannot be the folder of a run ({error}); choose another --run-dir") from None
    with (folder / ".lock").open("a") as file:
        try:
            fcntl.lockf(
                file, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # unlike flock's, not inherited by processes forked meanwhile
        except (BlockingIOError, PermissionError):
            raise UserError(
                f"another kobert process works on {folder}; wait for it, or choose another --run-dir"
            ) from None
        yield
