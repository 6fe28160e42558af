"""`kobert unbundle`: the files of a bundle back into a run folder, from parts that may arrive one after another.

While parts are missing, the parts that have arrived are kept in a hidden folder of the run. Nothing else is written
until all of them are there; then each file is written atomically, of every stage the manifest last, so that a command
that was killed is completed by the same command. A file that is there already is kept if it is equal, and refused
otherwise.
"""

import lzma
import re
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO, Any

from kobert_pipeline.errors import Damaged, NotOurs, UserError
from kobert_pipeline.files import (
    PART_SUFFIX,
    atomic_write,
    files_below,
    read_json_with_digest,
    remove_files,
    remove_if_empty,
    sha256,
)
from kobert_pipeline.progress import track
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.bundle import FORMAT, INDEX, RUN_NAME, XZ, member_name
from kobert_pipeline.runs.runner import STAGES

PART_NAME = re.compile(r"part-\d{3,9}")
File = dict[str, Any]
"""An entry of `bundle.json` about a file."""


def read_index(folder: Path) -> dict[str, Any]:
    """The content of a bundle's `bundle.json`. Raises UserError where it is missing, damaged or of another version."""
    if not (folder / INDEX).is_file():
        raise UserError(f"{folder / INDEX} does not exist; copy it from the bundle first, next to its parts")
    index = read_json_with_digest(folder / INDEX)
    if index.get("format") != FORMAT:
        raise UserError(
            f"{folder} is a bundle of format {index.get('format')}, and this version of kobert reads {FORMAT}; use the "
            "same version on both machines"
        )
    paths = [PurePosixPath(file["folder"], file["name"]) for file in index["files"]]
    paths_ok = all(path.parts[0] in STAGES and ".." not in path.parts for path in paths)
    if not paths_ok or not all(PART_NAME.fullmatch(name) for name in index["parts"]):
        raise Damaged(f"{folder / INDEX} lists files that are not of a stage, or not of a bundle; get the bundle again")
    if not RUN_NAME.fullmatch(index["name"]):
        raise Damaged(f"{folder / INDEX} is of a run named {index['name']!r:.80}, which is not a plain file name")
    return index


def unbundle(folder: Path, index: dict[str, Any], run_dir: Path) -> list[str]:
    """Take over the parts in `folder` for a run and, when none is missing, write its files. Returns the names of the
    parts that are missing.

    Raises UserError for damaged parts, which are not taken over, and where the run has other files.
    """
    # a folder for this very bundle, since the parts of all bundles have the same names
    recipe, arrived = run_dir / f"{index['name']}.yaml", run_dir / f".unbundle-{sha256(folder / INDEX)[:12]}"
    if recipe.exists() and recipe.read_bytes() != index["recipe"].encode():
        raise NotOurs(f"{recipe} is another recipe than the bundle's; move it away, or choose another --run-dir")
    wanted = [file for file in index["files"] if not _is_intact(_path(run_dir, file), file)]
    if wanted:
        _refuse_other_files(index["files"], wanted, run_dir)
        paths, missing = _collect(folder, index["parts"], arrived)
        if missing:
            return missing
        _extract(index["files"], wanted, paths, run_dir)
        for name in {file["folder"]: True for file in index["files"]}:
            manifest.verify(run_dir / name)
    if not recipe.exists():
        with atomic_write(recipe) as part:
            part.write_bytes(index["recipe"].encode())
    remove_files(arrived, index["parts"])
    remove_if_empty(arrived)
    return []


def _path(run_dir: Path, file: File) -> Path:
    """The path of a file in the run. Raises Damaged where a link leads out of its folder."""
    return manifest.path_inside(run_dir / file["folder"], file["name"])


def _is_intact(path: Path, expected: dict[str, Any]) -> bool:
    """Whether a file or a part exists and is what `bundle.json` lists."""
    return path.is_file() and path.stat().st_size == expected["size"] and sha256(path) == expected["sha256"]


def _refuse_other_files(files: list[File], wanted: list[File], run_dir: Path) -> None:
    """Raise NotOurs if a folder that is to be written has a file that the bundle has not, or has otherwise."""
    advice = "nothing was written; move it away, or choose another --run-dir"
    for folder in {file["folder"]: True for file in wanted}:
        path = run_dir / folder
        if blocking := next((at for at in (path, *path.parents) if at.exists() and not at.is_dir()), None):
            raise NotOurs(f"{blocking} is not a folder; {advice}")
        listed = {file["name"] for file in files if file["folder"] == folder}
        changed = {file["name"] for file in wanted if file["folder"] == folder}
        for name in files_below(path):
            if name in changed:
                raise NotOurs(f"{path / name} differs from the bundle's; {advice}")
            # what a killed command was writing is written again
            if name not in listed and name.removesuffix(PART_SUFFIX) not in changed:
                raise NotOurs(f"{path / name} is not from the bundle; {advice}")


def _collect(folder: Path, parts: dict[str, Any], arrived: Path) -> tuple[list[Path], list[str]]:
    """The paths of all parts; or the names of the missing ones, in which case the others are copied to `arrived`.
    Raises Damaged, after that, for parts that differ from their checksum."""
    paths = {}
    for name in track(parts, "verifying", len(parts), "parts"):
        paths[name] = next((at / name for at in (arrived, folder) if _is_intact(at / name, parts[name])), None)
    absent = [name for name, path in paths.items() if path is None]
    if absent:
        for name, path in paths.items():
            if path and path.parent == folder:
                with atomic_write(arrived / name) as part:
                    shutil.copyfile(path, part)
    if damaged := [name for name in absent if (folder / name).exists()]:
        missing = [name for name in absent if name not in damaged]
        also = f"; still missing: {', '.join(missing)}" if missing else ""
        raise Damaged(
            f"{folder}: {', '.join(damaged)} is damaged or incomplete (its SHA-256 is not the one in {INDEX}); copy it "
            f"again and repeat the command{also}"
        )
    return [path for path in paths.values() if path], absent


def _extract(files: list[File], wanted: list[File], parts: list[Path], run_dir: Path) -> None:
    """Write the `wanted` files from the parts, which hold all `files` in this order."""
    names = {member_name(file) for file in wanted}
    with closing(JoinedParts(parts)) as joined, tarfile.open(fileobj=joined, mode="r|") as archive:  # type: ignore[call-overload]
        # a stream cannot go back, so all members are visited, in the order in which they were packed
        members: Iterator[tarfile.TarInfo] = iter(archive)
        for file in track(files, "unpacking", len(files), "files"):
            member = next(members)
            if member.name not in names:
                continue
            content = archive.extractfile(member)
            path = _path(run_dir, file)
            with atomic_write(path) as part:
                with part.open("wb") as target, lzma.open(content) if file["stored"] == XZ else content as source:
                    shutil.copyfileobj(source, target)
                # before the rename: a wrong file with this name would be refused as the user's by the next command
                if not _is_intact(part, file):
                    raise Damaged(f"{path} would differ from what {INDEX} lists; get the bundle again")


class JoinedParts:
    """The parts as one file, as far as `tarfile` needs it."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self.waiting = list(reversed(parts))
        self.file: IO[bytes] | None = None

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, fewer at the end of a part, and none at the end of the last."""
        data = self.file.read(size) if self.file else b""
        if not data and self.waiting:
            self.close()
            self.file = self.waiting.pop().open("rb")
            return self.read(size)
        return data

    def close(self) -> None:
        """Close the current part."""
        if self.file:
            self.file.close()
