"""A real `kobert serve` process: its start, its limits over a socket, its end, and what it prints."""

import gc
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import uvicorn.supervisors
from held_model import HeldModel
from starlette.testclient import TestClient
from uvicorn.config import STARTUP_FAILURE

from kobert_pipeline.cli.serve import by_name
from kobert_pipeline.errors import UserError
from kobert_pipeline.serve import metrics, server
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.server import keep_what_is_loaded
from kobert_pipeline.serve.service import Service

SECRET = "비밀스러운 글"


def ready(process: subprocess.Popen[str]) -> str:
    """The address that a server prints, once it is ready."""
    assert process.stdout
    line = process.stdout.readline()
    match = re.fullmatch(r"(http://127\.0\.0\.1:\d+): loading mood\n", line)
    assert match, line
    until = time.monotonic() + 120
    while requests.get(f"{match[1]}/ready", timeout=10).status_code != 200:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    return match[1]


def endless_upload(address: str, *headers: str) -> str:
    """The answer to a body without an end, in chunks."""
    host, port = address.removeprefix("http://").split(":")
    lines = ["POST /v1/classify HTTP/1.1", "Host: x", "Content-Type: application/json", "Transfer-Encoding: chunked"]
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall("\r\n".join([*lines, *headers, "", ""]).encode())
        for _ in range(4 * 2**20 // 65_536 + 1):
            connection.sendall(chunk)
        answer = b""
        while b"}}" not in answer and (more := connection.recv(65_536)):
            answer += more
        return answer.decode()


def test_a_server_from_start_to_end(tiny: Any, tmp_path: Path, start_kobert: Any) -> None:
    key = tmp_path / "key"
    key.write_text("right-key\n", encoding="utf-8-sig")  # as Notepad saves it
    folder = tiny.run_dir / "publish" / "nsmc"
    process = start_kobert("serve", f"mood={folder}", "--port", 0, "--api-key-file", key, "--max-batch-tokens", 64)
    address = ready(process)
    headers = {"Authorization": "Bearer right-key"}

    assert requests.post(f"{address}/v1/classify", json={"input": "a"}, timeout=10).status_code == 401
    wrong = requests.post(f"{address}/v1/classify", json={"input": [SECRET, 5]}, headers=headers, timeout=10)
    assert wrong.status_code == 422 and "server" not in wrong.headers
    assert endless_upload(address).startswith("HTTP/1.1 401 ")
    refused = endless_upload(address, "Authorization: Bearer right-key")
    assert refused.startswith("HTTP/1.1 413 ") and "request_too_large_error" in refused

    connections = [HTTPConnection(address.removeprefix("http://"), timeout=60) for _ in range(8)]
    for number, connection in enumerate(connections):
        body = json.dumps({"input": [f"{SECRET} {number}"] * 200})
        connection.request("POST", "/v1/classify", body, headers | {"Content-Type": "application/json"})
    metrics = requests.get(f"{address}/metrics", headers=headers, timeout=10).text
    assert re.search(r"kobert_waiting_inputs [1-9]", metrics), "all requests have arrived, and not all are answered"
    process.send_signal(signal.SIGTERM)
    for number, connection in enumerate(connections):
        answer = connection.getresponse()
        assert answer.status == 200
        rows = json.loads(answer.read())["data"]
        assert [row["text"] for row in rows] == [f"{SECRET} {number}"] * 200
        connection.close()
    assert process.wait(30) == 0
    printed = process.stdout.read()
    assert re.fullmatch(rf"{address}: ready: mood \(/v1/classify, .*\)\n", printed), printed
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{address}/health", timeout=10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_stops_while_it_loads(
    number: signal.Signals, kobert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, stopped = signal.getsignal(number), threading.Event()

    def load(*given: str) -> None:
        os.kill(os.getpid(), number)
        assert stopped.wait(10)

    close = Service.close
    monkeypatch.setattr("kobert_pipeline.serve.model.ServedModel", load)
    monkeypatch.setattr(Service, "close", lambda self: (stopped.set(), close(self)))
    result = kobert("serve", tmp_path, "--port", 0)
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n") == 1 and ": loading " in result.out, "it never became ready"
    assert signal.getsignal(number) is before


def test_a_server_that_cannot_start_says_why(tiny: Any, kobert: Any, tmp_path: Path) -> None:
    folder = tiny.run_dir / "publish" / "nsmc"
    complaint = kobert("serve", "mood=gone", "--port", 0).complaint
    assert "mood does not load: gone is neither a folder (looked for in " in complaint
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"")
    assert "model.safetensors" in kobert("serve", folder, damaged, "--port", 0).complaint
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        complaint = kobert("serve", folder, "--port", port).complaint
    assert f"127.0.0.1 port {port}: Address already in use; choose another --host or --port" in complaint
    assert "choose another --host" in kobert("serve", folder, "--host", "no such host").complaint
    (tmp_path / "key").write_text("\n")
    assert "one line with the key was expected" in kobert("serve", folder, "--api-key-file", tmp_path / "key").complaint
    assert "two checkpoints are called nsmc" in kobert("serve", folder, f"nsmc={damaged}").complaint


def test_the_body_of_an_answer_does_not_wait_until_its_headers_are_acknowledged() -> None:
    """Which would take 40 ms for each request of a connection but the first."""
    with (
        server.listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()[:2]),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_what_is_loaded_is_no_work_for_the_garbage_collector() -> None:
    tracked = len(gc.get_objects())
    try:
        keep_what_is_loaded()
        assert len(gc.get_objects()) < tracked / 10
    finally:
        gc.unfreeze()


def test_checkpoints_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("mood", "a=b"):
        Path(folder).mkdir()
    assert by_name(["./mood/", "good=mood", "x=a=b", "klue/bert-base@main", "hub=klue/bert-base"]) == {
        "mood": "./mood/", "good": "mood", "x": "a=b", "klue/bert-base@main": "klue/bert-base@main",
        "hub": "klue/bert-base",
    }  # fmt: skip
    for given in ("a=b", "=mood", "two words=mood"):
        with pytest.raises(UserError, match="is not a name"):
            by_name([given])


@pytest.mark.parametrize(
    ("host", "key", "warns"), [("127.0.0.1", None, False), ("0.0.0.0", b"key", False), ("0.0.0.0", None, True)]
)
def test_an_address_that_anybody_may_use_is_warned_of(
    host: str, key: bytes | None, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with server.begun({"mood": "folder"}, host, 0, key):
        assert ("whoever reaches this address may use it" in capsys.readouterr().out) == warns


@pytest.mark.parametrize(("exit_code", "fails"), [(0, False), (-9, False), (STARTUP_FAILURE, True)])
def test_workers_count_in_one_folder_and_one_that_cannot_load_ends_the_server(
    exit_code: int, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a supervisor that starts no process."""
    seen = list[Any]()

    class Supervisor:
        processes = (SimpleNamespace(exitcode=0), SimpleNamespace(exitcode=exit_code))

        def __init__(self, config: Any, sockets: list[socket.socket]) -> None:
            seen.extend([config.workers, len(sockets)])

        def run(self) -> None:
            seen.append(Path(os.environ[metrics.FOLDER]))
            assert seen[-1].is_dir()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    monkeypatch.setattr(uvicorn.supervisors, "Multiprocess", Supervisor)
    before = signal.getsignal(signal.SIGTERM)
    refusal = pytest.raises(UserError, match="a worker could not load the models") if fails else nullcontext()
    with refusal:
        server.serve({"mood": "folder"}, "127.0.0.1", 0, Limits(), None, workers=2)
    assert seen[:2] == [2, 1]
    assert metrics.FOLDER not in os.environ and not seen[2].exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_worker_answers_once_its_models_are_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    model = HeldModel()
    model.free.set()
    try:
        with TestClient(
            server.worker_app("http://x", {"held": "folder"}, Limits(), None, lambda *_: model)  # type: ignore[arg-type]
        ) as client:
            assert client.post("/v1/tokenize", json={"input": "글"}).status_code == 200
    finally:
        gc.unfreeze()
    assert f"http://x: worker {os.getpid()} ready: held (/v1/tokenize)\n" in capsys.readouterr().out


@pytest.mark.parametrize("error", [UserError("no such folder"), ZeroDivisionError("no such number")])
def test_a_worker_that_cannot_load_says_why_and_tells_the_supervisor(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*_: str) -> Any:
        raise error

    monkeypatch.setattr(os, "_exit", sys.exit)
    app = server.worker_app("http://x", {"mood": "folder"}, Limits(), None, load)
    with pytest.raises(SystemExit) as stop:
        app.state.service._run()
    assert stop.value.code == STARTUP_FAILURE
    assert str(error) in capsys.readouterr().err


def test_a_server_without_its_libraries_says_how_to_install_them(kobert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kobert_pipeline.serve.server", None)
    assert "is not installed; run: pip install 'kobert-pipeline[serve]'" in kobert("serve", "mood").complaint
