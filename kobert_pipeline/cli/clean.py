"""The command `kobert clean`: delete the files that a run no longer needs, and only those that its records list."""

from pathlib import Path
from typing import Annotated

import typer

from kobert_pipeline.cli.arguments import AsJson, RecipeName, RunDir, Settings
from kobert_pipeline.cli.formatting import print_json, print_table
from kobert_pipeline.files import locked, remove_files

Yes = Annotated[bool, typer.Option("--yes", help="Delete the listed files; the default is only to list them.")]


def clean(
    recipe: RecipeName,
    yes: Yes = False,
    setting: Settings = None,
    run_dir: RunDir = None,
    as_json: AsJson = False,
) -> None:
    """List what a run no longer needs: checkpoints and work files of finished stages, and the remains of interrupted
    deletions.

    Example: kobert clean quickstart
    """
    from kobert_pipeline.pipeline.stages import plan
    from kobert_pipeline.runs.stage_folder import leftovers

    planned = plan(recipe, setting, run_dir, None)[1]
    files_by_folder = {job.folder: files for job in planned if (files := leftovers(job.folder))}
    if yes and files_by_folder:
        files_by_folder = delete_leftovers(planned[0].folder.parent, list(files_by_folder))
    total = sum(sum(files.values()) for files in files_by_folder.values())
    rows = [
        {
            "folder": str(folder),
            "what": ", ".join(sorted({name.partition("/")[0] for name in files})),
            "files": len(files),
            "bytes": sum(files.values()),
        }
        for folder, files in files_by_folder.items()
    ]
    if as_json:
        print_json({"folders": rows, "bytes": total, "deleted": bool(yes and files_by_folder)})
        return
    if not rows:
        print("nothing to delete: no finished stage has kept checkpoints or work files; models and data stay")
        return
    print_table(["folder", "what", "files", "bytes"], [[str(value) for value in row.values()] for row in rows])
    print(f"{total:,} bytes: {'deleted' if yes else 'nothing was deleted; add --yes to delete these'}")


def delete_leftovers(run: Path, folders: list[Path]) -> dict[Path, dict[str, int]]:
    """Delete the leftovers of stage folders of a run, while no other process works in it; returns the sizes of the
    files."""
    from kobert_pipeline.runs.stage_folder import finish_deletion, leftovers

    with locked(run):
        # listed under the lock, since a stage that runs again has checkpoints that it needs
        files_by_folder = {folder: files for folder in folders if (files := leftovers(folder))}
        for folder, files in files_by_folder.items():
            finish_deletion(folder)
            remove_files(folder, files)
    return files_by_folder
