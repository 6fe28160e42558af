"""Sentence vectors by layer as a page with a slider over the layers."""

from html import escape

import numpy as np

from kobert_pipeline.visualize.embeddings import LabelledTexts, Projection
from kobert_pipeline.visualize.page import page

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a6761d", "#8c6bb1")
"""Colours that the colour-blind tell apart, most of them by Okabe and Ito (2008); labels beyond them share `OTHER`."""
OTHER = "#888888"

BODY = """<h1>Sentence vectors of {name}</h1>
<p class="faint">{count:,} texts, {pooling} pooling. Each layer is {projected}, scaled to the same spread, and rotated
or mirrored onto the layer before. {warning}</p>
<div class="controls">
<label class="wide"><span id="named">Layer</span>
<input type="range" id="layer" min="0" max="{last}" value="{last}" step="1"></label>
<label class="wide">Text <select id="word" lang="ko"></select></label>
</div>
<div class="controls" id="labels" lang="ko"></div>
<p class="said" id="said" aria-live="polite" lang="ko"></p>
<div><svg id="picture" role="img" aria-label="Points, one for each text" lang="ko"></svg></div>
"""

PROJECTED = {
    "pca": (
        "projected onto its two principal components",
        "Distances between clusters may be lost in two dimensions: the share of the variance that is kept is given.",
        "of the variance in two dimensions",
    ),
    "tsne": (
        "projected by t-SNE, which starts from the layer before",
        "Neighbours are kept; sizes of clusters and distances between them mean nothing. How far neighbours can be "
        "trusted is given.",
        "trustworthiness of neighbours",
    ),
}
"""{projection: how it is made, what to beware of, and what `kept` is a share of}."""


def embeddings_page(name: str, labelled: LabelledTexts, projection: Projection, pooling: str) -> str:
    """The page of the texts and their points in every layer; the last one is shown first."""
    projected, warning, kept_of = PROJECTED[projection.kind]
    counts = labelled.counts()
    indices = {label: index for index, label in enumerate(counts)}
    data = {
        "texts": labelled.texts,
        "labels": None if labelled.labels is None else [indices[label] for label in labelled.labels],
        "names": list(counts),
        "counts": list(counts.values()),
        "colours": [COLOURS[index] if index < len(COLOURS) else OTHER for index in range(max(len(counts), 1))],
        "points": np.round(projection.points, 4).tolist(),
        "kept": np.round(projection.shares, 4).tolist(),
        "kept_of": kept_of,
    }
    body = BODY.format(
        name=escape(name), count=len(labelled.texts), pooling=pooling, last=len(projection.points) - 1,
        projected=projected, warning=warning,
    )  # fmt: skip
    return page(f"Sentence vectors of {name}", body, "embeddings.js", data)
