"""Counts and times for Prometheus, about requests and batches; no label holds anything that a client chose.

Where several processes serve, they share a folder, `FOLDER` in their environment, and each answers with the sums of
all of them. prometheus_client looks for it when it is imported.
"""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = tuple(2**power for power in range(12))
TOKENS = tuple(2**power for power in range(4, 18, 2))


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        # not the global one, in which a second server of this process would register the same names: an error
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("kobert_requests", "Requests", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            "kobert_request_seconds", "Time to answer a request", ["path"], buckets=SECONDS, registry=registry
        )
        self.batch_inputs = Histogram("kobert_batch_inputs", "Texts per batch", buckets=SIZES, registry=registry)
        self.batch_tokens = Histogram("kobert_batch_tokens", "Tokens per batch", buckets=TOKENS, registry=registry)
        self.batch_seconds = Histogram(
            "kobert_batch_seconds", "Time to compute a batch", buckets=SECONDS, registry=registry
        )
        self.waiting = Gauge("kobert_waiting_inputs", "Texts that wait", registry=registry, multiprocess_mode="livesum")
        self.queue_length: Callable[[], int] = lambda: 0
        """The number of texts that wait."""
        self.paths: Collection[str] = ()
        """The paths that are labels; all others are `other`."""

    def on_response(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        label = path if path in self.paths else "other"
        self.requests.labels(label, str(status)).inc()
        self.seconds.labels(label).observe(seconds)
        self.waiting.set(self.queue_length())  # for the other processes, which cannot ask

    def on_batch(self, inputs: int, tokens: int, seconds: float) -> None:
        """Count a computed batch."""
        self.batch_inputs.observe(inputs)
        self.batch_tokens.observe(tokens)
        self.batch_seconds.observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        self.waiting.set(self.queue_length())
        folder = os.environ.get(FOLDER)
        if not folder:
            return generate_latest(self.registry)
        forget_dead_processes(Path(folder))
        registry = CollectorRegistry()
        MultiProcessCollector(registry, folder)
        return generate_latest(registry)


def forget_dead_processes(folder: Path) -> None:
    """Drop what processes that were killed had waiting."""
    # asked at each scrape, since uvicorn's supervisor calls nothing of ours when a worker dies
    for path in folder.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        try:
            # signal 0 only asks whether there is such a process
            os.kill(pid, 0)
        except (ProcessLookupError, PermissionError):  # the latter: another user's process has its number now
            # another worker may answer a scrape, too, and delete the same files
            with suppress(FileNotFoundError):
                mark_process_dead(pid, str(folder))
