"""Look into every source file before a run, for `kobert check`: what cannot be read is found in seconds, and all of it
at once.

Of every file the beginning is read as the stage reads it: up to `ROWS` rows or `CHARACTERS` characters. A compressed
file of up to `WHOLE` bytes is unpacked to its end too, so that one that was cut off is found; a Parquet file has its
table of contents at its end.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kobert_pipeline.corpus.open_text import COMPRESSED, open_binary
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.corpus.reader import Reader, refuse_unreadable
from kobert_pipeline.corpus.unfit import Unfit
from kobert_pipeline.errors import UserError

ROWS, CHARACTERS = 10_000, 1_000_000
"""Documents or unfit rows, and characters, that are read of a file."""
WHOLE = 16 * 2**20
"""Bytes of a compressed file that is unpacked to its end."""
UNPACKED = 2**30
"""Bytes up to which it is, however well it was compressed."""
BLOCK = 2**20


@dataclass(frozen=True)
class Finding:
    """What is wrong with a file, in a sentence, and whether a run would skip it."""

    sentence: str
    skipped: bool = False


def findings(options: CorpusOptions, data_dir: Path) -> list[Finding]:
    """Everything in a sample of all files of `options` that cannot be read: one entry for each file, or pattern without
    files."""
    found = []
    skippable = [(reader, True) for reader in options.sources]
    for reader, may_skip in (*skippable, *((reader, False) for reader in options.decontaminate)):
        try:
            files = reader.files_to_check(data_dir)
        except UserError as problem:
            found.append(Finding(str(problem)))
            continue
        found += [finding for path in files if (finding := check_file(reader, path, may_skip))]
    return list(dict.fromkeys(found))


def check_file(reader: Reader, path: Path, may_skip: bool) -> Finding | None:
    """What is wrong with a sample of one file, or None. Of a file that a source `may_skip`, the sentence says how."""
    try:
        problems = _sample(reader, path)
    except Unfit as problem:
        problems = [problem]
    except UserError as problem:
        return Finding(str(problem))
    if not problems:
        return None
    first, others = problems[0], len(problems) - 1
    if may_skip and reader.on_error == "refuse":
        first = first.refused()
    return Finding(
        f"{first}{f' ({others:,} more of the rows read of it are unfit)' if others else ''}", reader.on_error == "skip"
    )


def _sample(reader: Reader, path: Path) -> list[Unfit]:
    """The unfit rows of a sample. Raises Unfit where the file is unfit, and UserError where that is no matter of the
    file."""
    if not path.exists():
        return []  # a data set of the Hub; it is asked for nothing before the run
    if path.is_file():
        refuse_unreadable(path)
    problems, characters = [], 0
    for document in islice(reader.documents(path), ROWS):
        if isinstance(document, Unfit):
            problems.append(document)
        elif (characters := characters + len(document.text)) >= CHARACTERS:
            break
    if path.suffix.lower() in COMPRESSED and path.stat().st_size <= WHOLE:
        _unpack(path)
    return problems


def _unpack(path: Path) -> None:
    """Raises Unfit where a compressed file is damaged or cut off."""
    with open_binary(path) as file:
        for _ in range(UNPACKED // BLOCK):
            if not file.read(BLOCK):
                return
