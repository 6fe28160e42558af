"""Progress: a JSON line per logged step, a line on stderr, and TensorBoard where it is installed. Never part of a
result. Of several processes one writes."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, SupportsFloat

from kobert_pipeline.distributed import is_main_process


class Log:
    """Appends to `folder/log.jsonl`."""

    def __init__(self, folder: Path, steps: int, name: str, peak: Callable[[], float] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / "log.jsonl" if is_main_process() else Path(os.devnull)).open("a", encoding="utf-8")
        self.steps, self.name, self.began = steps, name, time.monotonic()
        self.last: tuple[int, float] | None = None
        self.resting = 0.0
        self.peak = cache(peak) if peak else None
        self.writer = _tensorboard(folder) if is_main_process() else None

    def write(self, step: int, given: Mapping[str, SupportsFloat]) -> None:
        """Record numbers by name after `step` steps."""
        if not is_main_process():
            return
        values = {name: float(value) for name, value in given.items()}
        if "learning_rate" in values:
            values |= self._speed(step, values.pop("tokens", None), values.pop("flops", None))
        rounded = {name: round(value, 6) for name, value in values.items()}
        self.file.write(
            json.dumps({"step": step, "seconds": round(time.monotonic() - self.began, 2), **rounded}) + "\n"
        )
        self.file.flush()
        shown = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        print(f"{self.name} {step}/{self.steps}  {shown}", file=sys.stderr, flush=True)
        if self.writer:
            for name, value in values.items():
                self.writer.add_scalar(name, value, step)

    @contextmanager
    def paused_timer(self) -> Iterator[None]:
        """What is done meanwhile (an evaluation, a checkpoint) is no training, and does not count against its speed."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.resting += time.monotonic() - began

    def _speed(self, step: int, tokens: float | None, flops: float | None) -> dict[str, float]:
        """Tokens a second since the last line of its kind (`tokens`: the mean of a step), what share its arithmetic
        (`flops`) is of the `peak` a second (MFU, Chowdhery et al. 2022), and minutes to the end at that pace."""
        now, last = time.monotonic() - self.resting, self.last
        self.last = (step, now)
        if last is None or step <= last[0]:
            return {}
        pace = (now - last[1]) / (step - last[0])
        speed = {} if tokens is None else {"tokens_per_second": tokens / pace}
        if flops and self.peak:
            speed["mfu"] = flops / pace / self.peak()
        return {**speed, "minutes_left": pace * (self.steps - step) / 60}

    def close(self) -> None:
        """Flush and close."""
        self.file.close()
        if self.writer:
            self.writer.close()


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder))


def quiet_transformers() -> None:
    """No load reports and weight bars from transformers: a new head is meant to be new."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
