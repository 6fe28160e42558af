"""How `kobert` prints tables and JSON."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

from typer.core import TyperGroup

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import json_text

NO_TERMINAL_WIDTH = 100_000
"""Columns of output that is not a terminal: wider than any table, so that no row is wrapped or shortened."""

SMALL_MODEL = 2**33
"""Bytes of memory that every GPU for training has, so that for less no sizes of GPUs are named."""


class Commands(TyperGroup):
    """The commands in `kobert --help`, in groups, each with the whole first sentence of its own help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of each `rich_help_panel`; typer does so only where rich prints the help."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None)
            groups.setdefault(panel or "Commands", []).append((name, first_sentence(command.help or "")))
        for panel, rows in groups.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, as one line."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.])\s(?=[A-Z])", paragraph)[0]


def print_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    print(json_for(sys.stdout, value, indent=1))


def json_for(stream: TextIO, value: Any, indent: int | None = None) -> str:
    """`value` as JSON text, with what the encoding of a stream lacks as JSON's own escapes."""
    text = json_text(value, indent)
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print a table without borders, fitted to `output_width`.

    `rich` aligns the columns, because a Hangul syllable is two columns wide.
    """
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(*(Column(name, overflow="fold") for name in header), box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))  # of a string rich would read [MASK] and :x: as markup
    console = Console(width=output_width(), highlight=False)
    with console.capture() as captured:
        console.print(table)
    # a table that is piped is as wide as its longest cell, and blanks to there in every row are of no use
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def output_width() -> int:
    """Columns of the terminal or, for other output, of the variable COLUMNS; without it every row is one line, for
    other programs."""
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if is_known else NO_TERMINAL_WIDTH


def print_status(rows: list[dict[str, str]]) -> None:
    """Print the rows of `kobert status` as a table, and below it the reason for each status that has its own; the jobs
    that only wait for others are named together."""
    from rich.console import Console

    from kobert_pipeline.runs.status import INPUT_NOT_DONE

    states = [row["status"].partition(": ") for row in rows]
    print_table(
        ["stage", "status", "seconds", "folder"],
        [[row["job"], state, row["seconds"], row["folder"]] for row, (state, _, _) in zip(rows, states, strict=True)],
    )
    console = Console(width=output_width(), highlight=False)
    dependent = []
    for row, (state, _, reason) in zip(rows, states, strict=True):
        if reason.startswith(INPUT_NOT_DONE):
            dependent.append(row["job"])
        elif reason:
            console.print(f"\n{row['job']} is {state}: {reason}", markup=False, emoji=False)
    if dependent:
        sentence = "not up to date, because an earlier stage is not done: " + ", ".join(dependent)
        console.print(f"\n{sentence}", markup=False, emoji=False)


def print_check(
    recipe: str,
    jobs: list[str],
    refused: list[str],
    skipped: list[str],
    taken_for: list[str],
    disk_bytes: int,
    warnings: list[str],
    memory: dict[str, Any] | None,
    duration: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Print the result of `kobert check`: one line per problem, or the jobs and what they read and need.

    `refused` are problems that stop a run (the first is raised as a UserError), `skipped` are problems of files that a
    run would skip, `taken_for` says what each source and data set is read as, `warnings` stop nothing. `disk_bytes`,
    `memory`, the memory of pretraining, and `duration` are estimates.
    """
    if as_json:
        findings = {"problems": refused, "skipped": skipped, "sources": taken_for, "warnings": warnings}
        needed = {"disk_bytes_needed": disk_bytes, "pretraining_memory": memory, "duration": duration}
        print_json({"recipe": recipe, "jobs": jobs, **findings, **needed})
    else:
        print_problems(refused, skipped, taken_for, memory)
    if refused:
        where = "in the list problems" if as_json else "each on a line above"
        more = f" (the first of {len(refused)} problems, {where})" if len(refused) > 1 else ""
        raise UserError(f"{refused[0]}{more}")
    if not as_json:
        print(f"{recipe}: valid, {len(jobs)} jobs: {', '.join(jobs)}")
        print(next_commands(recipe, jobs[0].partition(" ")[0]))
        for line in (*taken_for, *(f"warning: {warning}" for warning in warnings)):
            print(line)
        print(f"The unfinished jobs need at most about {disk_bytes / 1e9:.2f} GB of disk space.")
        for estimate, sentence in ((memory, memory_sentence), (duration, duration_sentence)):
            if estimate:
                print(sentence(estimate))


def print_problems(refused: list[str], skipped: list[str], taken_for: list[str], memory: dict[str, Any] | None) -> None:
    """Print what a run would skip, and where something is refused all of that and whatever does not depend on it."""
    for line in taken_for if refused else []:
        print(line)
    for problem in skipped:
        print(f"would be skipped: {problem}")
    if len(refused) > 1:  # a single problem is only printed as the error
        print(*refused, sep="\n")
    if refused and memory:
        print(memory_sentence(memory))


def duration_sentence(duration: dict[str, Any]) -> str:
    """How long the unfinished jobs take, all and each."""
    jobs = {title: seconds for title, seconds in duration["seconds"].items() if seconds}
    listed = ", ".join(f"{title} {rounded_time(seconds)}" for title, seconds in jobs.items())
    per_second = duration["tokens_per_second"]
    speeds = f"{per_second:,.0f} tokens/s in trainings and " if per_second else ""
    return (
        f"The unfinished jobs take about {rounded_time(sum(jobs.values()))} ({listed}), by {speeds}speeds measured on "
        f"this machine in {duration['measured_in']:.0f} seconds."
    )


def rounded_time(seconds: float) -> str:
    """About how long: `40 seconds`, `12 minutes`, `3.5 hours`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def next_commands(recipe: str, stage: str) -> str:
    """What to do with a valid recipe whose first stage is `stage`."""
    only_first = f"`kobert {stage} {recipe}` only the stage {stage}"
    return f"Next, with the same options: `kobert run {recipe}` runs all, {only_first}."


ON_CPU = "; without a GPU that is main memory, of which torch and other libraries take a few GiB more"
"""Pretraining `mini` took up to 4.6 GiB, and the estimate is 0.5."""


def memory_sentence(memory: dict[str, Any]) -> str:
    """How much memory pretraining needs and, from 8 GiB on, which sizes of GPUs have it; less, a CPU may well train."""
    is_small = memory["bytes"] < SMALL_MODEL
    unit, factor, digits = ("MiB", 2**20, 0) if is_small else ("GiB", 2**30, 1)
    ranks = memory["fsdp_ranks"]
    sharded = f" on each of {ranks} GPUs (FSDP; more GPUs need less each)" if ranks > 1 else ""
    where = "memory" if is_small else "GPU memory"
    amounts = {name: f"{memory[name] / factor:,.{digits}f}" for name in ("weights", "activations", "logits")}
    return (
        f"Pretraining needs about {memory['bytes'] / factor:,.0f} {unit} of {where}{sharded} for "
        f"{memory['tokens']:,} tokens at once (weights and optimizer {amounts['weights']}, activations "
        f"{amounts['activations']}, logits {amounts['logits']})"
        f"{ON_CPU if is_small else gpu_advice(memory['tokens'], memory['tokens_that_fit'])}."
    )


def gpu_advice(tokens: int, fitting: dict[int, int]) -> str:
    """Which GPUs have memory for `tokens` tokens at once, and what to set for the others. `fitting`: {GB of a GPU: how
    many tokens fit it}."""
    large = ", ".join(f"{size} GB" for size, limit in fitting.items() if limit >= tokens)
    small = ", ".join(f"{limit:,} tokens fit {size} GB" for size, limit in fitting.items() if 0 < limit < tokens)
    verdict = f"; fits {large}" if large else f"; does not fit {max(fitting)} GB"
    return f"{verdict}; {small} (set pretrain.plan.max_tokens_per_device)" if small else verdict


def print_explanation(answer: dict[str, Any]) -> None:
    """Print what `kobert explain` answers."""
    print(answer["title"], answer["about"], sep="\n\n", end="\n\n")
    if any(kind for _, kind, _, _ in answer["options"]):
        print_table(["option", "type", "default", "help"], answer["options"])
    elif answer["options"]:  # variants of a plug-in, which have neither a type nor a default
        print_table(["name", "help"], [[name, text] for name, _, _, text in answer["options"]])
    if answer["parameters"]:
        print()
        print_table(["parameters", "count"], [[part, f"{count:,}"] for part, count in answer["parameters"].items()])


def print_upload(uploaded: dict[str, Any]) -> None:
    """Print what was uploaded to the Hugging Face Hub, or what a dry run would upload."""
    # an upload does not change the visibility of a repository that exists already
    visibility = "private" if uploaded["private"] else "public, unless it exists and is private"
    action = "would upload" if uploaded["dry_run"] else "uploaded"
    size = sum(uploaded["files"].values())
    print(f"\n{action} to {uploaded['repo']} ({visibility}): {size:,} bytes")
    print_table(["file", "bytes"], [[name, f"{count:,}"] for name, count in uploaded["files"].items()])
    if uploaded["url"]:
        print(uploaded["url"])


def recipe_description(path: Path) -> str:
    """The `description` of a recipe file, empty if it has none."""
    from kobert_pipeline.config.recipe_file import parse

    return str(parse(path.read_text(encoding="utf-8")).get("description", ""))


def note_truncated(checkpoint: Any, truncated: int, texts: int, pair: str | None = None) -> None:
    """Say how many of the texts have more tokens than the checkpoint reads, if any, and how to read them whole."""
    if truncated:
        sides = ("ends", "beginnings")
        lost, read = sides[::-1] if checkpoint.tokenizer.truncation_side == "left" else sides
        windows = (
            f"; --long windows reads them whole, which kobert evaluate can measure: a model of {read} may be worse"
        )
        advice = windows if checkpoint.task.takes_windows and pair is None else ""
        what = f"{truncated:,} of {texts:,} texts have more than {checkpoint.max_length} tokens"
        print(f"note: {what}, and the encoder did not read their {lost}{advice}", file=sys.stderr)
