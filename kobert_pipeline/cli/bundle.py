"""The commands `kobert bundle` and `kobert unbundle`: a run's stages to another machine and back, in parts."""

import re
import shlex
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kobert_pipeline.cli.arguments import AsJson, RecipeName, RunDir, Settings
from kobert_pipeline.cli.exit_codes import interrupt_on_sigterm
from kobert_pipeline.cli.formatting import print_json
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import locked
from kobert_pipeline.progress import shown_on

if TYPE_CHECKING:
    from kobert_pipeline.runs.runner import Job

UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
SMALLEST_PART = 1000
"""Bytes; of smaller parts the list would be longer than they are."""
NOT_FOR_TRAINING = (
    "bm25s", "datasets", "datatrove", "ftfy", "kiwipiepy", "matplotlib", "mwparserfromhell", "onnx", "onnxruntime",
    "onnxscript", "pebble", "pyarrow", "requests", "sentencepiece", "xxhash",
)  # fmt: skip
"""Requirements of this package that `kobert pretrain` and `kobert finetune` do without."""

Out = Annotated[Path, typer.Option(metavar="DIR", help="The new folder of the bundle.")]
First = Annotated[
    str | None,
    typer.Option("--from", metavar="STAGE", help="The first stage; default: only what pretrain and finetune read."),
]
Last = Annotated[
    str | None, typer.Option("--until", metavar="STAGE", help="The last stage; default: features, or of a model all.")
]
Part = Annotated[str, typer.Option(metavar="SIZE", help="Largest size of a file of the bundle: 60MB, 1.5GiB.")]
ROUND = "Round weights to bfloat16, half the size; the manifest then lists them and says so."
Bf16 = Annotated[bool, typer.Option("--bf16", help=ROUND)]
Bundle = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a bundle, or of some of its parts.")]


def bundle(
    recipe: RecipeName,
    out: Out,
    first: First = None,
    until: Last = None,
    part: Part = "60MB",
    bf16: Bf16 = False,
    setting: Settings = None,
    run_dir: RunDir = None,
    as_json: AsJson = False,
) -> None:
    """Pack finished stages of a run into files of a given size, for a machine that only trains, or for the way back.

    Example: kobert bundle base --out to-gpu --part 60MB, and on the other machine kobert bundle base --from pretrain
    --bf16 --out trained
    """
    interrupt_on_sigterm()
    part_bytes = part_size(part)
    from kobert_pipeline.pipeline.stages import plan
    from kobert_pipeline.publish.export import write_in_bfloat16
    from kobert_pipeline.runs.bundle import README, REQUIREMENTS, select, write_bundle
    from kobert_pipeline.runs.displays import progress_display

    planned = plan(recipe, setting, run_dir, None)[1]
    jobs, left_out = select(planned, first, until)
    about, source_files = about_run(recipe, setting or []), training_files(planned) if first is None else []
    stages = {job.stage for job in planned}
    documents = {REQUIREMENTS: requirements(), README: readme(about, jobs, stages, source_files)}
    run = planned[0].folder.parent
    with locked(run), progress_display() as display, shown_on(display):
        display.begin("bundle", 1, 1)
        index = write_bundle(jobs, run, out, part_bytes, about, documents, write_in_bfloat16 if bf16 else None)
    result = {
        "folder": str(out),
        "jobs": [job.title for job in jobs],
        "left_out": [job.title for job in left_out],
        "files_to_copy": [str(path) for path in source_files],
        "parts": {name: listed["size"] for name, listed in index["parts"].items()},
    }
    print_json(result) if as_json else print_bundle(result)


def training_files(planned: list["Job"]) -> list[Path]:
    """The user's files that training reads: the files of a checkpoint that it starts from."""
    from kobert_pipeline.runs.bundle import TRAINING

    return [path for job in planned if job.stage in TRAINING for path in job.source_files()]


def print_bundle(result: dict[str, Any]) -> None:
    """Print what a bundle holds, and what it does not."""
    sizes = result["parts"].values()
    print(f"{result['folder']}: {len(sizes)} parts, {sum(sizes):,} bytes, with {', '.join(result['jobs'])}")
    if result["left_out"]:
        print(f"not finished, so not in it: {', '.join(result['left_out'])}")
    for path in result["files_to_copy"]:
        print(f"also to be copied, to where pretrain.base names it on the other machine: {path}")


def unbundle(folder: Bundle, run_dir: RunDir = None, as_json: AsJson = False) -> None:
    """Unpack a bundle into a run folder; its parts may arrive one after another. Example: kobert unbundle to-gpu"""
    interrupt_on_sigterm()
    from kobert_pipeline.runs import unbundle as unpacking
    from kobert_pipeline.runs.displays import progress_display

    index = unpacking.read_index(folder)
    run = run_dir or Path("runs") / index["name"]
    with locked(run), progress_display() as display, shown_on(display):
        display.begin("unbundle", 1, 1)
        missing = unpacking.unbundle(folder, index, run)
    recipe = run / f"{index['name']}.yaml"
    if as_json:
        print_json({"run_dir": str(run), "recipe": str(recipe), "parts": len(index["parts"]), "missing": missing})
    elif missing:
        print(f"{len(missing)} of {len(index['parts'])} parts are missing: {', '.join(missing)}")
        print(f"The others are kept; copy these into {folder}, and type the same command again.")
    else:
        folders = dict.fromkeys(file["folder"] for file in index["files"])
        print(f"{run}: complete and verified, with {', '.join(folders)}; the recipe is {recipe}")


def about_run(recipe: str, settings: list[str]) -> dict[str, str]:
    """The name of a recipe's runs, the recipe with all settings, and the version of this package."""
    from kobert_pipeline.config import recipe_file
    from kobert_pipeline.runs.bundle import RUN_NAME

    # a folder that surely exists, since the machine that trains does not have the texts
    content = recipe_file.load(recipe, settings) | {"data_dir": "."}
    version, name = metadata.version("kobert-pipeline"), recipe_file.find(recipe).stem
    if not RUN_NAME.fullmatch(name):
        raise UserError(f"{name!r:.80} is no name for a run: it begins with a dot or has control characters; rename it")
    return {"name": name, "recipe": recipe_file.to_yaml(content), "version": version}


def part_size(text: str) -> int:
    """The bytes of a size such as 60MB. Raises UserError for any other text."""
    # with more digits the number may be infinite, of which int() raises OverflowError
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([A-Za-z]*)", text)
    if not match or match[2].upper() not in UNITS or float(match[1]) * UNITS[match[2].upper()] < SMALLEST_PART:
        raise UserError(f"--part {text!r:.40} is not a size of at least {SMALLEST_PART} bytes; give one such as 60MB")
    return int(float(match[1]) * UNITS[match[2].upper()])


def requirements() -> str:
    """The packages that training needs besides this one, in the format of pip, each with the version here."""
    lines = []
    for requirement in metadata.requires("kobert-pipeline") or ():
        name = re.split(r"[^\w.-]", requirement)[0]
        # the marker of an optional dependency, which training can do without
        if "extra ==" not in requirement and name not in NOT_FOR_TRAINING:
            lines.append(f"{requirement}  # {metadata.version(name)} made this bundle")
    return "\n".join(lines) + "\n"


README_TEXT = """\
# A bundle of the run {name}

The files part-* are stages of a run of kobert-pipeline {version}: {stages}. On the other machine, with this package in
the same version and the packages of requirements.txt:

    pip install -r requirements.txt
    kobert unbundle FOLDER_OF_THIS_FILE
    {next_step}

The parts may come one after another, each time with bundle.json: `kobert unbundle` says which are missing, and refuses
damaged ones. Without a network there, `pip download -r requirements.txt -d wheels` here gets the packages to carry, and
`pip install --no-index --find-links wheels -r requirements.txt` installs them. Joined, the parts are a tar archive of
files in xz format.
"""


def readme(about: dict[str, str], jobs: list["Job"], planned: set[str], source_files: list[Path]) -> str:
    """The README of a bundle of `jobs` of a run with the `planned` stages; `about` is what `about_run` returns."""
    from kobert_pipeline.runs.bundle import TRAINING

    stages, run = list(dict.fromkeys(job.stage for job in jobs)), f"runs/{about['name']}"
    if set(stages) & {*TRAINING, "publish"}:
        # on its way back, where the recipe is that knows the folder of the texts
        next_step = f"kobert run YOUR_RECIPE.yaml --run-dir {shlex.quote(run)}"
    else:
        recipe = shlex.quote(f"{run}/{about['name']}.yaml")
        next_step = "\n    ".join(f"kobert {step} {recipe}" for step in TRAINING if step in planned)
    lines = [f"Also copy {path.name} to where pretrain.base names it there.\n" for path in source_files]
    return "\n".join([README_TEXT.format(**about, stages=", ".join(stages), next_step=next_step), *lines])
