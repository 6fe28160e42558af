"""The machine of a measurement, and the cost of a child process: shared by the benchmarks in this folder."""

import json
import os
import platform
import resource
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def describe_machine(*libraries: str) -> dict[str, Any]:
    """Command, commit, machine, date and versions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")
    words = ["DATA" if Path(word).is_dir() else Path(word).name for word in sys.argv[1:-1]]
    return {
        "command": " ".join([f"scripts/bench/{Path(sys.argv[0]).name}", *words]),
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": model or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {name: _version(name) for name in ("kobert-pipeline", *libraries)},
    }


def _commit() -> str:
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # run from a folder
        return "not installed"


def watched(command: list[str], **options: Any) -> dict[str, float]:
    """Run `command` to its end; returns wall seconds, CPU seconds of it and its children, and the peak of their memory
    (PSS, MiB)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(command, **options)
    peak = [0.0]
    watcher = threading.Thread(target=_watch, args=(process.pid, peak), daemon=True)
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - began
    watcher.join()
    if code:
        sys.exit(f"{' '.join(command)} ended with {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), "peak_mib": round(peak[0], 1)}


def _watch(pid: int, peak: list[float]) -> None:
    """Track the peak memory of a process and its children, as PSS, which divides shared pages among processes."""
    import psutil  # not installed everywhere where steps are measured

    while psutil.pid_exists(pid):
        total = 0
        try:
            root = psutil.Process(pid)
            if root.status() == psutil.STATUS_ZOMBIE:
                return
            for one in [root, *root.children(recursive=True)]:
                try:
                    total += one.memory_full_info().pss
                except psutil.Error:
                    continue
        except psutil.Error:
            return
        peak[0] = max(peak[0], total / 2**20)
        time.sleep(0.5)


def report(found: dict[str, Any], out: str) -> None:
    """Print and write."""
    text = json.dumps(found, ensure_ascii=False, indent=1)
    print(text)
    Path(out).write_text(text + "\n", encoding="utf-8")
