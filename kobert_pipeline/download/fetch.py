"""Fetch one file over HTTP: resumed after an interruption, checked, and renamed only when it is complete.

The bytes go to `NAME.part`. `NAME.part.json` beside it says from which address they are and which version of the file
(its ETag or Last-Modified) they belong to: If-Range then makes the server send the rest only of that version.
"""

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import requests

from kobert_pipeline import __version__
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import PART_SUFFIX, read_json, sha256, write_json
from kobert_pipeline.progress import report

HEADERS = {"User-Agent": f"kobert-pipeline/{__version__}", "Accept-Encoding": "identity"}
"""Headers of every request; without compression, so that a part of the answer is a part of the file."""
TIMEOUT = (15, 60)
"""Seconds to wait for a connection, and for the next bytes."""
PAUSES = (1, 2, 4)
"""Seconds before each further try at an address; a try that brings new bytes starts the count again."""
TRY_LATER = {408, 425, 429}
"""Client errors that pass; others, such as 404, do not."""
CHUNK = 2**16


@dataclass(frozen=True)
class Expected:
    """What is known of a file."""

    size: int | None = None
    sha256: str | None = None
    git_sha1: str | None = None

    @property
    def checksum(self) -> bool:
        """Whether there is a checksum."""
        return bool(self.sha256 or self.git_sha1)

    def difference(self, path: Path) -> str | None:
        """How the file differs from what is expected, None if it does not."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"it has {size:,} bytes, {self.size:,} were expected"
        for kind, wanted, compute in (("SHA-256", self.sha256, sha256), ("git SHA-1", self.git_sha1, git_sha1)):
            if wanted and (actual := compute(path)) != wanted:
                return f"its {kind} is {actual}, {wanted} was expected"
        return None


class _Failed(Exception):
    """An address does not give the file; `passing` if it may give it a little later."""

    def __init__(self, reason: str, passing: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing


def git_sha1(path: Path) -> str:
    """SHA-1 of a file as a git blob: of a header with its size, and its bytes."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def fetched(addresses: list[str], target: Path, expected: Expected) -> Iterator[dict[str, Any]]:
    """Fetch `target` from the first address that gives it as `expected`, and yield what a record says of it. When the
    block ends without an error, the file gets its name. Raises UserError if no address gives it."""
    part, state = (target.with_name(target.name + suffix) for suffix in (PART_SUFFIX, f"{PART_SUFFIX}.json"))
    target.parent.mkdir(parents=True, exist_ok=True)
    if part.exists() and not state.exists():
        raise UserError(f"{part} exists and is not from kobert; move it away, then run the same command again")
    if not state.exists():
        write_json(state, {})  # first, so that a killed download leaves no .part without it
    with part.open("ab") as file:
        try:
            # the system gives the lock back when the process ends, also by a kill
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another kobert process downloads {target}; wait for it") from None
        try:
            facts = _first_good(addresses, target.name, file, state, expected)
            os.fsync(file.fileno())  # before the rename, as in `atomic_write`
            yield {"sha256": sha256(part), "size": part.stat().st_size, **facts}
            if target.exists():
                raise UserError(f"{target} appeared during the download and is left as it is; compare it with {part}")
            part.replace(target)
        finally:
            if not part.exists() or not part.stat().st_size:  # there is nothing to resume
                part.unlink(missing_ok=True)
                state.unlink()


def _first_good(
    addresses: list[str], name: str, file: IO[bytes], state: Path, expected: Expected
) -> dict[str, str | None]:
    """Receive the file from the first address that gives what is expected; returns the address and Last-Modified."""
    problems = []
    for address in addresses:
        for _ in range(2):  # bytes that were resumed wrongly are fetched once more, from the beginning
            resumed = file.seek(0, os.SEEK_END) > 0
            try:
                modified = _receive(address, name, file, state, expected)
            except _Failed as problem:
                problems.append(f"{address} ({problem})")
                break
            file.flush()  # `difference` reads the file by its name
            difference = expected.difference(Path(file.name))
            if difference is None:
                return {"address": address, "last_modified": modified}
            _cut(file, 0)
            if not resumed:
                problems.append(f"{address} ({difference})")
                break
    raise UserError(
        f"{name} could not be downloaded from {'; nor from '.join(problems)}; try the same command again later"
    )


def _receive(address: str, name: str, file: IO[bytes], state: Path, expected: Expected) -> str | None:
    """Append the rest of the file, in several tries if need be; returns its Last-Modified. Raises _Failed."""
    tries, most = 0, 0
    while True:
        try:
            return _try(address, name, file, state, expected)
        except _Failed as problem:
            failure = problem
        except requests.RequestException as problem:
            failure = _Failed(f"{type(problem).__name__}: {str(problem)[:150]}", passing=True)
        # a server that cannot resume and always stops at the same byte brings nothing new
        tries, most = (0, file.tell()) if file.tell() > most else (tries + 1, most)
        if not failure.passing or tries >= len(PAUSES):
            raise failure
        time.sleep(PAUSES[tries])


def _try(address: str, name: str, file: IO[bytes], state: Path, expected: Expected) -> str | None:
    """One request for the missing bytes; returns the file's Last-Modified. Raises _Failed, or an error of requests."""
    have, version = file.seek(0, os.SEEK_END), read_json(state)
    if version.get("address") != address or not version.get("validator"):
        have = 0
    ranged = {"Range": f"bytes={have}-", "If-Range": version["validator"]} if have else {}
    with requests.get(address, headers=HEADERS | ranged, stream=True, timeout=TIMEOUT) as response:
        status, headers = response.status_code, response.headers
        begin, total = _extent(status, headers)
        if status == 416 and have == total:
            return version["last_modified"]  # it was complete when the download was killed
        if status in (206, 416) and begin != have:
            _cut(file, 0)
            raise _Failed("it does not resume the download", passing=True)
        if status >= 400:
            raise _Failed(f"HTTP status {status}", passing=status >= 500 or status in TRY_LATER)
        if total is not None and total != (expected.size or total):
            raise _Failed(f"it has {total:,} bytes, {expected.size:,} were expected")
        # no file of a data set is a web page, so the server has sent one in its place
        if headers.get("Content-Type", "").startswith("text/html"):
            raise _Failed("it is a web page")
        refuse_full_disk(state.parent, total - begin if total else 0)
        # 0 where the server sends the whole file: it has another version by now, or cannot resume
        _cut(file, begin)
        modified = headers.get("Last-Modified")
        # before the first byte, so that after a kill it is known which version the bytes are of
        write_json(state, {"address": address, "validator": _validator(headers), "last_modified": modified})
        for chunk in response.iter_content(CHUNK):
            file.write(chunk)
            report(name, file.tell(), total, "bytes")
    if total is not None and file.tell() != total:
        raise _Failed(f"it ended after {file.tell():,} of {total:,} bytes", passing=True)
    return modified


def _extent(status: int, headers: Mapping[str, str]) -> tuple[int, int | None]:
    """The first byte that an answer contains, -1 where that is not stated, and the bytes of the whole file or None."""
    if status in (206, 416):
        stated = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", headers.get("Content-Range", ""))
        begin, total = stated.groups() if stated else (None, None)
        return int(begin) if begin else -1, int(total) if total else None
    # with an encoding it is the length of the answer before requests decodes it
    length = None if "Content-Encoding" in headers else headers.get("Content-Length")
    return 0, int(length) if length else None


def _validator(headers: Mapping[str, str]) -> str | None:
    """What If-Range takes: a strong ETag, or else the time of the last change; None for compressed bytes."""
    etag = headers.get("ETag", "W/")
    return None if "Content-Encoding" in headers else headers.get("Last-Modified") if etag[:2] == "W/" else etag


def _cut(file: IO[bytes], size: int) -> None:
    """Keep the first `size` bytes."""
    file.truncate(size)
    file.seek(size)


def refuse_full_disk(folder: Path, needed: int) -> None:
    """Raise UserError if the disk of `folder` has less than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"the download needs {needed / 1e9:.2f} GB of disk space in {folder}, where {free / 1e9:.2f} GB are free; "
            "free some, or choose another --data-dir"
        )
