"""Atomic writes, JSON, records with their own digest, and listing and deleting files by patterns."""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, cast

from kobert_pipeline.errors import Damaged, UserError, refuse_existing

if TYPE_CHECKING:
    import numpy as np

CLONE = Path(__file__).resolve().parents[1]
"""The clone that this package is in, or the folder of installed packages."""
PART_SUFFIX, DONE_SUFFIX = ".part", ".done.json"
LITTER = (".DS_Store", "Thumbs.db", "desktop.ini", "._*", ".nfs*", "__pycache__", ".ipynb_checkpoints")
"""Files that operating systems and tools leave in any folder; they are ignored."""
MAX_JSON_DEPTH = 100
"""Nesting levels of JSON, so that recursive functions can process what was read."""
SURROGATES = re.compile("[\ud800-\udfff]")
"""Lone surrogates: JSON can contain one as an escape (\\ud83d), but UTF-8 cannot encode it."""


def folder_of_clone(name: str) -> Path | None:
    """The folder `name` at the top of the clone that this package runs from, such as `corpora`; None where there is
    none, as in an installed package."""
    # an installed package is in `site-packages`, where a folder of this name would be somebody else's
    return CLONE / name if (CLONE / "pyproject.toml").is_file() and (CLONE / name).is_dir() else None


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, which is renamed to `path` when the block ends without an error.

    After a kill or a power failure, `path` either has its complete content or is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # always the same name, so that the next write replaces what a killed one left
    part = path.with_name(path.name + PART_SUFFIX)
    try:
        yield part
        # to disk before the rename: after a power failure the new name could otherwise have no content
        # a new file object will do: fsync is of the file, and the one that wrote it is closed by now
        with part.open("rb") as file:
            os.fsync(file.fileno())
        # the folder is not synced: where a power failure undoes the rename, `path` is only unchanged
        part.replace(path)
    # BaseException, since Ctrl-C must not leave a partial file either
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def refuse_unwritable(path: Path, option: str, suffixes: Iterable[str]) -> None:
    """Raise UserError for a path, given by an `option`, with another suffix, or that exists: nothing is overwritten."""
    if path.suffix not in suffixes:
        raise UserError(f"{option} {path}: the name must end in one of {', '.join(suffixes)}")
    refuse_existing(path, option)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, with its keys in their order."""
    with atomic_write(path) as part:
        part.write_text(json_text(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises UserError if it does not exist or is not JSON."""
    try:
        return parse_json(path.read_text(encoding="utf-8-sig"))  # some editors write a byte order mark
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except ValueError as error:
        raise UserError(f"{path} is not a JSON file in UTF-8 ({error})") from None


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, regardless of the order of its keys."""
    # with any other form of this text every record that exists would look damaged
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_json_with_digest(path: Path, value: dict[str, Any]) -> None:
    """Write a record with the digest of its content as the last key, so that any change of the file is noticed."""
    content = {key: item for key, item in value.items() if key != "digest"}
    # through JSON first, so that the digest is of what will be read: keys are text then, and tuples are lists
    write_json(path, content | {"digest": digest(json.loads(json.dumps(content)))})


def read_json_with_digest(path: Path) -> dict[str, Any]:
    """Read a record of `write_json_with_digest`, without its digest. Raises Damaged if the file was changed."""
    try:
        value = read_json(path)
    except UserError as error:
        raise Damaged(f"{path} is damaged: {error}; restore it, or move its folder away and run again") from None
    if not isinstance(value, dict) or value.pop("digest", None) != digest(value):
        raise Damaged(
            f"{path} is damaged or was edited: it differs from its own digest; restore it, or move its folder away "
            "and run again"
        )
    return value


class RepeatedKey(ValueError):
    """An object has a key twice, of whose values a parser would silently keep the last."""


def _with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise RepeatedKey(f"the key {key!r:.80} appears twice in one object")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_with_unique_keys)
"""Made once: `json.loads` would make one for every text."""


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises ValueError for other text, repeated keys, too long integers and too deep
    nesting."""
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        value, depth = None, MAX_JSON_DEPTH + 1
    # both are ValueErrors, too, but say what is wrong
    except (json.JSONDecodeError, RepeatedKey):
        raise
    except ValueError:  # Python's limit is 4,300 digits
        raise ValueError("an integer in it has too many digits") from None
    else:
        depth = _depth(value)
    if depth > MAX_JSON_DEPTH:
        raise ValueError(f"its lists and objects are nested more than {MAX_JSON_DEPTH} deep")
    return value


def _depth(value: Any) -> int:
    """Nesting depth of lists and objects in `value`, counted up to `MAX_JSON_DEPTH` + 1 and without recursion."""
    depth, level = 0, [value]
    while depth <= MAX_JSON_DEPTH and (nested := [item for item in level if isinstance(item, (dict, list))]):
        depth += 1
        level = [item for container in nested for item in _items(container)]
    return depth


def _items(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def json_text(value: Any, indent: int | None = None) -> str:
    """`value` as JSON text that can be written as UTF-8: if it has a lone surrogate, everything is escaped as ASCII."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if SURROGATES.search(text) is None else json.dumps(value, indent=indent)


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json_lines(path: Path, rows: Iterator[Any]) -> None:
    """Write one JSON value per line."""
    with atomic_write(path) as part, part.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json_text(row) + "\n")


def read_json_lines(path: Path) -> list[Any]:
    """Read the values of `write_json_lines`."""
    with path.open(encoding="utf-8") as file:
        return [parse_json(line) for line in file]


class _Writer:
    """Hides from numpy that a file is a real one. To a real file numpy writes with its own C code, whose errors do not
    tell a full disk from any other cause."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write


def write_array(path: Path, array: "np.ndarray") -> None:
    """Write an .npy file."""
    import numpy as np

    with atomic_write(path) as part, part.open("wb") as file:
        np.lib.format.write_array(cast(IO[bytes], _Writer(file)), np.asanyarray(array), allow_pickle=False)


def finish_part(path: Path, counts: dict[str, Any], *others: Path) -> None:
    """Mark `path`, and the `others` that belong to it, as complete: their SHA-256 and the counts go to a file next to
    it, so that a stage that is killed later need not create them again."""
    files = {part.name: sha256(part) for part in (path, *others)}
    write_json_with_digest(path.with_name(path.name + DONE_SUFFIX), {"files": files, "counts": counts})


def finished_part(path: Path) -> dict[str, Any] | None:
    """The counts of a part that `finish_part` marked as complete, or None if there is no mark. Raises Damaged if a file
    of it has changed since."""
    mark = path.with_name(path.name + DONE_SUFFIX)
    if not path.exists() or not mark.exists():
        return None
    record = read_json_with_digest(mark)
    for name, expected in record["files"].items():
        file = path.with_name(name)
        if not file.is_file() or sha256(file) != expected:
            raise Damaged(f"{file} has changed since it was written; delete {mark} and run again to create it again")
    counts: dict[str, Any] = record["counts"]
    return counts


def counts_of_part(path: Path) -> dict[str, Any]:
    """The counts of a part that was finished in this run, or found intact."""
    counts: dict[str, Any] = read_json_with_digest(path.with_name(path.name + DONE_SUFFIX))["counts"]
    return counts


def files_below(folder: Path) -> Iterator[str]:
    """The paths, relative and with slashes, of all files in `folder` and its subfolders, except litter. A symbolic link
    counts as a file and is never followed."""
    try:
        entries = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return  # `kobert status` may list the work folder of a running stage while that deletes it
    for path in entries:
        if any(fnmatchcase(path.name, litter) for litter in LITTER):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from (f"{path.name}/{name}" for name in files_below(path))
        else:
            yield path.name


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether `name`, a relative path with slashes, matches one of `patterns`.

    A `*` does not match a slash; `dir/**` is everything in `dir` and its subfolders.
    """
    # a file that is being written (.part), and the mark of a finished one (.done.json), count as the file itself
    for suffix in (PART_SUFFIX, DONE_SUFFIX):
        name = name.removesuffix(suffix)
    # so does a hidden folder that is being written, as a checkpoint is until it is complete (.step-00000100.part)
    parts = [part.removesuffix(PART_SUFFIX) if part.startswith(".") else part for part in name.split("/")]
    return any(_matches(parts, pattern.split("/")) for pattern in patterns)


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Whether each part of a path matches the pattern's; fnmatch alone would let a `*` match slashes."""
    if pattern[-1] == "**" and len(parts) >= len(pattern):
        parts, pattern = parts[: len(pattern) - 1], pattern[:-1]
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))


def remove_tree(folder: Path, patterns: Iterable[str]) -> None:
    """Delete the files in `folder` that match one of the patterns, and the subfolders that become empty."""
    patterns = tuple(patterns)
    remove_files(folder, [name for name in files_below(folder) if matches_any(name, patterns)])


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Delete files of `folder` by their names, and then its empty subfolders."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    for path in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):  # deepest first
        remove_if_empty(path)


def remove_if_empty(folder: Path) -> None:
    """Delete the folder if it is empty and not a symbolic link."""
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()


_LOCKED, _LOCKED_GUARD = set[Path](), Lock()
"""The folders that this process has locked."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock `folder` for this process, and create it if necessary.

    Raises UserError if another process, or another thread, holds the lock, or if there cannot be such a folder.
    """
    import fcntl

    another_works = UserError(f"another kobert process works on {folder}; wait for it, or choose another --run-dir")

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        wrong = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), folder)
        raise UserError(
            f"{folder} cannot be the folder of a run: {wrong} is not a folder; choose another --run-dir"
        ) from None
    except (FileNotFoundError, ValueError) as error:  # such as a folder in /proc, or a name with a null byte
        raise UserError(f"{folder} cannot be the folder of a run ({error}); choose another --run-dir") from None
    # kept afterwards: with a new file of this name a second process could lock the folder, too
    # a lock of lockf is its process's: a second one is granted there, and the end of either ends both
    path = folder.resolve()
    with _LOCKED_GUARD:
        if path in _LOCKED:
            raise another_works
        _LOCKED.add(path)
    try:
        with (folder / ".lock").open("a") as file:  # "a": whatever the file holds is kept
            try:
                # lockf, since processes that are forked meanwhile would inherit a lock of flock
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                raise another_works from None
            yield
    finally:
        _LOCKED.discard(path)
