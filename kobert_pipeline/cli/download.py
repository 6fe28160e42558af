"""The command `kobert download`: fetch a known data set to the data folder, or list what can be fetched."""

import os
from pathlib import Path
from typing import Annotated

import typer

from kobert_pipeline.cli.arguments import AsJson
from kobert_pipeline.cli.exit_codes import interrupt_on_sigterm
from kobert_pipeline.cli.formatting import print_json, print_table
from kobert_pipeline.errors import UserError
from kobert_pipeline.progress import shown_on

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="A data set; --list shows all.")]
DATA_DIR = "Data folder; default: KOBERT_DATA, else the folder corpora of a clone."
DataDir = Annotated[Path | None, typer.Option(help=DATA_DIR)]
Date = Annotated[str | None, typer.Option(metavar="YYYYMMDD", help="Date of the dump kowiki; default: latest.")]
List = Annotated[bool, typer.Option("--list", help="List the data sets with their licences.")]


def download(
    name: Name = None, data_dir: DataDir = None, date: Date = None, list_: List = False, as_json: AsJson = False
) -> None:
    """Download a Korean data set and check its files; what is here already is kept.

    Example: kobert download nsmc --data-dir DATA
    """
    from kobert_pipeline.download.sources import find_source, sources
    from kobert_pipeline.tables.data_files import bundled

    if list_:
        _print_list(as_json)
        return
    if name is None:
        raise UserError(f"name a data set ({', '.join(sources())}), or see them all with --list")
    source = find_source(name)
    destination = data_dir or (Path(os.environ["KOBERT_DATA"]) if os.environ.get("KOBERT_DATA") else bundled())
    if destination is None:
        raise UserError("say where the data belongs with --data-dir DIR or the environment variable KOBERT_DATA")
    if destination.exists() and not destination.is_dir():
        raise UserError(f"--data-dir {destination} is not a folder; give another")
    interrupt_on_sigterm()
    from kobert_pipeline.download.download import download as download_files
    from kobert_pipeline.runs.displays import progress_display

    if not as_json:
        print(f"{name}: {source.title}\nlicence: {source.license} ({source.homepage})")
    with progress_display() as display, shown_on(display):
        display.begin(f"download {name}", 1, 1)
        display.start()
        rows = download_files(name, destination, date)
    if as_json:
        print_json({"name": name, "license": source.license, "homepage": source.homepage, "files": rows})
    else:
        print_table(["file", "status", "bytes"], [[row["path"], row["status"], f"{row['size']:,}"] for row in rows])


def _print_list(as_json: bool) -> None:
    """Print the data sets that can be downloaded."""
    from kobert_pipeline.download.sources import sources

    if as_json:
        described = {"title", "license", "homepage"}
        rows = [{"name": key, **source.model_dump(include=described)} for key, source in sources().items()]
        print_json({"data_sets": rows})
    else:
        rows_of_text = [[key, source.license, source.title] for key, source in sources().items()]
        print_table(["name", "licence", "data set"], rows_of_text)
