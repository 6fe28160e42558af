"""Attention as a page, which sums tokens to morphemes and characters itself, and as a picture of one matrix."""

from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.visualize import figures
from kobert_pipeline.visualize.attention import CAVEAT, UNITS, Attention
from kobert_pipeline.visualize.page import SUFFIX, options, page, write_page

SUFFIXES = (SUFFIX, *figures.SUFFIXES)
SCALE = 2**16 - 1
"""Weights are stored in 16 bits, as whole numbers of 1/65535."""
SHOWN_TITLE = 60
"""Characters of the text in the title of a picture."""
MAX_LABELLED = 80
"""Rows of a picture up to which all of them have a label; of more, evenly spaced ones have."""

CONTROLS = """<div class="controls">
<label>View <select id="view"><option value="lines">lines</option><option value="matrix">matrix</option>
</select></label>
<label>Unit <select id="unit">{units}</select></label>
<label>Layer <select id="layer">{layers}</select></label>
<label>Head <select id="head">{heads}</select></label>
<label>Word <select id="word" lang="ko"></select></label>
<label>Direction <select id="direction"><option value="from">reads from</option><option value="to">is read by</option>
</select></label>
</div>
<p class="said" id="said" aria-live="polite" lang="ko"></p>
<div class="scroll" id="scroll" tabindex="0" role="region" aria-label="Picture of the attention">
<svg id="picture" role="img" lang="ko"></svg>
</div>
"""


def write(path: Path, attention: Attention, layer: int, head: int | None, unit: str) -> None:
    """Write a page, or a picture of one matrix, by the suffix. The layer, the head and the unit are those shown, in the
    page at first."""
    chosen_layer, chosen_head = attention.choose(layer, head)
    if path.suffix == SUFFIX:
        write_page(path, attention_page(attention, chosen_layer, chosen_head, unit))
    else:
        draw(path, attention, chosen_layer, chosen_head, unit)


def attention_page(attention: Attention, layer: int, head: int | None, unit: str) -> str:
    """The page of `attention`, which shows a layer and head first, by their indices."""
    layers, heads, *_ = attention.weights.shape
    names = dict(zip(UNITS, ("tokens", "morphemes" if attention.by_morpheme else "words", "characters"), strict=True))
    body = [
        f"<h1>Attention of {escape(attention.name)}</h1>",
        *(f'<p lang="ko">{escape(text)}</p>' for text in attention.texts),
        f'<p class="faint">{escape(CAVEAT)}</p>',
        *([f'<p class="faint">{attention.notice}</p>'] if attention.notice else []),
        CONTROLS.format(
            units=options(names, unit),
            layers=options({"mean": "mean"} | {i: str(i + 1) for i in range(layers)}, layer),
            heads=options({"mean": "mean"} | {i: str(i + 1) for i in range(heads)}, "mean" if head is None else head),
        ),
        f'<p class="faint">Tokens are summed to {names["morphemes"]} and characters: what a word receives is the sum '
        "over its tokens, what it reads is their mean. A token of several characters is split evenly among them. "
        "Stronger and wider is more, relative to the largest weight shown; of many weights the 20,000 largest are "
        "drawn.</p>",
    ]
    return page(f"Attention of {attention.name}: {attention.title}", "\n".join(body), "attention.js", data(attention))


def data(attention: Attention) -> dict[str, Any]:
    """What the page's script reads: `shape` (layers, heads, tokens), the weights as base64 of little-endian integers,
    and the units."""
    weights = np.round(attention.weights * SCALE).astype("<u2")
    return {
        "shape": attention.weights.shape[:3],
        "weights": b64encode(weights.tobytes()).decode(),
        "units": {
            name: [{"label": u.label, "detail": u.detail, "side": u.side, "tokens": u.tokens} for u in units]
            for name, units in attention.units.items()
        },
    }


def draw(path: Path, attention: Attention, layer: int, head: int | None, unit: str) -> None:
    """Write a picture of the matrix of one layer and head."""
    labels = [piece.label for piece in attention.units[unit]]
    matrix = attention.matrix(layer, head, unit)
    text = attention.title
    text = text if len(text) <= SHOWN_TITLE else f"{text[:SHOWN_TITLE]}…"
    which = "mean of heads" if head is None else f"head {head + 1}"
    title = f"{attention.name}, layer {layer + 1}, {which}\n{text}"
    with figures.new_figure(path, [title, CAVEAT, *labels], len(labels)) as figure:
        axes = figure.subplots()
        image = axes.imshow(matrix, cmap="Blues", vmin=0)
        figure.colorbar(image, ax=axes, shrink=0.7)
        step = -(-len(labels) // MAX_LABELLED)
        ticks = range(0, len(labels), step)
        axes.set_xticks(ticks, labels[::step], rotation=90)
        axes.set_yticks(ticks, labels[::step])
        axes.set_ylabel("reads")
        axes.set_xlabel("from")
        axes.set_title(title, fontsize="small")
        figure.supxlabel(CAVEAT, fontsize=6, wrap=True)
