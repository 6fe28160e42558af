"""The interface of readers: files -> documents, in an order that depends only on the files."""

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal

from pydantic import Field

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.corpus.document import Document, relabel
from kobert_pipeline.download.sources import MissingFiles
from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.data_files import matching_files
from kobert_pipeline.tables.file_type import text_format
from kobert_pipeline.tables.open_text import LONGEST_LINE
from kobert_pipeline.tables.unreadable import Row, UnreadableInput, readable

LISTED = 100
"""Unreadable files and rows that a manifest lists; the counts include all of them."""
HEAD = 20_000
"""Characters by which the format of a file is recognized."""
SKIP_ADVICE = "; fix that, or leave out what cannot be read: on_error: skip"


@dataclass
class Skipped:
    """What was skipped: counts by reason, and the first `LISTED` sentences."""

    counts: Counter[str] = field(default_factory=Counter)
    listed: list[str] = field(default_factory=list)

    def note(self, what: str, problem: UnreadableInput) -> None:
        """Count a problem as `what` (such as rows_skipped), in total and by its reason."""
        self.counts.update([what, f"{what}_{problem.reason}"])
        if len(self.listed) < LISTED:
            self.listed.append(str(problem))


def nothing_readable(source: str, first_problem: str) -> str:
    """The sentence about a source from which nothing could be read."""
    return (
        f"corpus.sources: nothing of {source} could be read, all of it was skipped; the first problem: {first_problem}"
    )


def without_texts(reader: "Reader", option: str) -> str:
    """The sentence about files in which a reader of the corpus's `option` (sources) finds no text at all."""
    return (
        f"corpus.{option}: {reader.title()} has no text that the reader {reader.name} finds; give files with texts, "
        "another reader, or the column or key in which they are"
    )


class Reader(Plugin):
    """A source of documents. Subclasses implement `documents`."""

    family: ClassVar[str] = "readers"

    path: str | list[str]
    """File below data_dir, a pattern such as `kowiki-*.jsonl.zst`, or a list of these."""
    license: str | None = None
    """Licence of the data, for the model card."""
    limit_characters: int | None = Field(None, gt=0)
    """Stop after the document that reaches this many characters in total (the first documents, not a sample)."""

    on_error: Literal["refuse", "skip"] = "refuse"
    """What to do with files and rows that cannot be read: refuse stops, with all bad rows of the file; skip counts
    them by reason and lists them in the manifest. Documents read before the error in the same file are kept."""
    max_document_bytes: int = Field(LONGEST_LINE, gt=0, le=2**31 - 1)
    """Documents of more bytes in UTF-8 are dropped as `too_long`; the readers text, jsonl, wikiextractor and subtitles
    never have them in memory as a whole."""

    @abstractmethod
    def documents(self, path: Path) -> Iterator[Document | UnreadableInput]:
        """The documents of one file, with an UnreadableInput in place of each unreadable one. Raises UnreadableInput
        where the rest of the file is unreadable."""

    def columns_left_out(self, path: Path) -> list[str]:
        """The columns or keys of a file that are not read, by its first row; [] for readers that do not tell."""
        return []

    def files(self, data_dir: Path) -> list[Path]:
        """The files that `path` names, with patterns expanded and sorted. Raises UserError where there is none, or one
        cannot be read."""
        files = self.matching_files(data_dir)
        for path in files:
            try:
                refuse_unreadable(path)
            except UnreadableInput as problem:
                if self.on_error == "refuse":
                    raise UserError(f"{problem}{SKIP_ADVICE}") from None
        return files

    def matching_files(self, data_dir: Path) -> list[Path]:
        """The files that `path` names, readable or not. Raises UserError where there is none."""
        files, missing = list[Path](), list[Path]()
        for pattern in self.patterns():
            matches = matching_files(data_dir, pattern)
            path = data_dir / pattern  # an absolute pattern replaces data_dir
            if not matches and path.is_dir():
                raise UserError(f"{path} is a folder; give a pattern for the files in it, such as {pattern}/**/*.txt")
            if not matches:
                missing.append(path)
            files += matches
        if missing:
            raise MissingFiles(missing, data_dir)
        return list(dict.fromkeys(files))  # several patterns may match a file, which is read once

    def files_to_check(self, data_dir: Path) -> list[Path]:
        """The paths that `kobert check` reads a sample of. Raises UserError where there is none."""
        return self.matching_files(data_dir)

    @property
    def files_are_documents(self) -> bool:
        """Whether a file is one document, so that all files together are a source, and not each."""
        return False

    def source_of(self, path: Path, labels: Mapping[Path, str]) -> str:
        """What the documents of a file name as their source: the file, by its label if it has one, or for all files
        that are documents the `path` of the recipe."""
        if not self.files_are_documents:
            return labels.get(path, path.name)
        first, *more = self.patterns()
        return f"{first} and {len(more)} more" if more else first

    def groups(self, data_dir: Path) -> list[list[Path]]:
        """The files that must be read together: each by itself, or all of them where there is a limit."""
        files = self.files(data_dir)
        return [files] if self.limit_characters else [[path] for path in files]

    def provenance(self) -> list[dict[str, str]]:
        """`path` and `license` of every entry of `path`, for the model card."""
        return [{"path": path, "license": self.license or "not stated"} for path in self.patterns()]

    def patterns(self) -> list[str]:
        """The entries of `path`."""
        return [self.path] if isinstance(self.path, str) else list(self.path)

    def title(self) -> str:
        """The source's name in counts."""
        return ", ".join(self.patterns())

    def taken_for(self) -> str:
        """What files are taken for."""
        return self.name

    def read(self, data_dir: Path) -> Iterator[Document]:
        """All documents up to `limit_characters`. Raises UserError for unreadable input, whatever `on_error` says."""
        return (document for group in self.groups(data_dir) for document in self.read_files(group))

    def read_files(
        self, files: list[Path], skipped: Skipped | None = None, labels: Mapping[Path, str] = MappingProxyType({})
    ) -> Iterator[Document]:
        """The documents of `files` up to `limit_characters`. Unreadable input is counted in `skipped` if that is given
        and `on_error` is skip, otherwise a UserError. Files with a label get it in place of their name."""
        characters = 0
        for path in files:
            label, source = labels.get(path, path.name), self.source_of(path, labels)
            for document in self._read_file(path, skipped):
                yield relabel(document, path.name, label, source)
                characters += len(document.text)
                if self.limit_characters and characters >= self.limit_characters:
                    return

    def _read_file(self, path: Path, skipped: Skipped | None) -> Iterator[Document]:
        """The documents of one file, without what is skipped."""
        if skipped is None or self.on_error == "refuse":
            yield from readable(self.documents(path), "" if skipped is None else SKIP_ADVICE)
            return
        was_read = False
        try:
            for document in self.documents(path):
                if isinstance(document, UnreadableInput):
                    skipped.note("rows_skipped", document)
                else:
                    was_read = True
                    yield document
        except UnreadableInput as problem:
            skipped.note("files_read_in_part" if was_read else "files_skipped", problem)


class Encoded(Reader):
    """A reader of files of text."""

    encoding: str | None = None
    """Encoding of the files; null: detected among UTF-8, CP949 (EUC-KR) and UTF-16."""


class Ordered(Reader):
    """A reader of documents whose paragraphs may have an order."""

    ordered: bool = True
    """Whether the order of paragraphs means anything."""


def gathered(
    path: Path, rows: Iterable[Row | UnreadableInput], key: str, columns: Sequence[str]
) -> Iterator[Document | UnreadableInput]:
    """A document for neighbouring rows with equal values in the column `key`: the text of each of `columns` is a line.
    An unreadable row neither ends the group around it nor is lost: it comes after the group's document."""
    unreadable = list[UnreadableInput]()

    def set_aside() -> Iterator[Row]:
        for row in rows:
            if isinstance(row, UnreadableInput):
                unreadable.append(row)
            elif row.cells[key] in (None, ""):
                problem = (
                    f"the column '{key}' is empty; of merged cells only the first has the value, fill in the others"
                )
                unreadable.append(UnreadableInput("missing_key", problem, row.location))
            else:
                yield row

    for index, (value, group) in enumerate(groupby(set_aside(), key=lambda row: row.cells[key])):
        # a line of such a document is a text of its own, so a cell of several lines must be one line
        lines = [" ".join((row.cells[column] or "").splitlines()) for row in group for column in columns]
        yield Document(f"{path.name}#{index}:{value}", path.name, "\n".join(lines), ordered=False)
        yield from unreadable
        unreadable.clear()
    yield from unreadable


def other_columns(columns: Collection[str | None], rows: Iterable[Row | UnreadableInput]) -> list[str]:
    """The columns of the first row that are none of `columns`."""
    first = next(iter(rows), None)
    return [name for name in first.cells if name and name not in columns] if isinstance(first, Row) else []


def refuse_skipping(readers: Iterable[Reader], where: str) -> None:
    """Raise ValueError, as validators do, where a reader of evaluation texts has `on_error: skip`."""
    for reader in readers:
        if reader.on_error == "skip":
            raise ValueError(
                f"{where} must be read completely, so {reader.title()} cannot have on_error: skip; leave that out"
            )


def read_head(lines: Iterator[str]) -> Iterator[str]:
    """The first lines, until they have `HEAD` characters together."""
    characters = 0
    while characters < HEAD and (line := next(lines, None)) is not None:
        yield line
        characters += len(line)


def refuse_format(path: Path, head: str, allowed: str = "") -> None:
    """Raise UnreadableInput for a text that begins with `head` and is in a format other than the one of the name
    `allowed`, and not prose."""
    if (form := text_format(head)) and form.name != allowed:
        raise UnreadableInput(form.name, f"{path} is {form.description}")


def refuse_unreadable(path: Path) -> None:
    """Raise UserError for a file that is empty or that may not be read, so that `kobert check` reports it and not a
    task hours later."""
    if path.stat().st_size == 0:
        raise UnreadableInput(
            "empty", f"{path} is empty; there is nothing to read in it, so leave it out or fetch it again"
        )
    if not os.access(path, os.R_OK):
        raise UserError(
            f"{path} cannot be read, this user has no permission to; permit it (chmod u+r), or leave it out"
        )
