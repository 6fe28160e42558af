"""The command `kobert evaluate`. Nothing heavy is imported before it is needed."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from kobert_pipeline.cli.arguments import AsJson
from kobert_pipeline.errors import UserError

Folder = Annotated[
    Path, typer.Argument(metavar="CHECKPOINT", help="A published checkpoint folder of a fine-tuned model.")
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A labelled file of its task.")]
NOISE = "all, KIND or KIND=RATE,RATE: spaces-removed, spaces-dropped, spaces-inserted, key-neighbour, key-missed, ... Repeat for more."
Noises = Annotated[list[str] | None, typer.Option(metavar="NOISE", help=NOISE)]
NOISE_IN = "Add noise there alone: text, text_pair, question or context; default: everywhere."
NoiseIn = Annotated[list[str] | None, typer.Option(metavar="TEXT", help=NOISE_IN)]
Out = Annotated[
    Path | None, typer.Option(metavar="OUT.json", help="Write the figures there, and a page beside it (OUT.md).")
]
TaskSettings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An option of the task: --set label=score.")
]


def evaluate(
    checkpoint: Folder,
    file: File,
    out: Out = None,
    noise: Noises = None,
    noise_in: NoiseIn = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Sort the wrong answers to questions by what is wrong with them.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Examples to measure; default: all.")] = None,
    noise_limit: Annotated[
        int | None, typer.Option(min=1, help="Examples to try each noise on; default: all that are measured.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 1,
    task: Annotated[str | None, typer.Option(help="The task, where the checkpoint does not say it.")] = None,
    setting: TaskSettings = None,
    as_json: AsJson = False,
) -> None:
    """Score a checkpoint on a labelled file: clean, by kind of text, under noise (--noise), and where its answers go
    wrong (--errors).

    Example: kobert evaluate runs/quickstart/publish/nsmc corpora/reviews_test.txt --noise spaces-removed --out
    nsmc.json
    """
    from kobert_pipeline.cli.formatting import print_json
    from kobert_pipeline.evaluation.noise import conditions
    from kobert_pipeline.files import atomic_write, write_json

    noises = conditions(noise or [], seed)
    for option, given in {"--noise-in": noise_in, "--noise-limit": noise_limit}.items():
        if given and not noises:
            raise UserError(f"{option} is about the noise that is added; say which with --noise")
    if out is not None:
        make_ready(out)

    from kobert_pipeline.evaluation import evaluate as evaluation
    from kobert_pipeline.evaluation.report import markdown
    from kobert_pipeline.inference.checkpoint import Checkpoint

    loaded = Checkpoint.load(checkpoint, task, setting)
    found = {"checkpoint": checkpoint.name} | evaluation.evaluate(
        loaded, file, noises, noise_in or [], errors, limit, noise_limit
    )
    if out is not None:
        write_json(out, found)
        with atomic_write(out.with_suffix(".md")) as part:
            part.write_text(markdown(found), encoding="utf-8")
    print_json(found) if as_json else print(markdown(found), end="")


def make_ready(out: Path) -> None:
    """Make the folder of `out` and try it, before anything is measured. Raises UserError for another ending than .json,
    or where nothing can be written."""
    if out.suffix != ".json":
        raise UserError(f"--out {out}: give a name that ends in .json; the page is written beside it, with .md")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out.parent).close()
        taken = next((path for path in (out, out.with_suffix(".md")) if path.is_dir()), None)
    except OSError as error:
        raise UserError(f"--out {out}: nothing can be written there ({error.strerror}); name another place") from None
    if taken is not None:
        raise UserError(f"--out {out}: {taken} is a folder; give another name")
