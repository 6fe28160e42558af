"""The command `kobert`. Every command parses, calls one function and prints; nothing heavy is imported before it is
needed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from kobert_pipeline.cli.arguments import (
    AsJson,
    AsJsonLines,
    Checkpoint,
    RecipeName,
    Redo,
    RedoStage,
    RunDir,
    Settings,
    Workers,
)
from kobert_pipeline.cli.clean import clean
from kobert_pipeline.cli.evaluate import evaluate
from kobert_pipeline.cli.exit_codes import run_app, interrupt_on_sigterm
from kobert_pipeline.cli.formatting import (
    Commands,
    first_sentence,
    outcome_row,
    print_json,
    print_table,
    print_upload,
    recipe_description,
    summary,
)
from kobert_pipeline.distributed import is_main_process, refuse_unsupported_launch
from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.files import locked
from kobert_pipeline.runs.runner import STAGES, follow
from kobert_pipeline.runs.runner import run as run_jobs

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Raw Korean text to a published, loadable BERT over morphemes. Example: kobert run quickstart",
)


def main() -> None:
    """Run the command line; translate errors to exit statuses."""
    run_app(app)


@app.command()
def run(
    recipe: RecipeName,
    until: Annotated[str | None, typer.Option(metavar="STAGE", help="Stop after this stage.")] = None,
    redo: Redo = None,
    setting: Settings = None,
    run_dir: RunDir = None,
    num_workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Do every stage of a recipe that is not done yet. Example: kobert run quickstart --until tokenizer"""
    _stage_name(until)
    _run(recipe, setting, run_dir, num_workers, as_json, until=until, redo=redo)


def _stage_command(stage: str) -> Callable[..., None]:
    def command(
        recipe: RecipeName,
        redo: RedoStage = False,
        setting: Settings = None,
        run_dir: RunDir = None,
        num_workers: Workers = None,
        as_json: AsJson = False,
    ) -> None:
        _run(recipe, setting, run_dir, num_workers, as_json, only=stage, redo=[stage] if redo else None)

    command.__doc__ = f"Do the stage {stage}; the stages it reads must be done. Example: kobert {stage} quickstart"
    return command


for _stage in STAGES[:-1]:
    app.command(_stage)(_stage_command(_stage))


@app.command()
def publish(
    recipe: RecipeName,
    push: Annotated[
        str | None, typer.Option(metavar="OWNER/NAME", help="Then upload the folder to this repository of the hub.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Which of the recipe's checkpoints to upload; needed where it has several.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Only you may see the repository.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be uploaded where, and send nothing.")
    ] = False,
    redo: RedoStage = False,
    setting: Settings = None,
    run_dir: RunDir = None,
    num_workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Do the stage publish; the stages it reads must be done. Example: kobert publish quickstart --name nsmc --push
    me/mood --dry-run"""
    if push is None and (name or private or dry_run):
        raise UserError(
            "--name, --private and --dry-run say how to upload; give --push OWNER/NAME too, or leave them out"
        )
    then = None
    if push:
        from kobert_pipeline.inference.checkpoint import files_to_upload
        from kobert_pipeline.pipeline.stages import plan, published_folder
        from kobert_pipeline.publish.hub import refuse_bad_name, upload

        refuse_bad_name(push)
        folder = published_folder(plan(recipe, setting, run_dir, num_workers)[1], name)

        def then() -> dict[str, Any]:
            return upload(folder, files_to_upload(folder), push, private, dry_run)

    _run(recipe, setting, run_dir, num_workers, as_json, only="publish", redo=["publish"] if redo else None, then=then)


@app.command()
def check(recipe: RecipeName, setting: Settings = None, run_dir: RunDir = None, as_json: AsJson = False) -> None:
    """Check every option and data file of a recipe, and the disk, without doing anything. Example: kobert check
    quickstart"""
    from kobert_pipeline.cli.formatting import print_check
    from kobert_pipeline.pipeline.stages import plan, problems

    loaded, planned = plan(recipe, setting, run_dir, None)
    print_check(recipe, [job.title for job in planned], *problems(loaded, planned), as_json)


app.command()(clean)


@app.command()
def status(recipe: RecipeName, setting: Settings = None, run_dir: RunDir = None, as_json: AsJson = False) -> None:
    """Show what of a run is done, stale, under way or missing. Example: kobert status quickstart"""
    from kobert_pipeline.pipeline.stages import plan
    from kobert_pipeline.runs.status import status_of

    rows = status_of(plan(recipe, setting, run_dir, None)[1])
    if as_json:
        print_json({"stages": rows})
    else:
        print_table(
            ["stage", "status", "seconds", "where"],
            [[row["job"], row["status"], row["seconds"], row["folder"]] for row in rows],
        )


@app.command("list")
def list_(
    family: Annotated[
        str | None, typer.Argument(metavar="FAMILY", help="readers, analyzers, subwords, tasks, ...")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the recipes and the variants of every family. Example: kobert list objectives"""
    from kobert_pipeline.config import plugins, recipe_file

    families = [family] if family else ["recipes", *plugins.CONTRACTS]
    found = {
        name: {key: recipe_description(path) for key, path in recipe_file.shipped().items()}
        if name == "recipes"
        else {key: first_sentence(plugin.__doc__ or "") for key, plugin in plugins.variants(name).items()}
        for name in families
    }
    if as_json:
        print_json(found)
    else:
        print_table(
            ["family", "name", "what"],
            [[name, key, text] for name, members in found.items() for key, text in members.items()],
        )


@app.command()
def explain(
    name: Annotated[
        str,
        typer.Argument(help="A stage, an option (pretrain.plan), a variant (bert, kiwi, ...), a family or a recipe."),
    ],
    as_json: AsJson = False,
) -> None:
    """Explain the options of a stage or variant; of an architecture also its parameters. Example: kobert explain
    bert"""
    from kobert_pipeline.cli.explain import explanation

    found = explanation(name)
    if as_json:
        print_json(found)
        return
    print(found["title"], found["about"], sep="\n\n", end="\n\n")
    if found["options"]:
        print_table(["option", "type", "default", "help"], found["options"])
    if found["parameters"]:
        print()
        print_table(["parameters", "count"], [[part, f"{count:,}"] for part, count in found["parameters"].items()])


@app.command()
def compare(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Folders of finished runs.")],
    as_json: AsJson = False,
) -> None:
    """Print one table over finished runs, as Markdown or JSON. Example: kobert compare runs/quickstart"""
    from kobert_pipeline.runs.compare import comparison_rows, option_differences, markdown

    rows, differing = comparison_rows(run_dirs), option_differences(run_dirs)
    print_json({"runs": rows, "differences": differing}) if as_json else print(markdown(rows, differing))


@app.command()
def tokenize(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A published checkpoint or a run's tokenizer folder.")
    ],
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Texts; - reads lines from standard input.")],
    as_json: AsJsonLines = False,
) -> None:
    """Show the tokens of a text with their ids and raw-text offsets. Example: kobert tokenize runs/quickstart/tokenizer
    아버지가방에"""
    from kobert_pipeline.inference.checkpoint import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    for text in _lines(texts):
        encoded = tokenizer(text, return_offsets_mapping=True)
        tokens, ids, offsets = encoded.tokens(), encoded["input_ids"], encoded["offset_mapping"]
        if as_json:
            print(
                json.dumps(
                    {"text": text, "tokens": tokens, "input_ids": ids, "offset_mapping": offsets}, ensure_ascii=False
                )
            )
        else:
            rows = zip(tokens, ids, offsets, strict=True)
            print_table(
                ["token", "id", "start", "end", "text"],
                [[p, str(i), str(s), str(e), text[s:e]] for p, i, (s, e) in rows],
            )


@app.command()
def predict(
    checkpoint: Checkpoint,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Texts (contexts, with --question); - reads lines from standard input."),
    ],
    question: Annotated[str | None, typer.Option(help="Question to answer from each text.")] = None,
    pair: Annotated[
        str | None, typer.Option(help="Second text of each pair; without it a tab in TEXT parts the two.")
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Tokens shown for each [MASK].")] = 5,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="A run's tokenizer folder, for a model that is not published (runs/NAME/finetune/NAME/SEED/model)."
        ),
    ] = None,
    as_json: AsJsonLines = False,
) -> None:
    """Classify texts or pairs of texts, answer a question from them, find their entities, or fill their [MASK]s.

    Example: kobert predict runs/quickstart/publish/nsmc "정말 재밌다"
    """
    from kobert_pipeline.inference.predict import predict as predicted

    for result in predicted(checkpoint, _lines(texts), question, top_k, pair, tokenizer):
        print(
            json.dumps(result, ensure_ascii=False)
            if as_json
            else "  ".join(f"{key}: {value}" for key, value in result.items())
        )


app.command()(evaluate)


def _run(
    recipe: str,
    settings: list[str] | None,
    run_dir: Path | None,
    num_workers: int | None,
    as_json: bool,
    only: str | None = None,
    until: str | None = None,
    redo: list[str] | None = None,
    then: Callable[[], dict[str, Any]] | None = None,
) -> None:
    """Do what of the recipe is asked for, then `then`, and show what became of both."""
    interrupt_on_sigterm()
    from kobert_pipeline.pipeline.stages import plan

    _, planned = plan(recipe, settings, run_dir, num_workers)
    if not is_main_process():
        follow(planned, only)
        return
    with locked(planned[0].folder.parent):
        outcomes = run_jobs(planned, only, until, redo)
        uploaded = then() if then else None
    if as_json:
        print_json(
            {"stages": [outcome_row(outcome) for outcome in outcomes]} | ({"upload": uploaded} if uploaded else {})
        )
    else:
        print_table(
            ["stage", "status", "seconds", "made", "where"],
            [[o.job.title, o.status, f"{o.seconds:.1f}", summary(o.counts), str(o.job.folder)] for o in outcomes],
        )
        if uploaded:
            print_upload(uploaded)


def _stage_name(stage: str | None) -> None:
    if stage is not None and stage not in STAGES:
        raise UserError(f"there is no stage {stage!r}{did_you_mean(stage, STAGES)}")


def _lines(texts: list[str]) -> list[str]:
    """The texts given, or the lines of standard input, blank ones included, so that results line up with them."""
    if texts != ["-"]:
        return texts
    try:
        lines = [
            line.removesuffix("\r")
            for line in sys.stdin.buffer.read().decode("utf-8-sig").removesuffix("\n").split("\n")
        ]
    except UnicodeDecodeError as error:
        raise UserError(
            f"standard input is not UTF-8 ({error.reason} at byte {error.start}); convert it first"
        ) from None
    if not any(lines):
        raise UserError("standard input is empty; give a text a line")
    return lines


def _version(wanted: bool) -> None:
    if wanted:
        from kobert_pipeline import __version__

        print(f"kobert {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Raw Korean text to a published, loadable BERT over morphemes. Example: kobert run quickstart"""
    refuse_unsupported_launch(context.invoked_subcommand)
