"""The contract of a reader: files in, documents out, in an order that depends on nothing but the files."""

import os
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.open_text import LONGEST_LINE
from kobert_pipeline.corpus.unfit import Skipped, Unfit, strict
from kobert_pipeline.errors import UserError


class Reader(Plugin):
    """A source of documents. Subclasses implement `documents`."""

    family: ClassVar[str] = "readers"

    path: str | list[str]
    """File below data_dir, a pattern such as `kowiki-*.jsonl.zst`, or a list of them."""
    license: str | None = None
    """Licence of the data, for the model card."""
    limit_characters: int | None = Field(None, gt=0)
    """Stop after the document that reaches this many characters (a prefix of the files, not a sample)."""

    on_error: Literal["refuse", "skip"] = "refuse"
    """What becomes of files and rows that cannot be read: refuse stops at the first; skip counts them by reason and
    lists them in the manifest. What was read of a file before it broke off is kept."""
    max_document_bytes: int = Field(LONGEST_LINE, gt=0, le=2**31 - 1)
    """Longer documents, in bytes of UTF-8, are dropped as `too_long`, without ever being in memory whole."""

    @abstractmethod
    def documents(self, path: Path) -> Iterator[Document | Unfit]:
        """The documents of one file, and what is unfit among them. Raises Unfit where nothing more of the file can be
        read."""

    def files(self, data_dir: Path) -> list[Path]:
        """The files that `path` names, patterns resolved and sorted. Raises UserError where nothing is found, or cannot
        be read."""
        found = self.matching_files(data_dir)
        for path in found:
            try:
                refuse_unreadable(path)
            except Unfit as problem:
                if self.on_error == "refuse":
                    raise problem.refused() from None
        return found

    def matching_files(self, data_dir: Path) -> list[Path]:
        """The files that `path` names, fit or not. Raises UserError where nothing is found."""
        found: list[Path] = []
        for pattern in [self.path] if isinstance(self.path, str) else self.path:
            path = data_dir / pattern  # an absolute pattern stays as it is
            matches = [path] if path.is_file() else _glob(pattern, data_dir)
            if not matches and path.is_dir():
                raise UserError(
                    f"{path} is a folder; give a pattern for the files in it, such as {_suggest_pattern(path, pattern)}"
                )
            if not matches:
                raise UserError(f"{path} does not exist; check the path in the recipe and data_dir (now {data_dir})")
            found += matches
        return found

    def files_to_check(self, data_dir: Path) -> list[Path]:
        """What `kobert check` looks into: every file. Raises UserError where nothing is found."""
        return self.matching_files(data_dir)

    def groups(self, data_dir: Path) -> list[list[Path]]:
        """What is read in one go: each file, or all where a limit runs over them."""
        files = self.files(data_dir)
        return [files] if self.limit_characters else [[path] for path in files]

    def provenance(self) -> list[dict[str, str]]:
        """`path` and `license` of every entry of `path`, for the model card."""
        return [
            {"path": path, "license": self.license or "not stated"}
            for path in ([self.path] if isinstance(self.path, str) else self.path)
        ]

    def title(self) -> str:
        """What the source is called in counts."""
        return self.path if isinstance(self.path, str) else ", ".join(self.path)

    def read(self, data_dir: Path) -> Iterator[Document]:
        """All documents up to `limit_characters`. Raises Unfit where one is not fit, whatever `on_error` says."""
        return (document for group in self.groups(data_dir) for document in self.read_files(group))

    def read_files(self, files: list[Path], skipped: Skipped | None = None) -> Iterator[Document]:
        """The documents of `files` up to `limit_characters`. Raises Unfit where something is not fit, unless it is to
        be skipped, which `skipped` then counts."""
        characters = 0
        for path in files:
            for document in self._read_file(path, skipped):
                yield document
                characters += len(document.text)
                if self.limit_characters and characters >= self.limit_characters:
                    return

    def _read_file(self, path: Path, skipped: Skipped | None) -> Iterator[Document]:
        """The documents of one file; what is not fit is refused, or counted."""
        if skipped is None:
            yield from strict(self.documents(path))
            return
        read = 0
        try:
            for found in self.documents(path):
                if isinstance(found, Document):
                    read += 1
                    yield found
                elif self.on_error == "skip":
                    skipped.note("rows_skipped", found)
                else:
                    raise found
        except Unfit as problem:
            if self.on_error == "refuse":
                raise problem.refused() from None
            skipped.note("files_read_in_part" if read else "files_skipped", problem)


def refuse_skipping(readers: Iterable[Reader], where: str) -> None:
    """Raise ValueError, for options, where one of the readers of evaluation texts would skip some of them."""
    for reader in readers:
        if reader.on_error == "skip":
            raise ValueError(
                f"{where} must be read whole, so {reader.title()} cannot have on_error: skip; leave that out"
            )


def refuse_unreadable(path: Path) -> None:
    """Raise UserError for a file in which there is nothing to read, so that `kobert check` reports it and not a task
    hours later."""
    if path.stat().st_size == 0:
        raise Unfit("empty", f"{path} is empty; there is nothing to read in it, so leave it out or fetch it again")
    if not os.access(path, os.R_OK):
        raise UserError(
            f"{path} cannot be read, this user has no permission to; permit it (chmod u+r), or leave it out"
        )


def _glob(pattern: str, folder: Path) -> list[Path]:
    """The files below `folder` that fit `pattern`; of marks such as [ in the folder's own name none is a pattern."""
    if not any(mark in pattern for mark in "*?["):
        return []
    anchor = Path(pattern).anchor
    below = Path(anchor) if anchor else folder
    once = re.sub(
        r"(\*\*/)+", "**/", pattern.removeprefix(anchor)
    )  # each further one would look through every folder anew
    try:
        return sorted(path for path in below.glob(once) if path.is_file())
    except (ValueError, RecursionError, NotImplementedError) as error:
        raise UserError(
            f"{pattern:.200} is not a pattern for files ({error}); write for example kowiki-*.jsonl.zst"
        ) from None


def _suggest_pattern(folder: Path, given: str) -> str:
    """A pattern for the files of a folder, by the commonest end of their names, which may be one more folder down."""
    for below in ("*", "*/*", "**/*"):
        ends = Counter("".join(path.suffixes[-2:]) for path in folder.glob(below) if path.is_file())
        if ends:
            return f"{given.rstrip('/')}/{below}{max(ends, key=lambda end: (ends[end], end))}"
    return f"{given.rstrip('/')}/*.txt"
