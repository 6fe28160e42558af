"""A local HTTP server whose answers a test chooses, since no test may ask the network."""

import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kobert_pipeline.download import fetch


@dataclass
class Page:
    """What the server answers at a path."""

    content: bytes = b""
    status: int = 200
    etag: str | None = '"1"'
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    """Whether it honours Range and If-Range."""
    breaks: list[int] = field(default_factory=list)
    """After how many bytes each of the next answers breaks off."""


@dataclass
class Server:
    """Pages by path, and the requests that came: (path, Range)."""

    url: str = ""
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def answer(self, path: str, given: Any) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and bytes."""
        page = self.pages.get(path, Page(status=404))
        headers = {"ETag": page.etag} if page.etag else {}
        wanted = re.fullmatch(r"bytes=(\d+)-", given.get("Range") or "")
        if wanted and page.ranges and given.get("If-Range") in (None, page.etag):
            begin, total = int(wanted[1]), len(page.content)
            if begin >= total:
                return 416, headers | {"Content-Range": f"bytes */{total}", "Content-Length": "0"}, b""
            headers |= {"Content-Range": f"bytes {begin}-{total - 1}/{total}"}
            return 206, headers | {"Content-Length": str(total - begin)} | page.headers, page.content[begin:]
        return page.status, headers | {"Content-Length": str(len(page.content))} | page.headers, page.content


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(fetch, "PAUSES", (0, 0, 0))
    monkeypatch.setattr(fetch, "CHUNK", 10)
    known = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked.append((self.path, self.headers.get("Range")))
            status, headers, content = known.answer(self.path, self.headers)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            page = known.pages.get(self.path)
            if page and page.breaks and self.command == "GET":
                content = content[: page.breaks.pop(0)]
                self.close_connection = True
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *given: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    known.url = f"http://127.0.0.1:{httpd.server_port}"
    yield known
    httpd.shutdown()
    httpd.server_close()


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_sha1_of(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
