"""Where a recipe's data files are: in the data folder, or in the folder `corpora/` of a clone of this project.

A file may be compressed (`ratings_train.txt.zst` where a recipe names `ratings_train.txt`); it is read as it is, and
nothing is unpacked.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from unicodedata import normalize

from kobert_pipeline.download.sources import MissingFiles
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import folder_of_clone
from kobert_pipeline.tables.file_type import COMPRESSED


def name_matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern (as in a shell: `*` is any text), in whichever form of Unicode either is: names
    from a Mac are decomposed (NFD), and look the same."""
    return fnmatchcase(normalize("NFC", name), normalize("NFC", pattern))


def bundled() -> Path | None:
    """The folder of the data that comes with a clone; None in an installed package."""
    return folder_of_clone("corpora")


def data_folders(data_dir: Path) -> list[Path]:
    """The folders in which data is searched for, in this order."""
    box = bundled()
    return [data_dir] if box is None or data_dir.resolve() == box else [data_dir, box]


def find_file(data_dir: Path, name: str) -> Path | None:
    """The file `name` in the first folder that has it, plain or compressed; None where there is none."""
    for folder in data_folders(data_dir):
        path = folder / name  # an absolute name replaces the folder
        for candidate in (path, *(path.with_name(path.name + suffix) for suffix in COMPRESSED if path.name)):
            if file := same_name(candidate):
                return file
    return None


def same_name(path: Path) -> Path | None:
    """The file `path`, also where a part of its name is written in another form of Unicode; None where there is
    none."""
    if path.is_file():
        return path
    # ASCII has one form alone, and looking into every folder of the path takes longer
    if str(path).isascii():
        return None
    parts = [escape(part) for part in path.relative_to(path.anchor).parts]
    return next((file for file in _matching(Path(path.anchor), parts) if file.is_file()), None)


def _matching(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """The paths below a folder whose parts match the patterns one by one; names and patterns may be in different forms
    of Unicode (NFC, NFD)."""
    if not patterns:
        yield folder
        return
    first, *rest = patterns
    if first.isascii():
        matches: Iterable[Path] = folder.glob(first)
    else:  # not by glob, for which ? and [] are single jamo of a decomposed name
        entries = folder.iterdir() if folder.is_dir() else ()
        matches = [path for path in entries if name_matches(path.name, first)]
    for path in matches:
        yield from _matching(path, rest)


def data_files(data_dir: Path, names: Iterable[str]) -> list[Path]:
    """The files of these names. Raises MissingFiles for all that do not exist."""
    paths = [(name, find_file(data_dir, name)) for name in names]
    if missing := [data_dir / name for name, path in paths if path is None]:
        raise MissingFiles(missing, data_dir)
    return [path for _, path in paths if path]


def data_file(data_dir: Path, name: str) -> Path:
    """The file `name`. Raises MissingFiles where there is none."""
    return data_files(data_dir, [name])[0]


def matching_files(data_dir: Path, pattern: str) -> list[Path]:
    """The files that a name or a pattern such as `kowiki-*.jsonl.zst` matches, sorted, in the first folder that has
    one; [] where there is none."""
    if file := find_file(data_dir, pattern):
        return [file]
    return next((files for folder in data_folders(data_dir) if (files := _glob(pattern, folder))), [])


def files_beside(data_dir: Path, pattern: str) -> list[Path]:
    """The files in the folders of a pattern for all files of a kind, such as `documents/**/*.txt`, with those that it
    matches and without hidden ones; [] for other patterns."""
    folder, slash, name = pattern.rpartition("/")
    if not name.startswith("*."):
        return []
    return [path for path in matching_files(data_dir, f"{folder}{slash}*") if not path.name.startswith(".")]


def distinct_labels(files: Iterable[Path], data_dir: Path) -> dict[Path, str]:
    """How to tell files apart in messages: the path below the data folder (outside it the whole path) for files whose
    name another file has too."""
    by_name: dict[str, set[Path]] = {}
    for path in files:
        by_name.setdefault(path.name, set()).add(path)
    return {path: _below(path, data_dir) for paths in by_name.values() if len(paths) > 1 for path in paths}


def _below(path: Path, data_dir: Path) -> str:
    folder = next((folder for folder in data_folders(data_dir) if path.is_relative_to(folder)), None)
    return (path.relative_to(folder) if folder else path).as_posix()


def _glob(pattern: str, folder: Path) -> list[Path]:
    """The files below `folder` that match `pattern`. Characters such as [ in the folder's own name are not
    wildcards."""
    if not any(mark in pattern for mark in "*?["):
        return []
    anchor = Path(pattern).anchor
    below = Path(anchor) if anchor else folder
    # repeated **/ mean the same as one, but each would search all folders again; ** alone would find folders
    pattern_below = re.sub(r"(\*\*/)+", "**/", re.sub(r"(?<![^/])\*\*$", "**/*", pattern.removeprefix(anchor)))
    try:
        if pattern_below.isascii():
            return sorted(path for path in below.glob(pattern_below) if path.is_file())
        # a set, since two ** find some files in more than one way
        return sorted({path for path in _matching(below, Path(pattern_below).parts) if path.is_file()})
    except (ValueError, RecursionError, NotImplementedError) as error:
        raise UserError(
            f"{pattern:.200} is not a pattern for files ({error}); write for example kowiki-*.jsonl.zst"
        ) from None
