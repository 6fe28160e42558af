"""The command `kobert clean`: what of a run is no longer needed, and only what our records name."""

from typing import Annotated

import typer

from kobert_pipeline.cli.arguments import AsJson, RecipeName, RunDir, Settings
from kobert_pipeline.cli.formatting import print_json, print_table
from kobert_pipeline.files import locked, remove_files


def clean(
    recipe: RecipeName,
    yes: Annotated[bool, typer.Option("--yes", help="Delete what is listed; without it nothing is.")] = False,
    setting: Settings = None,
    run_dir: RunDir = None,
    as_json: AsJson = False,
) -> None:
    """List what a run no longer needs: checkpoints and work files of finished stages, and stages that were being
    deleted.

    Example: kobert clean quickstart
    """
    from kobert_pipeline.pipeline.stages import plan
    from kobert_pipeline.runs.stage_folder import finish_deletion, leftovers

    planned = plan(recipe, setting, run_dir, None)[1]
    found = {job.folder: files for job in planned if (files := leftovers(job.folder))}
    if yes and found:
        with locked(planned[0].folder.parent):
            for folder, files in found.items():
                finish_deletion(folder)
                remove_files(folder, files)
    total = sum(sum(files.values()) for files in found.values())
    rows = [
        {
            "folder": str(folder),
            "what": ", ".join(sorted({name.partition("/")[0] for name in files})),
            "files": len(files),
        }
        | {"bytes": sum(files.values())}
        for folder, files in found.items()
    ]
    if as_json:
        print_json({"folders": rows, "bytes": total, "deleted": bool(yes and found)})
        return
    print_table(["folder", "what", "files", "bytes"], [[str(value) for value in row.values()] for row in rows])
    after = "deleted" if yes else "nothing was deleted; add --yes to delete these"
    print(f"{total:,} bytes: {after}" if found else "nothing of this run can go")
