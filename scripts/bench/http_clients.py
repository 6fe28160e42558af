"""Clients of a server in a process of their own, pinned to one core, for `serve`.

Run as a script it reads a JSON object with the arguments of `drive` from standard input and prints what that returns.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import psutil
import requests


def drive(address: str, path: str, bodies: list[str], clients: int) -> dict[str, Any]:
    """Send each of `bodies` once, from `clients` connections at a time.

    Returns the wall and CPU seconds of the clients, statuses with their numbers, and the milliseconds of requests that
    were answered with 200.
    """
    began, began_cpu, lock = time.perf_counter(), time.process_time(), threading.Lock()
    statuses: Counter[str] = Counter()
    times: list[float] = []
    waiting = iter(bodies)

    def client() -> None:
        connection = HTTPConnection(address.removeprefix("http://"), timeout=120)
        while True:
            with lock:
                body = next(waiting, None)
            if body is None:
                return
            started = time.perf_counter()
            status = _post(connection, path, body)
            seconds = time.perf_counter() - started
            with lock:
                statuses[str(status)] += 1
                times.extend([1000 * seconds] if status == 200 else [])

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "statuses": statuses,
        "milliseconds": times,
    }


def _post(connection: HTTPConnection, path: str, body: str) -> int:
    """The status of the answer, which is read; 0 where the connection failed."""
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status
    except (OSError, HTTPException):
        connection.close()
        return 0


def measure(core: int, **arguments: Any) -> dict[str, Any]:
    """`drive` in a process on this core."""
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(arguments), capture_output=True, text=True, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, [core]),
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextlib.contextmanager
def server(core: int, *arguments: str) -> Iterator[tuple[str, psutil.Process]]:
    """The address and the process of `kobert serve` with these arguments, on this core with one thread."""
    command = [str(Path(sys.executable).with_name("kobert")), "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: os.sched_setaffinity(0, [core]),
    )  # fmt: skip
    assert process.stdout
    try:
        address = process.stdout.readline().partition(": loading")[0]
        while requests.get(f"{address}/ready", timeout=60).status_code != 200:
            time.sleep(0.1)
        yield address, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def cpu_seconds(process: psutil.Process) -> float:
    """CPU seconds of a process so far, user and system."""
    times = process.cpu_times()
    return float(times.user + times.system)


def percentiles(milliseconds: list[float]) -> dict[str, float]:
    """The median and the 95th and 99th percentile."""
    ordered = sorted(milliseconds)
    return {f"p{p}": round(ordered[min(len(ordered) * p // 100, len(ordered) - 1)], 1) for p in (50, 95, 99)}


if __name__ == "__main__":
    print(json.dumps(drive(**json.load(sys.stdin))))
