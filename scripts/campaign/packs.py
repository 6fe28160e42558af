"""What a machine that only trains needs of a run, packed into archives of a size that travels, and unpacked there.

A pack is a tar of files, each compressed by itself (xz, which every Python reads; few read zstd without a library), so
that every pack can be unpacked alone, in any order. `index.json` beside the packs lists packs and files with their
SHA-256; it travels with each load. Nothing but the standard library is needed to unpack, for the libraries that a
machine lacks are in the packs.
"""

import hashlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

INDEX, RECIPE = "index.json", "recipe.yaml"
RUN, WHEELS, SITE = "run", "wheels", "site"
"""Folders of the training machine: the run, wheels as they came, and what was in them."""
READ_BY_TRAINING = ("tokenizer", "shards", "features")
ONLY_SAID = ("corpus", "analysis")
"""Of these stages the manifest goes along: the run is compared with the recipe back to its beginning, but their files
are not read."""
MIB = 2**20
LIMIT_MIB = 60.0
WHEELS_WANTED = ("pydantic",)
"""What a machine with torch and transformers may still lack of what training imports; pip adds what these need."""

# ids are numbers of two bytes, and xz is told so (lp, pb): 1 % smaller than by its usual settings, which suit texts
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 2, "lp": 1, "pb": 1}]


class Refused(Exception):
    """Something the user can mend: one sentence."""


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def files_of(run_dir: Path) -> Iterator[tuple[str, Path]]:
    """(name on the training machine, file) of everything that training reads. Raises Refused for a stage that is not
    finished."""
    for stage in (*ONLY_SAID, *READ_BY_TRAINING):
        folders = (
            sorted((run_dir / stage).iterdir())
            if stage == "features" and (run_dir / stage).is_dir()
            else [run_dir / stage]
        )
        for folder in folders:
            manifest = folder / "manifest.json"
            if not manifest.is_file():
                raise Refused(f"{folder} is not finished; run `kobert run RECIPE --until features` first")
            listed = json.loads(manifest.read_text(encoding="utf-8"))["files"] if stage in READ_BY_TRAINING else {}
            for path in [manifest, folder / "started.json", *(folder / name for name in listed)]:
                yield f"{RUN}/{path.relative_to(run_dir).as_posix()}", path


def fetch_wheels(python: str, folder: Path, constraints: Path) -> list[Path]:
    """Wheels of `WHEELS_WANTED` and what they need, for Linux and Python `python`."""
    platform = [
        "--only-binary=:all:",
        "--python-version",
        python,
        "--platform",
        "manylinux2014_x86_64",
        "--platform",
        "manylinux_2_28_x86_64",
    ]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        *platform,
        "--dest",
        str(folder),
        "--constraint",
        str(constraints),
    ]
    if subprocess.run([*command, *WHEELS_WANTED], check=False).returncode:
        raise Refused(
            f"pip could not download wheels for Python {python}; try again, or leave them out with --wheels-for none"
        )
    return sorted(folder.glob("*.whl"))


def pack(files: list[tuple[str, Path]], packs: Path, limit: int, about: dict[str, Any]) -> dict[str, Any]:
    """Write `000.tar`, `001.tar`, ... of at most `limit` bytes, in the order given, and the index, which is also
    returned. Raises Refused for a file that is larger by itself, and for a folder that holds anything but packs."""
    for path in sorted(packs.iterdir()) if packs.exists() else ():
        if path.name != INDEX and not re.fullmatch(r"\d{3,}\.tar", path.name):
            raise Refused(f"{path} is not a pack, so nothing in {packs} is overwritten; give a new or empty folder")
    for path in sorted(packs.iterdir()) if packs.exists() else ():
        path.unlink()
    packs.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {**about, "packs": {}, "files": {}}
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        members: list[tuple[str, bytes]] = []
        size = 0
        for name, data, raw in threads.map(_compressed, files):
            needed = -(-len(data) // 512) * 512 + 1024  # a member's header and padding
            if needed + 10240 > limit:
                raise Refused(
                    f"{name} is {len(data) / MIB:.1f} MiB compressed, too large for a pack of {limit / MIB:.1f}; raise "
                    "--pack-mib"
                )
            if members and size + needed + 10240 > limit:
                _write(packs, members, index)
                members, size = [], 0
            members.append((name, data))
            size += needed
            index["files"][name] = raw | {"pack": f"{len(index['packs']):03d}.tar"}
        _write(packs, members, index)
    (packs / INDEX).write_text(json.dumps(index, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    return index


def _compressed(file: tuple[str, Path]) -> tuple[str, bytes, dict[str, Any]]:
    name, path = file
    data = path.read_bytes()
    return name, lzma.compress(data, lzma.FORMAT_XZ, filters=FILTERS), {"size": len(data), "sha256": digest(data)}


def _write(packs: Path, members: list[tuple[str, bytes]], index: dict[str, Any]) -> None:
    path = packs / f"{len(index['packs']):03d}.tar"
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(f"{name}.xz")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    index["packs"][path.name] = {"size": path.stat().st_size, "sha256": digest(path.read_bytes())}


def unpack(packs: Path, work: Path) -> list[str]:
    """Unpack the packs of the index that lie in `packs`; the names of files that are still missing then. Raises Refused
    for a pack or file that is damaged or not of this index."""
    if not (packs / INDEX).is_file():
        raise Refused(f"{packs} has no {INDEX}; it travels with every load of packs")
    index = json.loads((packs / INDEX).read_text(encoding="utf-8"))
    known = work / INDEX
    if known.is_file() and json.loads(known.read_text(encoding="utf-8")) != index:
        raise Refused(f"{work} was begun from other packs than {packs}; unpack into another folder, or delete it first")
    work.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(packs / INDEX, known)
    for name, expected in index["packs"].items():
        if (packs / name).is_file():
            if digest((packs / name).read_bytes()) != expected["sha256"]:
                raise Refused(f"{packs / name} is damaged: it differs from what {INDEX} lists; bring it again")
            _extract(packs / name, work, index["files"])
    return missing(work)


def _extract(path: Path, work: Path, files: dict[str, Any]) -> None:
    with tarfile.open(path) as tar:
        members = [(info.name.removesuffix(".xz"), tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(lambda member: _place(member, work, files), members):
            pass


def _place(member: tuple[str, bytes], work: Path, files: dict[str, Any]) -> None:
    name, data = member[0], lzma.decompress(member[1])
    if (
        name not in files
        or ".." in PurePosixPath(name).parts
        or PurePosixPath(name).is_absolute()
        or digest(data) != files[name]["sha256"]
    ):
        raise Refused(f"{name} in a pack is not what {INDEX} lists; make the packs again")
    target = work / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_name(f"{target.name}.part").write_bytes(data)
    target.with_name(f"{target.name}.part").replace(target)
    if PurePosixPath(name).parts[0] == WHEELS:
        zipfile.ZipFile(target).extractall(work / SITE)  # a wheel of a pure or compiled library is its folder, zipped


def missing(work: Path) -> list[str]:
    """The files of the index that are not there, or not whole. Raises Refused where nothing was unpacked."""
    if not (work / INDEX).is_file():
        raise Refused(f"{work} has no {INDEX}; unpack into it first")
    files = json.loads((work / INDEX).read_text(encoding="utf-8"))["files"]
    return [
        name
        for name, file in files.items()
        if not (work / name).is_file() or (work / name).stat().st_size != file["size"]
    ]
