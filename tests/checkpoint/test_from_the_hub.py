"""A checkpoint by its name on the Hub: fetched once, recorded, and then used offline. The server is one of this machine
with the Hub's answers."""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import constants
from layouts import made

COMMIT = "c" * 40


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The repository `some/bert` on a server of this machine; `requests` are the paths that were asked for."""
    folder = made("kcbert", tmp_path_factory.mktemp("hub"))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}

    class Handler(BaseHTTPRequestHandler):
        requests: list[str] = []

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            self.requests.append(self.path)
            status, body, headers = self.found(self.path.partition("?")[0])
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def found(self, path: str) -> tuple[int, bytes, dict[str, str]]:
            if path.startswith("/api/models/some/bert/tree/"):
                tree = [{"type": "file", "path": name, "size": len(files[name]), "oid": "0" * 40} for name in files]
                return 200, json.dumps(tree).encode(), {"Content-Type": "application/json"}
            if path.startswith("/api/models/some/bert"):
                row = {"id": "some/bert", "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
                return 200, json.dumps(row).encode(), {"Content-Type": "application/json"}
            name = path.rpartition("/")[2]
            if path.startswith("/some/bert/resolve/") and name in files:
                tag = hashlib.sha1(files[name]).hexdigest()
                return 200, files[name], {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'}
            code = "EntryNotFound" if path.startswith("/some/bert/") else "RepoNotFound"
            return 404, b"{}", {"X-Error-Code": code, "X-Repo-Commit": COMMIT}

        def log_message(self, *given: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.folder, server.requests = folder, Handler.requests  # type: ignore[attr-defined]
    yield server
    server.shutdown()
    server.server_close()


def test_a_name_on_the_hub_is_fetched_once_and_recorded_by_its_commit(
    hub: Any,
    corpora: Path,
    tmp_path: Path,
    kobert_process: Callable,
    kobert: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = {
        "checkpoint": "some/bert", "data_dir": str(corpora),
        "features": {"nsmc": {"task": "nsmc", "train": "reviews_train.txt", "max_length": 32}},
        "finetune": {"nsmc": {"plan": {"epochs": 1}}},
    }  # fmt: skip
    (tmp_path / "hub.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    address = f"http://127.0.0.1:{hub.server_address[1]}"
    online = os.environ | {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    command = ["run", "hub.yaml", "--until", "features", "--json"]
    result = kobert_process(*command, cwd=tmp_path, env=online)
    counts = result.json["stages"][0]["counts"]
    assert (counts["source"], counts["base_model"], counts["commit"]) == ("some/bert", "some/bert", COMMIT)
    assert set(counts["files_sha256"]) == {"config.json", "pytorch_model.bin", "vocab.txt", "tokenizer_config.json"}
    assert (tmp_path / "runs" / "hub" / "checkpoint" / "model" / "model.safetensors").is_file()

    asked = len(hub.requests)
    # another run finds the files where the first one put them, by the commit; this process, too, has no network
    assert constants.HF_HUB_OFFLINE
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.chdir(tmp_path)
    other = kobert(*command, "--set", f"checkpoint=some/bert@{COMMIT}", "--run-dir", "elsewhere/x")
    assert other.json["stages"][0]["counts"] == counts | {"source": f"some/bert@{COMMIT}"}
    assert [row["status"] for row in other.json["stages"]] == ["done", "done"]
    assert len(hub.requests) == asked, "no request without a network"
