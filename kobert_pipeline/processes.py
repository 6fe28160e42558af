"""What processes that work together need to know of each other."""

import os
import signal
import threading
from multiprocessing import parent_process


def leads() -> bool:
    """Whether this process writes files: it is alone, or the first of those that `torchrun` or `accelerate launch` started."""
    return os.environ.get("RANK", "0") == "0"


def begin_worker() -> None:
    """What every worker process does first: leave Ctrl-C, which reaches all processes of a terminal, to the process in charge, and end when
    that one does, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(1)
