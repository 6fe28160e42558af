"""Markdown and YAML of model cards, reports and tables, safe for any text: names and sentences of other people appear
as they are written, and break neither a table nor what follows.
"""

import re
from typing import Any

import yaml

INLINE_MARKUP = re.compile(r"[\\`*\[\]<>~#]|(?<!\w)_|_(?!\w)|&(?=[#\w])")
"""Characters with a meaning inside a line. A _ between letters has none."""
NESTED = r"(?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])[ \t]))*[ \t]*"
"""The start of a line of a quotation or list, in which a block may start as well."""
BLOCK_START = re.compile(rf"^({NESTED})(?=#|`{{3}}|~{{3}}|[-=:|][-=:| \t]*$|<|\|)", re.MULTILINE)
"""Starts of lines that would make a heading or table, or start a block of code or HTML that may never end."""
# inline code knows no escapes, and in a table a bar ends the cell even inside it
PLAIN = re.compile(r"[^`|\\\r\n]+")
LARGEST_MATRIX = 20
"""Classes of the largest confusion matrix that is printed."""


def escaped(text: str) -> str:
    """`text` in one line, with all Markdown in it escaped."""
    return INLINE_MARKUP.sub(lambda match: f"\\{match.group()}", " ".join(text.split()))


def code(text: str) -> str:
    """`text` as inline code, or escaped if it has characters that inline code cannot hold."""
    # of inline code with a space at both ends CommonMark shows neither
    return f"`{text}`" if PLAIN.fullmatch(text) and text.strip() == text else escaped(text)


def paragraphs(text: str) -> str:
    """Text that keeps its links and emphasis, but has its headings, tables, HTML and blocks of code escaped."""
    # with \n as every line end: a lone \r ends a line in CommonMark, but not for re.MULTILINE
    return BLOCK_START.sub(r"\1\\", "\n".join(text.strip().splitlines()))


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table. The cells are Markdown; line breaks and bars in them do not end a row or cell."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def class_tables(report: dict[str, Any], too_large: str) -> list[str]:
    """The scores of each class in a classification report, and its confusion matrix, or the sentence `too_large`
    instead of one that is too wide to read."""
    classes, matrix = report["classes"], report.get("confusion_matrix")
    labels = [escaped(row["label"]) for row in classes]
    rows = [
        [label, *(f"{row[name]:.2f}" for name in ("precision", "recall", "f1")), f"{row['support']:,}"]
        for label, row in zip(labels, classes, strict=True)
    ]
    parts = [table(["label", "precision", "recall", "F1", "support"], rows)]
    if matrix and len(matrix) > LARGEST_MATRIX:
        parts.append(too_large.format(classes=len(matrix)))
    elif matrix:
        counts = [[label, *(f"{count:,}" for count in row)] for label, row in zip(labels, matrix, strict=True)]
        parts += ["Rows are the labels of the file, columns the predictions.", table(["label", *labels], counts)]
    return parts


def ablation_table(ablation: dict[str, dict[str, float]]) -> str:
    """What is learned and what is not: scores in percent of the network alone, with its priors, and of these alone."""
    rows = [
        [name.replace("_", " "), *(f"{value:.2f}" for value in scores.values())] for name, scores in ablation.items()
    ]
    return table(["answers of", *next(iter(ablation.values()))], rows)


def _cell(cell: str) -> str:
    # only several lines are joined: a single one keeps its spaces
    line = " ".join(cell.splitlines()) if cell.splitlines()[1:] else cell
    # An escaped bar after a backslash would be ambiguous between parsers, so it becomes an HTML entity.
    return re.sub(r"(?<!\\)\|", r"\\|", re.sub(r"(?<=\\)\|", "&#124;", line))


class _Dumper(yaml.SafeDumper):
    """Quotes text with line breaks or invisible characters, which YAML would fold or lose in a plain value."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _text)


def front_matter(metadata: dict[str, Any]) -> str:
    """The YAML block at the top of a model card."""
    return f"---\n{yaml.dump(metadata, Dumper=_Dumper, allow_unicode=True, sort_keys=False)}---"
