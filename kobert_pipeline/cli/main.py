"""The command `kobert`: each command parses its arguments, calls one function and prints the result.

Heavy libraries are imported inside the commands, so that `kobert --help` answers within a second.
"""

from collections.abc import Callable
from time import monotonic
from typing import Annotated, Any

import typer

from kobert_pipeline.cli.arguments import (
    AsJson,
    Explained,
    Minutes,
    RecipeName,
    Redo,
    RedoChanged,
    RedoStage,
    RunDir,
    Settings,
    Workers,
)
from kobert_pipeline.cli.bundle import bundle, unbundle
from kobert_pipeline.cli.clean import clean
from kobert_pipeline.cli.compare import compare
from kobert_pipeline.cli.download import download
from kobert_pipeline.cli.embed import embed
from kobert_pipeline.cli.evaluate import evaluate
from kobert_pipeline.cli.exit_codes import run_app, stop_after
from kobert_pipeline.cli.formatting import (
    Commands,
    first_sentence,
    print_explanation,
    print_json,
    print_status,
    print_table,
    recipe_description,
)
from kobert_pipeline.cli.index import index
from kobert_pipeline.cli.predict import predict, tokenize
from kobert_pipeline.cli.serve import serve
from kobert_pipeline.cli.similar import similar
from kobert_pipeline.cli.visualize import app as visualize_app
from kobert_pipeline.distributed import is_distributed, refuse_unsupported_launch
from kobert_pipeline.errors import UserError
from kobert_pipeline.runs.runner import STAGES, check_stage_name

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    rich_markup_mode=None,  # help texts contain [MASK], which rich would take for markup
    pretty_exceptions_enable=False,
)


RECIPES, USING_A_CHECKPOINT, DATA = "Recipes", "Using a checkpoint", "Data and help"
ONE_STAGE = "Stages (run one of them; those that it reads must be finished)"
"""The groups of commands in `kobert --help`."""
STAGE_HELP = {
    "checkpoint": "Take an existing model and its tokenizer, from a folder or the Hugging Face Hub.",
    "corpus": "Clean and deduplicate texts, and leave out those of evaluation sets.",
    "analysis": "Find the boundaries of morphemes and sentences.",
    "tokenizer": "Train a vocabulary over morphemes, and report on it.",
    "shards": "Encode the corpus as token ids with all boundaries.",
    "features": "Encode task files as train, dev and test sets.",
    "pretrain": "Train a model on the shards.",
    "finetune": "Train and score one model per seed on the features.",
    "publish": "Write a folder that plain `transformers` loads, with a model card, and upload it if asked to.",
}


def main() -> None:
    """Run the command line, and turn errors into exit codes."""
    run_app(app)


def show_help(
    command: Annotated[str | None, typer.Argument(metavar="COMMAND", help="A command; default: all of them.")] = None,
) -> None:
    """Show the help of a command, as its option --help does. Example: kobert help run"""
    app([*([command] if command else []), "--help"], prog_name="kobert", standalone_mode=False)


@app.command(rich_help_panel=RECIPES)
def run(
    recipe: RecipeName,
    until: Annotated[str | None, typer.Option(metavar="STAGE", help="Stop after this stage.")] = None,
    redo: Redo = None,
    redo_changed: RedoChanged = False,
    setting: Settings = None,
    run_dir: RunDir = None,
    num_workers: Workers = None,
    minutes: Minutes = None,
    as_json: AsJson = False,
) -> None:
    """Run every stage of a recipe that is not finished yet. Example: kobert run quickstart --until tokenizer"""
    from kobert_pipeline.cli.run_recipe import run_recipe

    if until is not None:
        check_stage_name(until)  # before the recipe is read and the run's folder is made
    with stop_after(minutes):
        run_recipe(recipe, setting, run_dir, num_workers, as_json, until=until, redo=redo, redo_changed=redo_changed)


def _stage_command(stage: str) -> Callable[..., None]:
    def command(
        recipe: RecipeName,
        redo: RedoStage = False,
        setting: Settings = None,
        run_dir: RunDir = None,
        num_workers: Workers = None,
        minutes: Minutes = None,
        as_json: AsJson = False,
    ) -> None:
        from kobert_pipeline.cli.run_recipe import run_recipe

        with stop_after(minutes):
            run_recipe(recipe, setting, run_dir, num_workers, as_json, only=stage, redo=[stage] if redo else None)

    return command


FIT = (
    "Measure the speed, and set pretrain.total_tokens so that the training ends within --minutes; all schedules follow."
)


def pretrain(
    recipe: RecipeName,
    redo: RedoStage = False,
    setting: Settings = None,
    run_dir: RunDir = None,
    num_workers: Workers = None,
    minutes: Minutes = None,
    fit: Annotated[bool, typer.Option("--fit", help=FIT)] = False,
    as_json: AsJson = False,
) -> None:
    """The stage pretrain, which can fit its budget of tokens to a time."""
    from kobert_pipeline.cli.run_recipe import run_recipe

    if fit and minutes is None:
        raise UserError("--fit fits the training to a time; add --minutes N, or leave it out")
    redo_names = ["pretrain"] if redo else None
    with stop_after(minutes):
        fit_minutes = minutes if fit else None
        run_recipe(
            recipe, setting, run_dir, num_workers, as_json, only="pretrain", redo=redo_names, fit_minutes=fit_minutes
        )


BEFORE_TEST = "Stop before test sets are read, with all models saved; the same command without this reads them."


def finetune(
    recipe: RecipeName,
    redo: RedoStage = False,
    setting: Settings = None,
    run_dir: RunDir = None,
    num_workers: Workers = None,
    minutes: Minutes = None,
    before_test: Annotated[bool, typer.Option("--before-test", help=BEFORE_TEST)] = False,
    as_json: AsJson = False,
) -> None:
    """The stage finetune, which can stop before test sets are read."""
    from kobert_pipeline.cli.run_recipe import run_recipe

    if before_test and is_distributed():
        raise UserError("--before-test is for one process; start it without a launcher")
    redo_names = ["finetune"] if redo else None
    with stop_after(minutes):
        run_recipe(
            recipe, setting, run_dir, num_workers, as_json, only="finetune", redo=redo_names, before_test=before_test
        )


Push = Annotated[
    str | None,
    typer.Option(metavar="OWNER/NAME", help="Then upload the checkpoint to this repository of the Hugging Face Hub."),
]
CheckpointName = Annotated[
    str | None, typer.Option(help="Which of the recipe's checkpoints to upload, if it has several.")
]
PRIVATE = "Upload to a private repository, created if it does not exist."
Private = Annotated[bool, typer.Option("--private", help=PRIVATE)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be uploaded, and send nothing.")]


def publish(
    recipe: RecipeName,
    push: Push = None,
    name: CheckpointName = None,
    private: Private = False,
    dry_run: DryRun = False,
    redo: RedoStage = False,
    setting: Settings = None,
    run_dir: RunDir = None,
    num_workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """The stage publish, which can upload what it wrote."""
    from kobert_pipeline.cli.run_recipe import run_recipe

    if push is None and (name or private or dry_run):
        raise UserError(
            "--name, --private and --dry-run are options of an upload; add --push OWNER/NAME, or leave them out"
        )
    upload_checkpoint = None
    if push:
        from kobert_pipeline.cli.run_results import published_folder
        from kobert_pipeline.inference.loading import files_to_upload
        from kobert_pipeline.pipeline.stages import plan
        from kobert_pipeline.publish.hub import refuse_bad_name, upload

        # checked before the stage runs: a wrong name should not cost the time of publishing
        refuse_bad_name(push)
        folder = published_folder(plan(recipe, setting, run_dir, num_workers)[1], name)

        def upload_checkpoint() -> dict[str, Any]:
            return upload(folder, files_to_upload(folder), push, private, dry_run)

    redo_names = ["publish"] if redo else None
    run_recipe(recipe, setting, run_dir, num_workers, as_json, only="publish", redo=redo_names, after=upload_checkpoint)


COMMANDS: dict[str, Callable[..., None]] = {"pretrain": pretrain, "finetune": finetune, "publish": publish}
"""The commands of stages with options of their own."""
for _stage in STAGES:
    _example = f"{_stage} quickstart" + (" --name nsmc --push me/mood --dry-run" if _stage == "publish" else "")
    app.command(
        _stage,
        help=f"{STAGE_HELP[_stage]} The stages that it reads must be finished. Example: kobert {_example}",
        rich_help_panel=ONE_STAGE,
    )(COMMANDS.get(_stage) or _stage_command(_stage))


TIME = "Also estimate how long the unfinished jobs take, by speeds that are measured on this machine in some seconds."
TOKENS_PER_SECOND = "Estimate the time with trainings of this speed, as of the machine that will train; implies --time."


@app.command(rich_help_panel=RECIPES)
def check(
    recipe: RecipeName,
    setting: Settings = None,
    run_dir: RunDir = None,
    time: Annotated[bool, typer.Option("--time", help=TIME)] = False,
    tokens_per_second: Annotated[float | None, typer.Option(min=1, help=TOKENS_PER_SECOND)] = None,
    as_json: AsJson = False,
) -> None:
    """Check the options and data files of a recipe and the free disk space, and estimate the memory of pretraining,
    without running anything. Example: kobert check quickstart --time"""
    from kobert_pipeline.cli.formatting import print_check
    from kobert_pipeline.pipeline.check import pretraining_memory, problems, warnings_of
    from kobert_pipeline.pipeline.stages import plan

    loaded, planned = plan(recipe, setting, run_dir, None)
    titles = [job.title for job in planned]
    warnings, memory = warnings_of(loaded), pretraining_memory(loaded)
    findings = problems(loaded, planned)
    duration = None
    if (time or tokens_per_second) and not findings[0]:
        from kobert_pipeline.pipeline.duration import seconds_of_jobs

        started = monotonic()
        seconds = seconds_of_jobs(recipe, loaded, planned, tokens_per_second)
        measured_in = round(monotonic() - started, 1)
        duration = {"seconds": seconds, "tokens_per_second": tokens_per_second, "measured_in": measured_in}
    print_check(recipe, titles, *findings, warnings, memory, duration, as_json)


@app.command(rich_help_panel=RECIPES)
def status(recipe: RecipeName, setting: Settings = None, run_dir: RunDir = None, as_json: AsJson = False) -> None:
    """Show which stages of a run are finished, stale, started or missing. Example: kobert status quickstart"""
    from kobert_pipeline.pipeline.stages import plan
    from kobert_pipeline.runs.status import status_of

    rows = status_of(plan(recipe, setting, run_dir, None)[1])
    if as_json:
        print_json({"stages": rows})
    else:
        print_status(rows)


@app.command("list", rich_help_panel=RECIPES)
def list_(
    family: Annotated[
        str | None, typer.Argument(metavar="FAMILY", help="readers, analyzers, subwords, tasks, ...")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the shipped recipes and the variants of every plug-in family. Example: kobert list objectives"""
    from kobert_pipeline.config import plugins, recipe_file

    families = [family] if family else ["recipes", *plugins.CONTRACTS]
    descriptions = {}
    for name in families:
        if name == "recipes":
            descriptions[name] = {key: recipe_description(path) for key, path in recipe_file.shipped().items()}
        else:
            members = plugins.variants(name)
            descriptions[name] = {key: first_sentence(plugin.__doc__ or "") for key, plugin in members.items()}
    if as_json:
        print_json(descriptions)
        return
    print_table(
        ["family", "name", "description"],
        [[name, key, text] for name, texts in descriptions.items() for key, text in texts.items()],
    )


@app.command(rich_help_panel=RECIPES)
def explain(
    name: Explained = "recipe",
    as_json: AsJson = False,
) -> None:
    """Explain the options of a stage or variant, and count the parameters of an architecture. Example: kobert explain
    bert"""
    from kobert_pipeline.cli.explain import explanation

    answer = explanation(name)
    if as_json:
        print_json(answer)
    else:
        print_explanation(answer)


ELSEWHERE: dict[str, tuple[Callable[..., None], ...]] = {
    RECIPES: (compare, clean, bundle, unbundle),
    USING_A_CHECKPOINT: (tokenize, predict, evaluate, embed, index, similar, serve),
    DATA: (download,),
}
"""The commands that are defined in files of their own, by group."""
for _group, _commands in ELSEWHERE.items():
    for _command in _commands:
        app.command(rich_help_panel=_group)(_command)
app.add_typer(visualize_app, name="visualize", rich_help_panel=USING_A_CHECKPOINT)
app.command("help", rich_help_panel=DATA)(show_help)


def _version(requested: bool) -> None:
    if requested:
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
    # before any command starts: several ranks would otherwise all do the same work in the same folder
    refuse_unsupported_launch(context.invoked_subcommand)
