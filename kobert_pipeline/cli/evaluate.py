"""The command `kobert evaluate`. torch and transformers are imported only once the arguments are known to be valid."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kobert_pipeline.cli.arguments import AsJson, Backend, Long, TokenizerName
from kobert_pipeline.cli.formatting import note_truncated, print_json
from kobert_pipeline.errors import UserError, refuse_existing
from kobert_pipeline.files import atomic_write, refuse_unwritable, write_json

WRONG = ".errors.csv"
"""The suffix of the table of texts with wrong labels."""
Folder = Annotated[
    Path, typer.Argument(metavar="CHECKPOINT", help="A published checkpoint folder of a fine-tuned model.")
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A labelled file in the format of the checkpoint's task.")]
NOISE = (
    "all, KIND or KIND=RATE,RATE: spaces-removed, spaces-dropped, spaces-inserted, key-neighbour, key-missed, ... "
    "Repeatable."
)
Noises = Annotated[list[str] | None, typer.Option(metavar="NOISE", help=NOISE)]
NOISE_IN = "Add noise only to this field: text, text_pair, question or context; default: to all. Repeatable."
NoiseIn = Annotated[list[str] | None, typer.Option(metavar="FIELD", help=NOISE_IN)]
Out = Annotated[
    Path | None,
    typer.Option(metavar="OUT.json", help="Write the results to this new file, and a readable report to OUT.md."),
]
TaskSettings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An option of the task: --set label=score.")
]
ERRORS = "List the texts with wrong labels, also as OUT.errors.csv; or classify the wrong answers to questions."
Errors = Annotated[bool, typer.Option("--errors", help=ERRORS)]
Limit = Annotated[int | None, typer.Option(min=1, help="Examples to evaluate; default: all.")]
NOISE_LIMIT = "Examples to evaluate under each noise; default: as many as without."
NoiseLimit = Annotated[int | None, typer.Option(min=1, help=NOISE_LIMIT)]
NoiseSeed = Annotated[int, typer.Option(help="Random seed of the noise.")]
TaskName = Annotated[str | None, typer.Option(help="The task, if the checkpoint does not name it.")]

LABELS = "What FILE calls the outputs of the checkpoint, by their numbers or names: negative=0,positive=1."
Labels = Annotated[str | None, typer.Option(metavar="NAME=N,...", help=LABELS)]


def evaluate(
    checkpoint: Folder,
    file: File,
    out: Out = None,
    noise: Noises = None,
    noise_in: NoiseIn = None,
    errors: Errors = False,
    limit: Limit = None,
    noise_limit: NoiseLimit = None,
    seed: NoiseSeed = 1,
    task: TaskName = None,
    setting: TaskSettings = None,
    labels: Labels = None,
    long: Long = "truncate",
    tokenizer: TokenizerName = None,
    backend: Backend = "auto",
    as_json: AsJson = False,
) -> None:
    """Score a checkpoint on a labelled file: as it is, by kind of text, and under noise (--noise), and list
    what is wrong (--errors).

    Example: kobert evaluate runs/quickstart/publish/nsmc corpora/nsmc/ratings_test.txt.zst --noise spaces-removed
    """
    from kobert_pipeline.evaluation.noise import conditions

    noises = conditions(noise or [], seed)  # first all that can be checked without the model
    refuse_without_noise(noises, {"--noise-in": noise_in, "--noise-limit": noise_limit})
    refuse_existing_report(out)

    from kobert_pipeline.evaluation import evaluate as evaluation
    from kobert_pipeline.evaluation.report import markdown
    from kobert_pipeline.inference.checkpoint import Checkpoint

    loaded = Checkpoint.load(checkpoint, tokenizer, backend).for_task(task, setting, parse_labels(labels), long)
    note_unused_options(checkpoint, loaded.model.config.to_dict(), task)
    results = evaluation.evaluate(loaded, file, noises, noise_in or [], errors, limit, noise_limit)
    report = {"checkpoint": checkpoint.name} | results
    note_truncated(loaded, results["clean"].get("truncated", 0), results["clean"]["examples"])
    _show_report(report, markdown(report), out, as_json, loaded.task.paired)


def refuse_existing_report(out: Path | None) -> None:
    """Raise UserError for a suffix other than .json, and where a file of the report exists."""
    if out:
        refuse_unwritable(out, "--out", (".json",))
        for suffix in (".md", WRONG):
            refuse_existing(out.with_suffix(suffix), "--out")


def refuse_without_noise(noises: list[Any], options: dict[str, Any]) -> None:
    """Raise UserError for an option of noise where there is none."""
    for option, value in options.items():
        if value and not noises:
            raise UserError(f"{option} applies to added noise, but none is added; say which with --noise")


def parse_labels(text: str | None) -> dict[str, str] | None:
    """{name: output} of NAME=OUTPUT,NAME=OUTPUT. Raises UserError for another form."""
    parts = [part.rpartition("=") for part in text.split(",")] if text is not None else []
    if not all(name.strip() and sign and output.strip() for name, sign, output in parts):
        raise UserError(f"--labels is {text!r:.60}; give a name and an output each, as in negative=0,positive=1")
    return {name.strip(): output.strip() for name, _, output in parts} or None


def note_unused_options(checkpoint: Path, config: dict[str, Any], task: str | None) -> None:
    """Say where another task than the checkpoint's own leaves out options on which its predictions depend."""
    from kobert_pipeline.inference.task_of_checkpoint import choose_task, task_options

    stored = task_options(checkpoint, config) if task else {}
    if not stored or stored["name"] == task:
        return
    of_stored, of_task = (choose_task({"name": name}).inference_options for name in (stored["name"], task))
    # quoted for the shell, since a group of options has braces
    settings = [
        shlex.quote(f"{name}={json.dumps(stored[name])}")
        for name in of_stored
        if name not in of_task and stored.get(name)
    ]
    if settings:
        listed = " ".join(f"--set {setting}" for setting in settings)
        print(
            f"note: --task {task} leaves out options of the checkpoint's task {stored['name']}: {listed}",
            file=sys.stderr,
        )


def _show_report(report: dict[str, Any], text: str, out: Path | None, as_json: bool, paired: bool) -> None:
    """Print the report, so that it is not lost where it cannot be written, and write it, also where nobody reads what
    is printed."""
    try:
        print_json(report) if as_json else print(text, end="", flush=True)
    finally:
        _write_report(out, report, text, paired)


def _write_report(out: Path | None, report: dict[str, Any], text: str, paired: bool) -> None:
    if out is None:
        return
    from kobert_pipeline.evaluation.wrong_labels import write_csv

    write_json(out, report)
    if "wrong_labels" in report:
        write_csv(out.with_suffix(WRONG), report["wrong_labels"], paired)
    with atomic_write(out.with_suffix(".md")) as part:
        part.write_text(text, encoding="utf-8", errors="replace")  # texts may have lone surrogates
