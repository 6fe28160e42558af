"""Ranks of one machine for tests, forked after their imports, which take many times longer than what they do."""

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable


def launch(number: int, main: Callable[[], None]) -> None:
    """Run `main` in as many ranks, with the environment that `torchrun` gives them, and exit. When one of them fails,
    the others are killed, and the exit code is 1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    running = {start(main, shared | {"RANK": rank, "LOCAL_RANK": rank}) for rank in range(number)}
    while running:
        process, status = os.wait()
        running.remove(process)
        if status:
            for other in running:
                os.kill(other, signal.SIGKILL)
            sys.exit(1)


def start(main: Callable[[], None], environment: dict[str, object]) -> int:
    """The process id of a rank."""
    if process := os.fork():
        return process
    code = 1
    try:
        os.environ |= {name: str(value) for name, value in environment.items()}
        main()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
