"""The report of a tokenizer as a page and a picture."""

from typing import Any

from kobert_pipeline.tokenizer.report import KINDS


def markdown(figures: dict[str, Any]) -> str:
    """The report as a page. `figures` holds `vocabulary`, `sources` (name -> figures of `measure`) and maybe
    `answers`."""
    columns = {
        "tokens / eojeol": "tokens_per_eojeol", "tokens / morpheme": "tokens_per_morpheme",
        "characters / token": "characters_per_token",
        "unknown": "unknown_rate", "texts with loss": "texts_with_loss",
        "eojeols equal in `plain/`": "agreement_with_plain",
    }  # fmt: skip
    lines = ["# Tokenizer report", "", *(f"- {name}: {value}" for name, value in figures["vocabulary"].items()), ""]
    lines += [
        row(["texts", "number", *columns, *(f"unknown in {kind}" for kind in KINDS)]),
        row(["---"] * (2 + len(columns) + len(KINDS))),
    ]
    for name, one in figures["sources"].items():
        kinds = [
            f"{one['unknown_rate_of'][kind]['rate']:.4%} of {one['unknown_rate_of'][kind]['tokens']:,}"
            for kind in KINDS
        ]
        lines.append(row([name, f"{one['texts']:,}", *(str(one[key]) for key in columns.values()), *kinds]))
    if "answers" in figures:
        answers = figures["answers"]
        lines += [
            "",
            f"Best EM these tokens allow: **{answers['ceiling_exact_match']} %** of {answers['answers']:,} answers "
            f"({answers['answers_on_borders_percent']} % without forgiving white space and punctuation at the ends).",
        ]
        lines += (
            [f"Out of reach, for example: {'; '.join(answers['missed_samples'])}"] if answers["missed_samples"] else []
        )
    return "\n".join([*lines, "", "![Share of the text that the commonest tokens spell](vocabulary_use.png)", ""])


def row(cells: list[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def draw(figures: dict[str, Any], path: Any) -> None:
    """The vocabulary's use as a picture (PNG): rank of tokens against share of the text."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, one in figures["sources"].items():
        points = one["share_of_text_by_commonest"]
        axes.plot([int(rank) for rank in points], list(points.values()), marker="o", label=name)
    axes.set(
        xscale="log",
        xlabel="commonest tokens",
        ylabel="share of the text",
        ylim=(0, 1.02),
        title="Use of the vocabulary",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    FigureCanvasAgg(figure).print_png(path, metadata={"Software": None})
