"""The table of data sets that `kobert download` fetches, and the command that fetches a file of a recipe."""

import re
import shlex
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import yaml
from pydantic import model_validator

from kobert_pipeline.config.options import Options
from kobert_pipeline.errors import UserError, UserErrors, did_you_mean

LATEST = "latest"
DATE = re.compile(r"\d{8}|" + LATEST)
"""What `{date}` stands for in addresses and names."""


class SourceFile(Options):
    """A file to download."""

    size: int | None = None
    """Size of the file in bytes."""
    sha256: str | None = None
    """SHA-256 of the file."""
    git_sha1: str | None = None
    """SHA-1 of the file as a git blob."""
    korean_questions: str | None = None
    """Name of the file with the Korean questions of this one, which is in SQuAD form."""
    members: dict[str, str] = {}
    """Members of this archive, and the names of their files."""

    @property
    def derived(self) -> list[str]:
        """The names of the files that are made from this one."""
        return [*self.members.values(), *([self.korean_questions] if self.korean_questions else [])]


class Source(Options):
    """A data set."""

    title: str
    """What the data set is, in one line."""
    license: str
    """Licence, as its owner states it."""
    homepage: str
    """Where the owner states the licence."""
    dataset_id: str | None = None
    """Name of the data set on the Hugging Face Hub, for the metadata of model cards."""
    attribution: str | None = None
    """Whom a model card names as the authors, and where the texts are."""
    folder: str
    """Folder of its files below the data folder."""
    addresses: list[str] = []
    """Beginnings of the files' addresses, tried in this order."""
    hub: str | None = None
    """OWNER/NAME@COMMIT, for a data set on the Hugging Face Hub."""
    files: dict[str, SourceFile]
    """The files by their names on the server."""
    excerpts: dict[str, str] = {}
    """Files below the data folder that are parts of this data set, such as the files in the clone's `corpora/`: what
    each holds, for model cards."""

    @model_validator(mode="after")
    def _somewhere(self) -> "Source":
        if bool(self.addresses) == bool(self.hub):
            raise ValueError("either addresses or hub says where the files are")
        return self

    @property
    def dated(self) -> bool:
        """Whether there is a version for each of several dates."""
        return any("{date}" in name for name in self.files)

    @property
    def name(self) -> str:
        """The name of the data set in tables: the title up to its first comma."""
        return self.title.partition(",")[0]

    def paths(self) -> list[str]:
        """The paths of all files below the data folder."""
        names = [name for file, entry in self.files.items() for name in (file, *entry.derived)]
        return [f"{self.folder}/{name}" for name in names]


@cache
def sources() -> dict[str, Source]:
    """The data sets by name."""
    content = yaml.safe_load(Path(__file__).with_name("sources.yaml").read_text(encoding="utf-8"))
    return {name: Source.model_validate(source) for name, source in content.items()}


def find_source(name: str) -> Source:
    """A data set by its name. Raises UserError for an unknown one."""
    if name not in sources():
        raise UserError(
            f"there is no data set {name!r} to download{did_you_mean(name, sources())}; see kobert download --list"
        )
    return sources()[name]


def find_dataset(path: str) -> tuple[Source, str] | None:
    """The data set that a file named in a recipe is known to be from, and which part of it the file holds, "" for one
    that is downloaded as it is; None for files of the user's own."""
    location = f"/{Path(path).as_posix().removesuffix('.zst')}"
    for source in sources().values():
        for name, part in source.excerpts.items():
            if location.endswith(f"/{name}"):
                return source, part
        for name in source.paths():
            if re.search("/" + re.escape(name).replace(r"\{date\}", f"({DATE.pattern})") + "$", location):
                return source, ""
    return None


def download_command(path: str, data_dir: Path) -> str | None:
    """The command that downloads `path`, a file or a pattern of files below `data_dir`; None for unknown files."""
    for name, source in sources().items():
        for known in source.paths():
            before, dated, after = known.partition("{date}")
            exact = re.fullmatch(re.escape(before) + f"({DATE.pattern})" + re.escape(after), path) if dated else None
            # a pattern for any file, such as **/*.txt, does not ask for this one
            named = path.startswith(f"{source.folder}/") and fnmatchcase(known.replace("{date}", LATEST), path)
            if exact or named:
                date = f" --date {exact[1]}" if exact and exact[1] != LATEST else ""
                return f"kobert download {name}{date} --data-dir {shlex.quote(str(data_dir))}"
    return None


class MissingFiles(UserErrors):
    """Data files of a recipe do not exist; each sentence says what to do."""

    def __init__(self, paths: Iterable[Path], data_dir: Path) -> None:
        self.paths = list(paths)
        self.data_dir = data_dir
        more = f" ({len(self.paths)} files are missing: kobert check lists them)" if len(self.paths) > 1 else ""
        super().__init__([missing_file(path, data_dir) for path in self.paths], more)

    def __reduce__(self) -> tuple[type, tuple[list[Path], Path]]:
        # the inherited method would call this class with sentences, on the way back from a worker
        return type(self), (self.paths, self.data_dir)


def missing_file(path: Path, data_dir: Path) -> str:
    """The sentence about a data file that does not exist, with the command that downloads it, if there is one."""
    command = download_command(path.relative_to(data_dir).as_posix(), data_dir) if path.is_relative_to(data_dir) else ""
    if command:
        return f"{path} does not exist; fetch it with `{command}`, or check the path in the recipe"
    what = f"no file is named {path}" if "*" in path.name else f"{path} does not exist"
    return f"{what}; check the path in the recipe and data_dir (now {data_dir})"


def all_files(finders: Iterable[Callable[[Path], list[Path]]], data_dir: Path) -> list[Path]:
    """The files of all `finders`. Raises one MissingFiles for all that they miss."""
    files, missing = list[Path](), list[Path]()
    for find in finders:
        try:
            files += find(data_dir)
        except MissingFiles as problem:
            missing += problem.paths
    if missing:
        raise MissingFiles(dict.fromkeys(missing), data_dir)
    return files
