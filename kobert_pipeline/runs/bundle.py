"""`kobert bundle`: finished stages of a run as files of at most a given size, for a machine that cannot make them.

A bundle is a folder of `bundle.json`, parts and a README. The parts, joined, are a tar archive of the run's files, each
compressed by xz, except weights, which xz hardly shrinks. Token ids need no coding of their own before it: numbering
them by frequency saved 1 % of shards, splitting them into planes of bytes nothing.

`bundle.json` lists every part and every file with its size and SHA-256. The folder gets its name when it is complete.
"""

import hashlib
import io
import lzma
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from kobert_pipeline.errors import UserError, refuse_existing
from kobert_pipeline.files import files_below, remove_tree, sha256, write_json_with_digest
from kobert_pipeline.progress import report
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.content_hash import ROUNDED
from kobert_pipeline.runs.runner import STAGES, Job, check_stage_name, refuse_if_stale
from kobert_pipeline.runs.stage_folder import FINISHED, STARTED, matches

FORMAT = 1
INDEX, README, REQUIREMENTS, WORK = "bundle.json", "README.md", "requirements.txt", "work"
WRITES = (INDEX, README, REQUIREMENTS, "part-*", f"{WORK}/**")
"""Patterns of every file of a bundle, and of those in the unfinished folder of a killed command."""
RUN_NAME = re.compile(r"(?!\.)[^/\x00-\x1f\x7f]{1,200}")
"""Names of runs, which become the names of a folder and of a recipe."""
XZ, PLAIN = "xz", "plain"
"""How a file is stored."""
WEIGHTS = "model.safetensors"
TRAINING = ("pretrain", "finetune")
"""The stages that run on a machine without an analyzer."""

RoundWeights = Callable[[Path, Path], None]
"""`round_weights(weights, out)` writes a file of weights again, with every float32 rounded to bfloat16."""


def select(planned: list[Job], first: str | None, last: str | None) -> tuple[list[Job], list[Job]]:
    """The jobs to bundle: all jobs of the stages `first` to `last` or, without `first`, all jobs up to the stage `last`
    that training reads. The second list has the jobs that are left out because they are not finished.

    Raises UserError for a name that is not a stage's, and where nothing is finished.
    """
    for stage in (first, last):
        if stage is not None:
            check_stage_name(stage)
    last = last or ("publish" if first in (*TRAINING, "publish") else "features")
    between = STAGES[STAGES.index(first) if first else 0 : STAGES.index(last) + 1]
    chosen = [job for job in planned if job.stage in between]
    if first is None:
        read = {folder for job in planned if job.stage in TRAINING for folder in job.sources}
        chosen = [job for job in chosen if job.folder in read]
    finished = [job for job in chosen if manifest.is_finished(job.folder)]
    if not finished:
        raise UserError(
            f"there is nothing to bundle: of the stages {first or STAGES[0]} to {last} none is finished; run them "
            "first, or give the folder of the run with --run-dir"
        )
    return finished, [job for job in chosen if job not in finished]


def write_bundle(
    jobs: list[Job],
    run_dir: Path,
    out: Path,
    part_bytes: int,
    about: dict[str, Any],
    documents: dict[str, str],
    round_weights: RoundWeights | None = None,
) -> dict[str, Any]:
    """Write finished jobs of the run to the new folder `out`, in parts of at most `part_bytes` bytes, and return the
    content of its `bundle.json`: `about` and what is in it. `documents` are further texts of the bundle by file name.

    Raises UserError, before anything is written, for a job that is damaged or does not match the recipe.
    """
    refuse_existing(out, "--out")
    for job in jobs:
        refuse_if_stale(job)
        manifest.verify(job.folder)
    # what a killed command left; the folder gets its name when it is complete
    unfinished = out.with_name(f".{out.name}.part")
    remove_tree(unfinished, WRITES)
    unfinished.mkdir(parents=True, exist_ok=True)
    total = sum(file["size"] for job in jobs for file in manifest.read(job.folder)["files"].values())
    files: list[dict[str, Any]] = []
    # a stream ("|"), to which tarfile only appends: a part that is full is closed and has its checksum
    with closing(PartWriter(unfinished, part_bytes)) as parts, tarfile.open(fileobj=parts, mode="w|") as archive:  # type: ignore[call-overload]
        for folder, name, path in _contents(jobs, run_dir, unfinished / WORK, round_weights):
            report("packing", sum(file["size"] for file in files) / 1e6, total / 1e6, "MB")
            files.append({"folder": folder, "name": name, **_size_and_digest(path), "stored": stored(name)})
            _add(archive, files[-1], path)
    remove_tree(unfinished, (f"{WORK}/**",))
    for name, text in documents.items():
        (unfinished / name).write_text(text, encoding="utf-8")
    index = {"format": FORMAT, **about, "parts": parts.parts, "files": files}
    write_json_with_digest(unfinished / INDEX, index)
    unfinished.rename(out)
    return index


def stored(name: str) -> str:
    """How a file with this name is stored."""
    return PLAIN if name.endswith(".safetensors") else XZ


def member_name(file: dict[str, Any]) -> str:
    """The name in the archive of an entry of `bundle.json`."""
    return f"{file['folder']}/{file['name']}{'.xz' if file['stored'] == XZ else ''}"


def _add(archive: tarfile.TarFile, file: dict[str, Any], path: Path) -> None:
    """Add the file of an entry of `bundle.json` to the archive."""
    # with neither the time nor the owner of the file, so that the same files give the same parts
    member = tarfile.TarInfo(member_name(file))
    if file["stored"] == PLAIN:
        member.size = file["size"]
        with path.open("rb") as content:
            archive.addfile(member, content)
    else:
        # in memory, since in a tar archive the size of a file is before its content
        compressed = lzma.compress(path.read_bytes())
        member.size = len(compressed)
        archive.addfile(member, io.BytesIO(compressed))


def _contents(
    jobs: list[Job], run_dir: Path, work: Path, round_weights: RoundWeights | None
) -> Iterator[tuple[str, str, Path]]:
    """(folder in the run, name in the folder, path) of all files of the jobs, in the order in which they are to be
    written again: of each folder the first record first, and the manifest last."""
    for job in jobs:
        folder, content = job.folder.relative_to(run_dir).as_posix(), manifest.read(job.folder)
        logs = [name for name in files_below(job.folder) if name.startswith("logs/") and matches(name, job.writes)]
        paths = {name: job.folder / name for name in [*content["files"], *logs]}
        # a published model stays as it is, since its card and ONNX files say what its weights are
        rounds = round_weights if job.stage != "publish" else None
        if rounded := _round(paths, work / folder, rounds) if rounds else {}:
            # where weights were rounded twice, the first ones are the weights that scores were measured with
            content[ROUNDED] = {name: content["files"][name] for name in rounded} | content.get(ROUNDED, {})
            content["files"] |= {name: _size_and_digest(path) for name, path in rounded.items()}
            write_json_with_digest(work / folder / FINISHED, content)
            rounded[FINISHED] = work / folder / FINISHED
        first = {STARTED: job.folder / STARTED} if (job.folder / STARTED).is_file() else {}
        # `rounded` replaces paths in their places, so the manifest stays last
        for name, path in {**first, **paths, FINISHED: job.folder / FINISHED, **rounded}.items():
            yield folder, name, path


def _round(paths: dict[str, Path], work: Path, round_weights: RoundWeights) -> dict[str, Path]:
    """Write the weights among `paths` to the folder `work` in bfloat16; returns the files that became smaller."""
    rounded = {}
    for name, path in paths.items():
        if path.name == WEIGHTS:
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            round_weights(path, work / name)
            if (work / name).stat().st_size < path.stat().st_size:
                rounded[name] = work / name
    return rounded


def _size_and_digest(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": sha256(path)}


class PartWriter:
    """A file, as far as `tarfile` needs one, whose content goes to the parts of a bundle. `parts` is {name: size and
    SHA-256} of the complete parts; after `close` all parts are complete."""

    def __init__(self, folder: Path, part_bytes: int) -> None:
        self.folder, self.part_bytes = folder, part_bytes
        self.parts: dict[str, dict[str, Any]] = {}
        self.file: IO[bytes] | None = None

    def write(self, data: bytes) -> int:
        """Append bytes, beginning a new part where the last one is full."""
        view = memoryview(data)
        while view:
            if self.file is None:
                self.file, self.size, self.digest = self._next_path().open("wb"), 0, hashlib.sha256()
            piece, view = view[: self.part_bytes - self.size], view[self.part_bytes - self.size :]
            self.file.write(piece)
            self.digest.update(piece)
            self.size += len(piece)
            if self.size == self.part_bytes:
                self.close()
        return len(data)

    def close(self) -> None:
        """Complete the current part."""
        if self.file is not None:
            self.file.close()
            self.parts[self._next_path().name] = {"size": self.size, "sha256": self.digest.hexdigest()}
            self.file = None

    def _next_path(self) -> Path:
        return self.folder / f"part-{len(self.parts) + 1:03}"
