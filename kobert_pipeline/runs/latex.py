"""Tables in LaTeX, safe for any text."""

PREAMBLE = r"% needs \usepackage{booktabs}, for Korean names also \usepackage{kotex}"
SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}", "[": "{[}", "]": "{]}", "*": "{*}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}  # fmt: skip
"""Commands and ligatures. A row that begins with a bracket or star would be an argument of the line break before it."""


def booktabs(header: list[str], rows: list[list[str]]) -> str:
    """A table with the rules of the package booktabs; columns of numbers are aligned on the right."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    alignment = "".join("r" if column and all(map(_is_number, column)) else "l" for column in columns)
    lines = [" & ".join(map(escaped, row)) + r" \\" for row in (header, *rows)]
    return "\n".join([
        rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule",
        r"\end{tabular}",
    ])  # fmt: skip


def escaped(text: str) -> str:
    """`text` in one line, with every character as it is written."""
    line = "".join(character for character in " ".join(text.split()) if character.isprintable())
    # two hyphens would become a dash
    return "".join(SPECIAL.get(character, character) for character in line).replace("--", "-{}-{}")


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "").isdigit()
