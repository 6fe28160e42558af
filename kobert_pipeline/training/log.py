"""Progress of a training: one JSON line per logged step, the same by trackers, and the display.

Only rank 0 writes, and nothing here is part of a result.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import SupportsFloat

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.progress import report
from kobert_pipeline.training.trackers import Tracking, finish


class Log:
    """Appends to `folder/log.jsonl` after `step` steps. `peak_flops()` gives {name of an MFU: the peak it refers to}
    and is called once, when it is first needed."""

    def __init__(
        self,
        folder: Path,
        steps: int,
        peak_flops: Callable[[], dict[str, float]] | None = None,
        tracking: Tracking | None = None,
        step: int = 0,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / "log.jsonl" if is_main_process() else Path(os.devnull)).open("a", encoding="utf-8")
        self.steps, self.started = steps, time.monotonic()
        self.last_line: tuple[int, float] | None = None  # (step, time) of the last line with a learning rate
        self.paused_seconds = 0.0
        self.peak_flops = cache(peak_flops) if peak_flops else None
        self.trackers = tracking.start(folder, step) if tracking and is_main_process() else []
        self.speed, self.shown = "", dict[str, str]()

    def step(self, step: int) -> None:
        """Show that `step` steps are done, with the latest speed, loss and evaluation."""
        notes = tuple(self.shown[name] for name in ("loss", "evaluation") if name in self.shown)
        report("training", step, self.steps, "steps", self.speed, notes, is_last=True)

    def end_early(self, step: int) -> None:
        """Show that the training ends after `step` steps."""
        self.steps = step
        self.step(step)

    def write(self, step: int, scalars: Mapping[str, SupportsFloat]) -> None:
        """Record numbers by name after `step` steps."""
        if not is_main_process():
            return
        values = {name: float(value) for name, value in scalars.items()}
        if "learning_rate" in values:  # a line about training, not about an evaluation
            values |= self._speed(step, values.pop("tokens", None), values.pop("flops", None))
        line = {"seconds": round(time.monotonic() - self.started, 2)}
        line |= {name: round(value, 6) for name, value in values.items()}
        self.file.write(json.dumps({"step": step, **line}) + "\n")
        # so that a kill loses no line, and `kobert visualize curves` can read along
        self.file.flush()
        self._show(step, values)
        for tracker in self.trackers:
            tracker.log(line, step=step)

    def _show(self, step: int, values: Mapping[str, float]) -> None:
        if "tokens_per_second" in values:
            self.speed = f"{values['tokens_per_second']:,.0f} tokens/s"
        if "loss" in values:
            self.shown["loss"] = f"loss {values['loss']:.4g}"
        elif values:  # an evaluation, whose first number is the loss or the score that selects
            name, value = next(iter(values.items()))
            self.shown["evaluation"] = f"{name.replace('_', ' ')} {value:.4g}"
        self.step(step)

    @contextmanager
    def paused_timer(self) -> Iterator[None]:
        """Time spent in this context (an evaluation, a checkpoint) does not count in the training's speed."""
        paused = time.monotonic()
        try:
            yield
        finally:
            self.paused_seconds += time.monotonic() - paused

    def _speed(self, step: int, tokens: float | None, flops: float | None) -> dict[str, float]:
        """Tokens per second since the last training line, MFU and the minutes left. `tokens` and `flops`: the means of
        a step."""
        now, last = time.monotonic() - self.paused_seconds, self.last_line
        self.last_line = (step, now)
        if last is None or step <= last[0]:
            return {}
        seconds_per_step = (now - last[1]) / (step - last[0])
        speed = {} if tokens is None else {"tokens_per_second": tokens / seconds_per_step}
        if flops and self.peak_flops:
            speed |= {name: flops / seconds_per_step / peak for name, peak in self.peak_flops().items()}
        return {**speed, "minutes_left": seconds_per_step * (self.steps - step) / 60}

    def close(self) -> None:
        """Close the file and the trackers, after writing what they have."""
        self.file.close()
        finish(self.trackers)


def quiet_transformers() -> None:
    """Switch off load reports and progress bars of `transformers`, which would warn that the head is newly
    initialised, as it should be."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
