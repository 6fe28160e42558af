"""Whether the probabilities of answers hold: how many of the answers with a probability of 80 % are exactly right."""

from typing import Any

import numpy as np

from kobert_pipeline.features.predicted import Predicted

EDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Bounds of the intervals of probability that have a row each."""


def calibration(predicted: Predicted) -> dict[str, list[dict[str, Any]]]:
    """`calibration`, a row for each interval of probability with answers in it (Guo et al., 2017): `from` and `to`,
    the number of `answers`, their mean `probability`, and how many of them are exactly right (`exact_match`), both in
    percent. {} where answers have no probability."""
    pairs = [
        (row["probability"], predicted.task.score([prediction], [example])["exact_match"])
        for row, prediction, example in zip(
            predicted.results, predicted.predictions, predicted.features.examples, strict=True
        )
        if row.get("probability") is not None
    ]
    if not pairs:
        return {}
    probabilities, right = np.array(pairs).T
    # clipped, since a probability of 1 is in the last interval and not after it
    interval = np.clip(np.searchsorted(EDGES, probabilities, side="right") - 1, 0, len(EDGES) - 2)
    rows = [
        {
            "from": EDGES[index],
            "to": EDGES[index + 1],
            "answers": int((interval == index).sum()),
            "probability": round(100 * float(probabilities[interval == index].mean()), 2),
            "exact_match": round(float(right[interval == index].mean()), 2),
        }
        for index in np.unique(interval).tolist()
    ]
    return {"calibration": rows}
