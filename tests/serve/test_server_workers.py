"""Several processes that serve: one that is killed is replaced, and the metrics are those of all."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from kobert_pipeline.serve.metrics import FOLDER, forget_dead_processes


def ready(process: subprocess.Popen[str]) -> tuple[str, int]:
    """The address and the process of the next worker that is ready."""
    assert process.stdout
    line = process.stdout.readline()
    found = re.fullmatch(r"(http://127\.0\.0\.1:\d+): worker (\d+) ready: mood \(/v1/classify, .*\)\n", line)
    assert found, line
    return found[1], int(found[2])


def classify(address: str) -> int:
    return requests.post(f"{address}/v1/classify", json={"input": "정말 재밌다"}, timeout=60).status_code


def wait_until_counted(address: str, number: int) -> None:
    """Return when `number` requests are counted and no text waits: a worker counts a moment after its answer."""
    deadline = time.monotonic() + 30
    while True:
        metrics = requests.get(f"{address}/metrics", timeout=10).text
        counted = f'kobert_requests_total{{path="/v1/classify",status="200"}} {number}.0' in metrics
        if counted and re.search(r"^kobert_waiting_inputs 0\.0$", metrics, re.M):
            return
        assert time.monotonic() < deadline, metrics
        time.sleep(0.1)


@pytest.mark.slow
def test_the_service_survives_a_killed_worker(tiny: Any, start_kobert: Any, kobert: Any, tmp_path: Path) -> None:
    folder, texts, index = tiny.run_dir / "publish" / "nsmc", tmp_path / "texts.txt", tmp_path / "index"
    texts.write_text("정말 재밌다\n지루하다", encoding="utf-8")
    assert kobert("index", folder, texts, "--out", index).code == 0
    process = start_kobert("serve", f"mood={folder}", "--port", 0, "--workers", 2, "--index", index)
    assert ": loading mood" in process.stdout.readline()
    (address, first), (_, second) = ready(process), ready(process)
    assert {classify(address) for _ in range(20)} == {200}
    wait_until_counted(address, 20)
    os.kill(first, signal.SIGKILL)
    assert {classify(address) for _ in range(20)} == {200}, "the other answers"
    _, third = ready(process)
    assert len({first, second, third, process.pid}) == 4
    assert {classify(address) for _ in range(20)} == {200}
    wait_until_counted(address, 60)
    for _ in range(4):
        found = requests.post(f"{address}/v1/similar", json={"query": "재미", "by": "hybrid"}, timeout=60).json()
        assert len(found["data"]) == 2, "every worker has the index"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    for worker in (second, third):
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


@pytest.mark.slow
def test_a_worker_that_cannot_start_ends_the_server(tmp_path: Path, start_kobert: Any) -> None:
    process = start_kobert("serve", tmp_path, "--port", 0, "--workers", 2)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 2 and "ready" not in printed
    assert "is not a published checkpoint" in printed and "a worker could not load the models" in printed


def test_metrics_of_processes_are_added_up_and_those_of_the_dead_do_not_wait(tmp_path: Path) -> None:
    script = (
        "from kobert_pipeline.serve.metrics import Metrics\n"
        "metrics = Metrics()\n"
        "metrics.queue_length = lambda: 3\n"
        "metrics.on_response('/v1/tag', 200, 0.1)\n"
        "print(metrics.text().decode())\n"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {FOLDER: str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert [re.findall(r"^kobert_requests_total\{.*\} (.*)$", text, re.M) for text in texts] == [["1.0"], ["2.0"]]
    assert [re.findall(r"^kobert_waiting_inputs (.*)$", text, re.M) for text in texts] == [["3.0"], ["3.0"]]


@pytest.mark.parametrize(("error", "left"), [(ProcessLookupError, False), (PermissionError, False), (None, True)])
def test_a_number_that_now_is_anothers_process_is_that_of_a_dead_worker(
    error: type[OSError] | None, left: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (4242, 0)
        if error:
            raise error

    monkeypatch.setattr(os, "kill", kill)
    (tmp_path / "gauge_livesum_4242.db").touch()
    forget_dead_processes(tmp_path)
    assert (tmp_path / "gauge_livesum_4242.db").exists() == left


def test_two_workers_may_forget_a_third_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, remove = tmp_path / "gauge_livesum_4242.db", os.remove

    def kill(pid: int, number: int) -> None:
        raise ProcessLookupError

    def after_another(path: str) -> None:
        remove(path)
        remove(path)  # it is gone: FileNotFoundError

    dead.touch()
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(os, "remove", after_another)
    forget_dead_processes(tmp_path)
    assert not dead.exists()
