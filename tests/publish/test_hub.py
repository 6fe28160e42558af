"""`kobert publish --push` against a stub of the Hub: a small HTTP server that answers like the Hub's API and keeps the
uploaded files."""

import base64
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kobert_pipeline.publish.hub import _explain

SECRET = "hf_test"
COMMIT = "d" * 40


@dataclass
class Hub:
    """The requests and the files received. A `status` other than 200 is the answer to everything; `there` are the files
    of an earlier upload."""

    url: str = ""
    status: int = 200
    blob_status: int = 200
    public: bool = False
    there: list[str] = field(default_factory=list)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def answer(self, method: str, path: str, token: str | None, body: bytes) -> tuple[int, Any]:
        """The status and JSON of a request."""
        given = json.loads(body) if body[:1] == b"{" and b"\n{" not in body else None
        self.asked.append((method, path, given))
        if path.startswith("/blobs/"):
            self.blobs[path.removeprefix("/blobs/")] = body
            return self.blob_status, {}
        if self.status != 200:
            return self.status, {"error": "no"}
        if token != f"Bearer {SECRET}":
            return 401, {"error": "Invalid token"}
        if path == "/api/repos/create":
            name = f"{given['organization']}/{given['name']}"
            return (409 if self.there else 200), {"url": f"{self.url}/{name}", "id": name}
        if path == "/api/validate-yaml":
            return 200, {"warnings": [], "errors": []}
        if "/preupload/" in path:
            modes = ("lfs" if one["path"].endswith(".safetensors") else "regular" for one in given["files"])
            rows = [
                {"path": one["path"], "uploadMode": mode, "shouldIgnore": False}
                for one, mode in zip(given["files"], modes, strict=True)
            ]
            return 200, {"files": rows}
        if path.endswith("/info/lfs/objects/batch"):
            rows = [
                one | {"actions": {"upload": {"href": f"{self.url}/blobs/{one['oid']}"}}} for one in given["objects"]
            ]
            return 200, {"transfer": "basic", "objects": rows}
        if "/commit/" in path:
            return self.commit([json.loads(line) for line in body.splitlines()])
        if "/tree/" in path:
            sizes = dict.fromkeys(self.there, 1) | {name: len(content) for name, content in self.files.items()}
            return 200, [{"type": "file", "path": name, "size": size, "oid": "0"} for name, size in sizes.items()]
        if method == "GET" and path.startswith("/api/models/"):
            return 200, {
                "id": "me/mood",
                "sha": COMMIT,
                "private": not self.public,
                "siblings": [{"rfilename": name} for name in [*self.there, *self.files]],
            }
        return 404, {"error": f"{method} {path}"}

    def commit(self, rows: list[dict[str, Any]]) -> tuple[int, Any]:
        """Keep the files of a commit."""
        for row in rows:
            value = row["value"]
            if row["key"] == "file":
                self.files[value["path"]] = base64.b64decode(value["content"])
            elif row["key"] == "lfsFile":
                self.files[value["path"]] = self.blobs[value["oid"]]
            elif row["key"] == "deletedFile":
                self.there.remove(value["path"])
        return 200, {"commitUrl": f"{self.url}/me/mood/commit/1", "commitOid": "1", "success": True}


@pytest.fixture
def hub() -> Iterator[Hub]:
    known = Hub()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Transfer-Encoding") == "chunked":
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            status, content = known.answer(
                self.command, self.path.partition("?")[0], self.headers.get("Authorization"), body
            )
            self.send(status, json.dumps(content).encode(), {"Content-Type": "application/json"})

        def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def fetch(self) -> None:
            """Files that were uploaded are served; whatever else is asked for is answered as JSON."""
            name = self.path.partition(f"/resolve/{COMMIT}/")[2]
            if name not in known.files:
                return self.handle_any()
            tag = sha256(known.files[name])
            return self.send(200, known.files[name], {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'})

        do_GET = do_HEAD = fetch  # noqa: N815
        do_POST = do_PUT = handle_any  # noqa: N815

        def log_message(self, *given: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    known.url = f"http://127.0.0.1:{server.server_port}"
    yield known
    server.shutdown()
    server.server_close()


@pytest.fixture
def push(tiny, hub, kobert, tmp_path, monkeypatch) -> Any:
    """`kobert publish tiny --name nsmc --push me/mood ...` against the stub, inside this process."""
    from huggingface_hub import constants

    def call(*more: str, token: str | None = SECRET, url: str | None = None, offline: bool = False) -> Any:
        monkeypatch.setattr(constants, "ENDPOINT", url or hub.url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        if token:
            monkeypatch.setenv("HF_TOKEN", token)
        return kobert(*words_of(tiny), *more)

    return call


def words_of(tiny) -> list[Any]:
    return ["publish", tiny.recipe, "--run-dir", tiny.run_dir, "--push", "me/mood", "--name", "nsmc"]


def environment(url: str, home: Path) -> dict[str, str]:
    """Environment variables under which `huggingface_hub` connects to `url` only."""
    given = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    given |= {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return given | {"HF_TOKEN": SECRET}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_exactly_the_files_of_the_manifest_are_uploaded(hub, tiny, kobert_process, tmp_path) -> None:
    """By a process of its own, which connects to the Hub that its environment names."""
    environ = environment(hub.url, tmp_path / "hf")
    result = kobert_process(*words_of(tiny), "--private", "--json", env=environ).json
    listed = json.loads((tiny.run_dir / "publish" / "nsmc" / "manifest.json").read_text())["files"]
    assert {name: sha256(content) for name, content in hub.files.items()} == {
        name: file["sha256"] for name, file in listed.items()
    }
    assert result["upload"]["url"] == f"{hub.url}/me/mood/commit/1"
    assert result["upload"]["files"] == {name: file["size"] for name, file in listed.items()}
    created = next(given for _, path, given in hub.asked if path == "/api/repos/create")
    assert (created["organization"], created["name"], created["visibility"]) == ("me", "mood", "private")


def test_what_was_pushed_gives_the_same_answers_by_its_name_on_the_hub(
    push, hub, tiny, tmp_path, monkeypatch, corpora
) -> None:
    from huggingface_hub import constants

    import kobert_pipeline

    here = kobert_pipeline.load(tiny.run_dir / "publish" / "nsmc")
    assert push().code == 0
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    # made of the address when the library is imported
    template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    there = kobert_pipeline.load("me/mood")
    assert there.folder.is_relative_to(tmp_path / "cache") and there.folder.name == COMMIT
    assert not list(there.folder.glob("*.py")), "its code is not fetched, let alone run"
    texts = ["정말 재밌다", "돈이 아깝다", "그 영화, 진짜 재밌었어요ㅋㅋ"]
    assert there.predict(texts) == here.predict(texts)
    reviews = corpora / "reviews_test.txt"
    assert there.evaluate(reviews) == here.evaluate(reviews)
    assert sha256((there.folder / "model.safetensors").read_bytes()) == sha256(hub.files["model.safetensors"])


def test_files_of_an_earlier_upload_that_would_mislead_loaders_are_deleted(push, hub) -> None:
    hub.there = ["tokenizer.json", "modules.json", "1_Pooling/config.json", "plain/old.txt", "picture.png"]
    hub.there += ["special_tokens_map.json", "added_tokens.json", "ngrams.safetensors", "ngrams/old.safetensors"]
    assert push().code == 0
    assert hub.there == ["picture.png"]
    assert "morphemes.json" in hub.files


def test_a_public_repository_is_not_taken_for_a_private_one(push, hub) -> None:
    hub.there, hub.public = ["README.md"], True
    assert "exists already and is public" in push("--private").complaint
    assert not hub.files


def test_a_dry_run_lists_the_files_and_sends_no_request(push, hub) -> None:
    result = push("--dry-run", token=None)
    assert result.code == 0, result.err
    assert "would upload to me/mood" in result.out
    assert "model.safetensors" in result.out
    assert not hub.asked


REFUSALS = {401: "hf auth login", 403: "write access", 404: "OWNER/NAME", 500: "answered 500"}


def test_what_the_hub_refuses_is_one_sentence(push, hub) -> None:
    for hub.status, message in REFUSALS.items():
        assert message in push().complaint, hub.status
        assert not hub.files, hub.status


def test_a_large_file_that_is_refused_is_one_sentence(push, hub) -> None:
    hub.blob_status = 403
    result = push()  # the client's progress bar may end after the sentence
    assert result.code == 2
    assert "write access" in result.err and "model.safetensors" in result.err and "Traceback" not in result.err
    assert not hub.files


def test_a_token_that_is_wrong_is_one_sentence(push, hub) -> None:
    assert "does not accept the token" in push(token="hf_another").complaint
    assert not hub.files


def test_without_a_token_no_request_is_sent(push, hub) -> None:
    assert "HF_TOKEN" in push(token=None).complaint
    assert not hub.asked


def test_without_a_network_is_one_sentence(push) -> None:
    assert "cannot be reached" in push(url="http://127.0.0.1:9").complaint


def test_offline_mode_is_named(push, hub) -> None:
    assert "HF_HUB_OFFLINE" in push(offline=True).complaint
    assert not hub.asked


INCOMPLETE = [
    (["--push", "me/mood"], "choose one with --name (allowed: korquad, mlm, nsmc)"),
    (["--push", "me/mood", "--name", "nsmcc"], "no checkpoint 'nsmcc'"),
    (["--push", "mood", "--name", "nsmc"], "OWNER/NAME"),
    (["--push", "me/a..b", "--name", "nsmc"], "OWNER/NAME"),
    (["--dry-run"], "add --push"),
    (["--private"], "add --push"),
]


def test_an_incomplete_command_is_refused(tiny, kobert) -> None:
    for words, message in INCOMPLETE:
        assert message in kobert("publish", tiny.recipe, "--run-dir", tiny.run_dir, *words).complaint, words


def test_data_without_a_licence_is_published_here_and_not_sent(tiny, tmp_path, kobert) -> None:
    run_dir = tiny.copy_before(tmp_path / "runs" / "tiny", "publish")
    # the source's licence is an option of the corpus, that of a task's data is not
    words = [
        "publish",
        tiny.recipe,
        "--run-dir",
        run_dir,
        "--set",
        "features.nsmc.license=null",
        "--push",
        "me/mood",
        "--dry-run",
    ]
    message = kobert(*words, "--set", "publish={mood: {source: nsmc, onnx: false}}").complaint
    assert "1 files without a stated or known licence" in message
    assert "Where no licence is stated" in (run_dir / "publish" / "mood" / "README.md").read_text(encoding="utf-8")
    permitted = kobert(*words, "--set", "publish={mood: {source: nsmc, onnx: false, permission: it is ours}}", "--redo")
    assert permitted.code == 0, permitted.err


def test_a_damaged_folder_is_not_sent(tiny, tmp_path) -> None:
    import shutil

    from kobert_pipeline.errors import UserError
    from kobert_pipeline.inference.loading import files_to_upload

    folder = Path(shutil.copytree(tiny.run_dir / "publish" / "nsmc", tmp_path / "nsmc"))
    with (folder / "README.md").open("a", encoding="utf-8") as file:
        file.write("more")
    with pytest.raises(UserError, match="damaged"):
        files_to_upload(folder)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("license:\n  unknown"), "https://hub refuses the upload (license: unknown)"),
        (OSError("no route"), "https://hub cannot be reached (OSError: no route); check the network"),
    ],
)
def test_what_the_client_refuses_is_told_from_what_the_network_does(error: Exception, said: str) -> None:
    assert _explain(SimpleNamespace(endpoint="https://hub"), error).startswith(said)
