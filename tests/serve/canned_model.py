"""Served models whose answers are known, so that what the page shows can be compared with them."""

from collections.abc import Sequence
from typing import Any

ROWS: dict[str, Any] = {
    "classify": {"label": "positive", "scores": {"negative": 0.0257, "positive": 0.9743}},
    # characters count as code points: the emoji is one, and two units of JavaScript's strings
    "answer": {"answer": "1443년", "start": 8, "end": 13, "score": 1.5},
    "tag": [
        {"start": 2, "end": 4, "text": "지호", "label": "사람", "score": 0.9},
        {"start": 6, "end": 8, "text": "강릉", "label": "<곳>", "score": 0.8},
    ],
    "fill-mask": [{"▁정말": 0.25, "너무": 0.125}],
    "attention": {
        "units": ["[CLS]", "좋", "다"],
        "weights": [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0, 1.0, 0.0]],
    },
}
LAYERS, HEADS = 4, 2


class CannedModel:
    """Answers every path with `ROWS`; with the name `pairs` it labels pairs and does nothing else."""

    max_length, longest_text, mask_token, torch_only, marked_example = 64, 64, "[MASK]", (), None

    def __init__(self, name: str, folder: str) -> None:
        self.name, self.paired = name, name == "pairs"
        self.takes_pairs = self.paired
        others = ["answer", "tag", "fill-mask", "similar", "tokenize", "attention"]
        self.endpoints = [f"/v1/{path}" for path in ["classify", *([] if self.paired else others)]]
        self.scores = [] if self.paired else [{"dataset": "nsmc (test)", "metric": "accuracy", "value": 84.73}]

    def refuse_unfit_ids(self, rows: Sequence[list[int]]) -> None:
        assert not rows, "the page sends texts"

    def example(self, text: str, pair: str | None) -> dict[str, Any]:
        return {"text": text} | ({"text_pair": pair} if pair is not None else {})

    def predict(self, examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        def row(example: dict[str, Any]) -> dict[str, Any]:
            if "context" in example:
                return {"question": example["question"], **ROWS["answer"]}
            if "entities" in example:
                return {"text": example["text"], "entities": ROWS["tag"]}
            given = {key: example[key] for key in ("text", "text_pair") if key in example}
            return given | ROWS["classify"]

        return [row(example) for example in examples]

    def fill(self, inputs: list[tuple[str, int]]) -> list[dict[str, Any]]:
        return [{"text": text, "masks": ROWS["fill-mask"]} for text, _ in inputs]

    def rank(self, rankings: Sequence[Any]) -> list[list[dict[str, Any]]]:
        return [
            [{"index": i, "score": 0.9 - 0.5 * i, "text": text} for i, text in enumerate(sorted(one.texts))]
            for one in rankings
        ]

    def tokenize(self, texts: list[str]) -> list[dict[str, Any]]:
        return [
            {"text": text, "tokens": ["[CLS]", *text], "input_ids": [2, *map(ord, text)]}
            | {"offset_mapping": [(0, 0), *((i, i + 1) for i in range(len(text)))]}
            for text in texts
        ]

    def attend(self, inputs: list[tuple[list[str], int, int | None]]) -> list[dict[str, Any]]:
        return [ROWS["attention"] | {"layers": LAYERS, "heads": HEADS, "truncated": False} for _ in inputs]
