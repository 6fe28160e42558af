"""Names and sentences of other people in Markdown and YAML: they are shown as they are, and break neither a table nor
what comes after."""

import re
import statistics
from typing import Any

import yaml

INLINE_MARKUP = re.compile(r"[\\`*\[\]<>~#]|(?<!\w)_|_(?!\w)|&(?=[#\w])")
"""What means something inside a line. A _ between letters means nothing."""
BLOCK_START = re.compile(r"^([ \t]*)(?=#|`{3}|~{3}|[-=]+[ \t]*$|<|\|)", re.MULTILINE)
"""Beginnings of lines that would make a heading, a table, or code or a comment that may have no end."""
PLAIN = re.compile(r"[^`|\\\r\n]+")


def escaped(text: str) -> str:
    """`text` in one line, shown letter by letter."""
    return INLINE_MARKUP.sub(lambda match: f"\\{match.group()}", " ".join(text.split()))


def code(text: str) -> str:
    """`text` as code, or plain where it holds what code cannot."""
    return f"`{text}`" if PLAIN.fullmatch(text) and text.strip() == text else escaped(text)


def paragraphs(text: str) -> str:
    """Sentences that may hold links and emphasis, but no headings, tables, HTML or blocks of code."""
    return BLOCK_START.sub(r"\1\\", "\n".join(text.strip().splitlines()))


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table. The cells are Markdown; line ends and bars in them part nothing."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(cell: str) -> str:
    line = " ".join(cell.splitlines()) if cell.splitlines()[1:] else cell
    # a backslash before a bar is read in two ways, an entity in one
    return re.sub(r"(?<!\\)\|", r"\\|", re.sub(r"(?<=\\)\|", "&#124;", line))


class _Dumper(yaml.SafeDumper):
    """Writes texts with line ends and characters that cannot be seen in double quotes: YAML folds them, or loses them,
    elsewhere."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _text)


def front_matter(metadata: dict[str, Any]) -> str:
    """The YAML block that opens a card."""
    return f"---\n{yaml.dump(metadata, Dumper=_Dumper, allow_unicode=True, sort_keys=False)}---"


def deviation_and_range(found: dict[str, float]) -> list[str]:
    """Standard deviation and range of a `spread`."""
    deviation = f"{found['standard_deviation']:.2f}" if "standard_deviation" in found else "-"
    return [deviation, f"{found['min']:.2f} to {found['max']:.2f}"]


def spread(values: list[float]) -> dict[str, float]:
    """Range, and standard deviation where there are several."""
    found = {"min": min(values), "max": max(values)} | (
        {"standard_deviation": statistics.stdev(values)} if len(values) > 1 else {}
    )
    return {name: round(value, 2) for name, value in found.items()}


def mean(values: list[float]) -> float:
    """Arithmetic mean."""
    return sum(values) / len(values)
