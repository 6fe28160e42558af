"""A served model that tests hold and release."""

import threading
from collections.abc import Callable
from typing import Any


class HeldModel:
    """Answers /v1/tokenize while `free` is set, and records its `batches`. A text with "fail" fails its batch."""

    name, endpoints, torch_only, max_length = "held", ["/v1/tokenize"], ["/v1/attention"], 8
    paired, takes_pairs, mask_token, scores = False, False, "[MASK]", list[dict[str, Any]]()
    marked_example = None

    def __init__(self) -> None:
        self.free, self.started = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []

    def tokenize(self, texts: list[str]) -> list[dict[str, Any]]:
        self.started.set()
        assert self.free.wait(10)
        self.batches.append(texts)
        if any("fail" in text for text in texts):
            raise ValueError(texts)
        return [
            {"text": text, "tokens": [text], "input_ids": [1], "offset_mapping": [(0, len(text))]} for text in texts
        ]


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Return as soon as the condition holds; fail after some seconds."""
    ticks = threading.Event()
    for _ in range(int(seconds * 200)):
        if condition():
            return
        ticks.wait(0.005)
    raise AssertionError("it never came true")
