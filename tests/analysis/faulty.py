"""A segmenter that crashes or hangs like native analyzers on absurd input; a module of its own, since workers import
it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from kobert_pipeline.morphemes.segmenter import Segmenter


@dataclass(frozen=True)
class FaultySegmenter:
    """Splits at white space, but a text with 죽는다 kills the process, one with 멈춘다 hangs it, and one with 거절한다
    is refused."""

    def segment(self, texts, num_workers=None):
        for text in texts:
            if "죽는다" in text:
                os.kill(os.getpid(), signal.SIGKILL)
            if "멈춘다" in text:
                time.sleep(1000)
            if "거절한다" in text:
                raise RuntimeError("not this one")
            yield from Segmenter("whitespace").segment([text])


@dataclass(frozen=True)
class DiesAtItsFirstStart(FaultySegmenter):
    """The first process that loads it is killed, as by a machine without memory."""

    started: Path

    def segment(self, texts, num_workers=None):
        if not self.started.exists():
            self.started.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from super().segment(texts)
