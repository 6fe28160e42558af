"""Read a sample of every source file before a run, for `kobert check`, which so reports all unreadable files in
seconds, and shows a line of what is read.

The beginning of each file is read as the stage reads it, up to `ROWS` rows or `CHARACTERS` characters. A compressed
file of up to `WHOLE` bytes is also decompressed to its end, to find out whether it is truncated; a truncated Parquet
file cannot be opened at all, because its metadata are at the end.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.reader import SKIP_ADVICE, Reader, nothing_readable, refuse_unreadable, without_texts
from kobert_pipeline.corpus.tags import has_markup
from kobert_pipeline.download.sources import MissingFiles
from kobert_pipeline.errors import UserError, list_first
from kobert_pipeline.tables.data_files import files_beside, matching_files
from kobert_pipeline.tables.file_type import COMPRESSED
from kobert_pipeline.tables.open_text import open_binary
from kobert_pipeline.tables.unreadable import UnreadableInput, one_error

ROWS, CHARACTERS = 10_000, 1_000_000
"""Rows, and characters, that are read of a file at most."""
WHOLE = 16 * 2**20
"""Size in bytes up to which a compressed file is decompressed to its end."""
UNPACKED = 2**30
"""Bytes that are decompressed at most, so that a decompression bomb does not stall the check."""
BLOCK = 2**20
NAMED = 5
"""Files or columns that one sentence names."""
LINE = 80
"""Characters of a line that are shown."""


@dataclass(frozen=True)
class Finding:
    """A problem of a file as a sentence, and whether a run would skip the file or rows. `skips_all`: nothing of
    the sample can be read."""

    sentence: str
    skipped: bool = False
    skips_all: bool = False


@dataclass(frozen=True)
class Excerpt:
    """A line of the first document that is read of a source, "" where none has one, the number of documents in the
    sample, and how many of them have markup."""

    line: str
    documents: int
    with_markup: int

    def sentence(self, reader: Reader, path: Path) -> str:
        """What the source was taken for, by what was read of the file `path`."""
        line = self.line if len(self.line) <= LINE else f"{self.line[: LINE - 1]}…"
        markup = (
            f"; {self.with_markup:,} of {self.documents:,} documents have markup of a wiki, which stays in the texts"
        )
        columns = reader.columns_left_out(path)
        not_read = f"; not read: {list_first(columns, NAMED)}"
        return "".join(
            [
                f"{reader.title()} is read as {reader.taken_for()}, for example: {line}",
                markup if self.with_markup else "",
                not_read if columns else "",
            ]
        )


def check_sources(options: CorpusOptions, data_dir: Path) -> tuple[list[Finding], list[str]]:
    """The problems in a sample of all files, at most one for each file and one for each pattern without files, and for
    each source that can be read what it was taken for."""
    problems, taken_for = list[Finding](), list[str]()
    sources = [(reader, True) for reader in options.sources]
    evaluation_sets = [(reader, False) for reader in options.decontaminate]  # these must be read completely
    for reader, may_skip in (*sources, *evaluation_sets):
        try:
            files = reader.files_to_check(data_dir)
        except MissingFiles as problem:
            problems += map(Finding, problem.sentences)
            continue
        except UserError as problem:
            problems.append(Finding(str(problem)))
            continue
        samples = [read_sample(reader, path, may_skip) for path in files]
        excerpts = ((path, excerpt) for path, (_, excerpt) in zip(files, samples, strict=True) if excerpt)
        taken_for += islice((excerpt.sentence(reader, path) for path, excerpt in excerpts if excerpt.line), 1)
        if samples and all(excerpt and not excerpt.documents for _, excerpt in samples):
            problems.append(Finding(without_texts(reader, "sources" if may_skip else "decontaminate")))
        file_findings = [finding for finding, _ in samples if finding]
        if file_findings and len(file_findings) == len(files) and all(finding.skips_all for finding in file_findings):
            problems.append(Finding(nothing_readable(reader.title(), file_findings[0].sentence)))
        problems += file_findings
    return list(dict.fromkeys(problems)), [*taken_for, *left_out(options, data_dir)]  # a file may be in two sources


def left_out(options: CorpusOptions, data_dir: Path) -> list[str]:
    """A sentence for the patterns of sources, such as `documents/**/*.txt`, with files beside their own that no source
    reads: another suffix, or the same in capital letters. Patterns with the same files beside have one together."""
    patterns = [pattern for reader in options.sources for pattern in reader.patterns()]
    try:
        files_of = {pattern: matching_files(data_dir, pattern) for pattern in patterns}
    except UserError:
        return []  # a pattern that is none, which is a finding
    read, sentences = set(chain.from_iterable(files_of.values())), []
    patterns_beside = defaultdict[tuple[Path, ...], list[str]](list)
    for pattern in files_of:
        patterns_beside[tuple(files_beside(data_dir, pattern))].append(pattern)
    for beside, together in patterns_beside.items():
        if others := [path.name for path in beside if path not in read]:
            matched = len(set(beside).intersection(chain.from_iterable(map(files_of.__getitem__, together))))
            sentences.append(
                f"{', '.join(together)} {'matches' if len(together) == 1 else 'match'} {matched:,} of {len(beside):,} "
                f"files there, and no source reads {list_first(others, NAMED)}"
            )
    return sentences


def read_sample(reader: Reader, path: Path, may_skip: bool) -> tuple[Finding | None, Excerpt | None]:
    """The problems in a sample of one file, or None, and an excerpt, None where something was unreadable and no
    document was read. Where the reader `may_skip`, the sentence says how."""
    problems, documents, with_markup, characters, line = list[UnreadableInput](), 0, 0, 0, ""
    if not path.exists():
        return None, None  # a data set of the Hub: nothing is downloaded before the run
    try:
        if path.is_file():
            refuse_unreadable(path)
        for document in islice(reader.documents(path), ROWS):
            if isinstance(document, UnreadableInput):
                problems.append(document)
                continue
            documents += 1
            with_markup += has_markup(document.text)
            line = line or " ".join(document.text.lstrip().partition("\n")[0].split())
            if (characters := characters + len(document.text)) >= CHARACTERS:
                break
        if path.suffix.lower() in COMPRESSED and path.stat().st_size <= WHOLE:
            _unpack(path)
    except UnreadableInput as problem:  # of the file, whatever its rows are
        problems = [problem]
    except UserError as problem:  # not of the file, such as a missing library
        return Finding(str(problem)), None
    excerpt = Excerpt(line, documents, with_markup) if documents or not problems else None
    if not problems:
        return None, excerpt
    skipped = reader.on_error == "skip"
    error = one_error(problems, SKIP_ADVICE if may_skip and not skipped else "")
    return Finding(str(error), skipped, skips_all=skipped and not documents), excerpt


def _unpack(path: Path) -> None:
    """Decompress a file and discard the result. Raises UnreadableInput where it is damaged or truncated."""
    with open_binary(path) as file:
        for _ in range(UNPACKED // BLOCK):
            if not file.read(BLOCK):
                return
