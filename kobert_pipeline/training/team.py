"""What processes that train together tell each other outside the steps: what the first is about to make, and how it ended.

It goes through the store in which `torchrun`'s processes find each other, and not through a collective: that has a time limit, and the
first may have hundreds of gigabytes to verify before it can say anything.
"""

import json
import os
import signal
import time
from functools import cache
from typing import Any

import torch
from torch.distributed import PrefixStore, Store, rendezvous  # type: ignore[attr-defined]  # public, but not in an __all__

from kobert_pipeline.processes import Ended

POLL = 0.1
"""Seconds between two looks at the store."""
PATIENCE = 5.0
"""Seconds that the first process waits for the others to hear that it ends; those that wait for it in a step cannot."""
SETTLING = 0.2
"""Seconds that gloo's threads get to let go of the last tensors."""


class Team:
    """The processes that `torchrun` or `accelerate launch` started. The first tells; the others hear everything once, in order."""

    def __init__(self, store: Store) -> None:
        self.store, self.number = store, 0

    def tell(self, what: dict[str, Any]) -> None:
        """Of the first process: say the next thing."""
        self.store.set(f"told {self.number}", json.dumps(what))
        self.number += 1

    def hear(self) -> dict[str, Any]:
        """Of the others: wait for the next thing said. Raises `Ended` when the first process ended instead."""
        key = f"told {self.number}"
        while not self.store.check([key]):
            if (status := self.ended()) is not None and not self.store.check([key]):
                raise Ended(status)
            time.sleep(POLL)
        self.number += 1
        told: dict[str, Any] = json.loads(self.store.get(key))
        return told

    def end(self, status: int) -> None:
        """Of the first process: say that it ends before all is done, let go of the others, and wait until they know."""
        _ignore_the_launcher()
        self.store.set("ended", str(status))
        part(status)
        last, others = time.monotonic() + PATIENCE, int(os.environ["WORLD_SIZE"]) - 1
        while self.store.add("heard", 0) < others and time.monotonic() < last:
            time.sleep(POLL)

    def ended(self, patience: float = 0.0) -> int | None:
        """Of the others: the exit status of the first process, if it ends before all is done within `patience` seconds."""
        last = time.monotonic() + patience
        while not self.store.check(["ended"]):
            if time.monotonic() >= last:
                return None
            time.sleep(POLL)
        _ignore_the_launcher()
        self.store.add("heard", 1)
        status = int(self.store.get("ended"))
        part(status)
        return status


def _ignore_the_launcher() -> None:
    """It terminates all processes as soon as one has ended; this one ends by itself, with the status it should have."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@cache
def team() -> Team:
    """The team of this process, by the environment that the launcher set."""
    store, _, _ = next(iter(rendezvous("env://")))
    return Team(PrefixStore("kobert", store))


def part(status: int = 0) -> None:
    """Let go of the other processes, or gloo's threads may abort this one as it exits. Not after an error of ours (1), of which nobody
    knows what it left in the group: that could wait for ever."""
    if torch.distributed.is_initialized() and status != 1:
        torch.distributed.destroy_process_group()
        time.sleep(SETTLING)  # what a model is shared out by stays in torch's caches, and with it the group and its threads
