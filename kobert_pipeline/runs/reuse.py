"""Take over a finished stage from another run that computed it from the same options and inputs."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json_with_digest
from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.content_hash import ROUNDED
from kobert_pipeline.runs.manifest import Elapsed, Record
from kobert_pipeline.runs.stage_folder import FINISHED, delete, matches


def reuse(folder: Path, record: Record, writes: Iterable[str]) -> dict[str, Any] | None:
    """Take over a stage with the same fingerprint from another run in the same parent folder.

    Returns its manifest, or None if there is no such stage.
    """
    stage = next(parent for parent in (folder, *folder.parents) if parent.name == record.stage)
    runs, depth = stage.parent.parent, len(folder.relative_to(stage).parts)
    for path in sorted(runs.glob("/".join(["*", record.stage, *"*" * depth, FINISHED]))):
        try:
            if path.parent != folder and read_json_with_digest(path).get("fingerprint") == record.fingerprint:
                return link_from(path.parent, folder, record, writes, str(path.parent.relative_to(runs)))
        except (UserError, OSError):
            continue  # the other run is damaged, or was changed meanwhile: then this stage is simply computed
    return None


def link_from(source: Path, folder: Path, record: Record, writes: Iterable[str], name: str) -> dict[str, Any]:
    """Take over the files of the stage in `source` by hard links (or copies), and finish `folder`. Returns its
    manifest.

    Raises UserError or OSError, and leaves no folder, if the files differ from what the manifest of `source` lists.
    """
    original = manifest.verify(source)
    patterns = tuple(writes)
    # a file that this version does not write could not be deleted again, for lack of a pattern that names it
    if unknown := [file for file in original["files"] if not matches(file, patterns)]:
        raise UserError(f"{source / unknown[0]} is not a file that this version of the stage writes; run it again")
    # what an interrupted command left must not be mixed with the files of the other run
    delete(folder)
    try:
        manifest.start(folder, record, patterns)
        for file in original["files"]:
            _link(source / file, folder / file)
        # checked again after linking, since the other run may have been redone meanwhile
        if original["fingerprint"] != record.fingerprint or manifest.list_files(folder, patterns) != original["files"]:
            raise UserError(f"{source} was changed while it was being reused; run the same command again")
        manifest.finish(
            folder,
            record,
            patterns,
            original["files"],
            original["counts"],
            {name: original[name] for name in Elapsed._fields if name in original},
            reused_from=name,
            # of the run that computed it, not of the one that takes it over
            device=original.get("device"),
            **{name: original[name] for name in ("versions", ROUNDED) if name in original},
        )
    except (UserError, OSError):
        delete(folder)
        raise
    return manifest.read(folder)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)  # takes no space, and no file of a finished stage is ever changed in place
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)
