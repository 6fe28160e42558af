"""How `kobert` shows things: tables, one JSON object, and the few numbers of a stage that people look for."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from kobert_pipeline.errors import UserError

if TYPE_CHECKING:
    from kobert_pipeline.runs.runner import Outcome


TRUNCATED_SHARE = 0.03
"""Share of the training examples from which it is said that they were cut."""
NO_TERMINAL_WIDTH = 100_000
"""Columns of what is no terminal: wider than any table."""


class Commands(TyperGroup):
    """Commands that `--help` lists with the first sentence of each, whole."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list; the short help that a command was given is not cut as that which is made of its help."""
        for command in self.commands.values():
            command.short_help = first_sentence(command.help or "")
        super().format_commands(ctx, formatter)


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, wrapped lines joined."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.])\s(?=[A-Z])", paragraph)[0]


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=1))


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """A plain table, Hangul counted as two columns; fitted to the terminal, and a line a row where there is none."""
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(*(Column(name, overflow="fold") for name in header), box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(str(cell).replace("[", r"\[") for cell in row))
    width = None if sys.stdout.isatty() else NO_TERMINAL_WIDTH
    Console(width=width, highlight=False).print(table)


def outcome_row(outcome: "Outcome") -> dict[str, Any]:
    """A finished job for --json."""
    return {
        "stage": outcome.job.stage,
        "name": outcome.job.name,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 2),
        "counts": outcome.counts,
        "folder": str(outcome.job.folder),
    }


def print_check(
    recipe: str, jobs: list[str], refused: list[str], skipped: list[str], disk_bytes: int, as_json: bool
) -> None:
    """What `kobert check` found: a line for each problem. Raises UserError where there is one that a run would
    refuse."""
    if as_json:
        print_json(
            {"recipe": recipe, "jobs": jobs, "problems": refused, "skipped": skipped, "disk_bytes_needed": disk_bytes}
        )
    else:
        for sentence in [*(f"would be skipped: {one}" for one in skipped), *(refused if len(refused) > 1 else [])]:
            print(sentence)
    if len(refused) > 1:
        where = "in the list problems" if as_json else "each on a line above"
        raise UserError(f"{refused[0]} (the first of {len(refused)} problems, {where})")
    if refused:
        raise UserError(refused[0])
    if not as_json:
        print(f"{recipe}: valid, {len(jobs)} jobs: {', '.join(jobs)}")
        print(f"What is not done yet will take at most about {disk_bytes / 1e9:.2f} GB of disk.")


def print_upload(uploaded: dict[str, Any]) -> None:
    """What went where, or would go."""
    seen = "private" if uploaded["private"] else "public, unless it is there and private"
    size = sum(uploaded["files"].values())
    print(f"\n{'would upload' if uploaded['dry_run'] else 'uploaded'} to {uploaded['repo']} ({seen}): {size:,} bytes")
    print_table(["file", "bytes"], [[name, f"{count:,}"] for name, count in uploaded["files"].items()])
    if uploaded["url"]:
        print(uploaded["url"])


def summary(counts: dict[str, Any]) -> str:
    """The few numbers of a stage that people look for."""
    shown = {
        "documents_kept": "documents",
        "morphemes": "morphemes",
        "vocab_size": "tokens in the vocabulary",
        "train_tokens": "tokens to train on",
        "train_examples": "examples",
        "tokens_seen": "tokens seen",
        "max_logit_difference": "largest logit difference",
    }
    parts = [f"{counts[key]:,} {text}" for key, text in shown.items() if key in counts]
    unread = {
        "files": counts.get("files_skipped", 0) + counts.get("files_read_in_part", 0),
        "rows": counts.get("rows_skipped", 0),
    }
    if any(unread.values()):
        parts.append(f"{' and '.join(f'{count:,} {what}' for what, count in unread.items() if count)} unfit")
    if counts.get("train_truncated", 0) > TRUNCATED_SHARE * counts.get("train_examples", 0):
        parts.append(f"{counts['train_truncated'] / counts['train_examples']:.0%} of them cut to max_length")
    for key in ("test", "dev"):
        if key in counts:
            parts += [f"{key} {name} {value:.2f}" for name, value in counts[key].items()]
            break
    if "held_out_before" in counts:
        parts.append(f"held-out loss {counts['held_out_before']['loss']:.2f} -> {counts['held_out_after']['loss']:.2f}")
    return ", ".join(parts[:3])


def recipe_description(path: Path) -> str:
    """The sentence that a recipe says of itself."""
    from kobert_pipeline.config.recipe_file import parse

    return str(parse(path.read_text(encoding="utf-8")).get("description", ""))
