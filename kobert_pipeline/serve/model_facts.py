"""What the page shows of a checkpoint besides its answers: the scores on its card, and its attention."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

MAX_TOKENS = 128
"""Longer texts are truncated: their lines could not be told apart."""
MAX_SCORES = 10
"""How many scores of a model card are shown."""
CARD = "README.md"


def card_scores(folder: Path) -> list[dict[str, Any]]:
    """The scores of the weights in `folder` that its model card gives as `model-index`: {dataset, metric, value}. []
    where it gives none: the card may be anybody's, and hold anything."""
    try:
        metadata = (folder / CARD).read_text(encoding="utf-8").split("---\n")[1]
        results = yaml.safe_load(metadata)["model-index"][0]["results"]
        scores: list[dict[str, Any]] = [
            {
                "dataset": str(result["dataset"]["name"])[:80],
                "metric": str(metric.get("name") or metric["type"])[:80],
                # of several trainings, the one whose weights are served
                "value": float((metric.get("args") or {}).get("these_weights", metric["value"])),
            }
            # only so many: aliases can make a short file endless
            for result in results[:MAX_SCORES]
            for metric in result["metrics"][:MAX_SCORES]
        ]
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, yaml.YAMLError):
        return []
    return [score for score in scores if math.isfinite(score["value"])][:MAX_SCORES]


def attention_row(
    name: str, model: Any, tokenizer: Any, texts: Sequence[str], layer: int, head: int | None
) -> dict[str, Any]:
    """The attention of a text or pair between its morphemes, as JSON values. Raises UserError for a text without
    tokens, and where the model has no such layer or head."""
    from kobert_pipeline.visualize.attention import Attention  # torch

    attention = Attention.of(name, model, tokenizer, texts, MAX_TOKENS)
    matrix = attention.matrix(*attention.choose(layer, head), "morphemes")
    layers, heads, *_ = attention.weights.shape
    return {
        "units": [unit.label for unit in attention.units["morphemes"]],
        "weights": [[round(weight, 4) for weight in row] for row in matrix.tolist()],
        "layers": layers,
        "heads": heads,
        "truncated": attention.truncated,
    }
