"""The command `kobert compare`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from kobert_pipeline.cli.arguments import AsJson
from kobert_pipeline.cli.formatting import print_json
from kobert_pipeline.errors import UserError


def compare(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Folders of finished runs.")],
    as_json: AsJson = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX tables (package booktabs).")] = False,
    table: Annotated[
        str | None, typer.Option(metavar="RECIPE", help="A row per run, with the columns of this recipe: klue, kobest.")
    ] = None,
) -> None:
    """Compare finished runs in one table, as Markdown, LaTeX or JSON. Example: kobert compare runs/quickstart"""
    from kobert_pipeline.pipeline.stages import load_recipe
    from kobert_pipeline.runs import compare

    if as_json and as_latex:
        raise UserError("--json and --latex are two forms of the same output; leave one of them out")
    for path in run_dirs:
        if not path.is_dir():
            raise UserError(f"there is no folder {path}; give the folders of finished runs, such as runs/mini")
    # a run is called by the last part of its path, which is empty in "." and names no run in ".."
    run_dirs = [path if path.name not in ("", "..") else path.resolve() for path in run_dirs]
    columns = load_recipe(table).table if table else {}
    if table and not columns:
        raise UserError(f"the recipe {table} has no section table; name one that does, such as klue, or add it")
    rows, differing = compare.comparison_rows(run_dirs), compare.option_differences(run_dirs)
    for note in compare.notes(rows):
        print(f"note: {note}", file=sys.stderr)
    scores = compare.score_table(run_dirs, columns) if columns else compare.fine_tuning_table(rows)
    if as_json:
        print_json({"runs": rows, "differences": differing} | ({"table": compare.records(scores)} if columns else {}))
    else:
        tables = [scores, *compare.options_table(run_dirs, differing)]
        print(compare.latex(tables) if as_latex else compare.markdown(tables))
