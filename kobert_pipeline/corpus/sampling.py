"""Read a sample of every source file before a run, for `kobert check`, which so reports all unreadable files in
seconds.

The beginning of each file is read as the stage reads it, up to `ROWS` rows or `CHARACTERS` characters. A compressed
file of up to `WHOLE` bytes is also decompressed to its end, to find out whether it is truncated; a truncated Parquet
file cannot be opened at all, because its metadata are at the end.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kobert_pipeline.corpus.open_text import COMPRESSED, open_binary
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.reader import Reader, refuse_unreadable
from kobert_pipeline.corpus.unfit import Unfit, nothing_readable
from kobert_pipeline.download.sources import MissingFiles
from kobert_pipeline.errors import UserError

ROWS, CHARACTERS = 10_000, 1_000_000
"""Rows, and characters, that are read of a file at most."""
WHOLE = 16 * 2**20
"""Size in bytes up to which a compressed file is decompressed to its end."""
UNPACKED = 2**30
"""Bytes that are decompressed at most, so that a decompression bomb does not stall the check."""
BLOCK = 2**20


@dataclass(frozen=True)
class Finding:
    """A problem of a file as a sentence, and whether a run would skip the file or rows. `skips_all`: nothing of
    the sample can be read."""

    sentence: str
    skipped: bool = False
    skips_all: bool = False


def findings(options: CorpusOptions, data_dir: Path) -> list[Finding]:
    """The problems in a sample of all files: at most one for each file, and one for each pattern without files."""
    problems = list[Finding]()
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
        found = [finding for path in files if (finding := check_file(reader, path, may_skip))]
        if found and len(found) == len(files) and all(finding.skips_all for finding in found):
            problems.append(Finding(nothing_readable(reader.title(), found[0].sentence)))
        problems += found
    return list(dict.fromkeys(problems))  # a file may be in two sources


def check_file(reader: Reader, path: Path, may_skip: bool) -> Finding | None:
    """The problem in a sample of one file, or None. Where the reader `may_skip`, the sentence says how to skip it."""
    try:
        problems, documents = _sample(reader, path)
    except UserError as problem:
        return Finding(str(problem))
    if not problems:
        return None
    first, others = problems[0], len(problems) - 1
    if may_skip and reader.on_error == "refuse":
        first = first.refused()
    more = f" (and {others:,} more unfit rows in the sample)" if others else ""
    skipped = reader.on_error == "skip"
    return Finding(f"{first}{more}", skipped, skips_all=skipped and not documents)


def _sample(reader: Reader, path: Path) -> tuple[list[Unfit], int]:
    """The unreadable rows of a sample, or the one problem of a file that is unreadable itself, and the number of
    documents that could be read. Raises UserError for problems that do not depend on the file, such as a missing
    library."""
    problems, documents, characters = list[Unfit](), 0, 0
    if not path.exists():
        return problems, documents  # a data set of the Hub: nothing is downloaded before the run
    try:
        if path.is_file():
            refuse_unreadable(path)
        for document in islice(reader.documents(path), ROWS):
            if isinstance(document, Unfit):
                problems.append(document)
                continue
            documents += 1
            if (characters := characters + len(document.text)) >= CHARACTERS:
                break
        if path.suffix.lower() in COMPRESSED and path.stat().st_size <= WHOLE:
            _unpack(path)
    except Unfit as problem:
        problems = [problem]
    return problems, documents


def _unpack(path: Path) -> None:
    """Decompress a file and discard the result. Raises Unfit where it is damaged or truncated."""
    with open_binary(path) as file:
        for _ in range(UNPACKED // BLOCK):
            if not file.read(BLOCK):
                return
