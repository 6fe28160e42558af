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
) -> None:
    """Compare finished runs in one table, as Markdown, LaTeX or JSON. Example: kobert compare runs/quickstart"""
    from kobert_pipeline.runs.compare import comparison_rows, latex, markdown, notes, option_differences

    if as_json and as_latex:
        raise UserError("--json and --latex are two forms of the same output; leave one of them out")
    rows, differing = comparison_rows(run_dirs), option_differences(run_dirs)
    for note in notes(rows):
        print(f"note: {note}", file=sys.stderr)
    if as_json:
        print_json({"runs": rows, "differences": differing})
    else:
        print(latex(rows, differing) if as_latex else markdown(rows, differing))
