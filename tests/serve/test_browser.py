"""docs/browser.md: its commands make a page that judges texts in a real browser, asks nobody else, and works offline.

Skipped without Node.js, a Chromium or playwright (see test_page_in_browser.py)."""

import functools
import http.server
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import CHROMIUM

import kobert_pipeline

pytest.importorskip("playwright.sync_api", reason="pip install playwright")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None or not shutil.which("npm"), reason="there is no chromium, or no npm"),
]
TEXTS = ["배우들 연기가 정말 좋았다", "지루해서 중간에 나왔다ㅋㅋ", "1443년 세종(世宗)"]
SERVE = ["python", "-m", "http.server"]


def commands(page: Path) -> list[list[str]]:
    block = page.read_text(encoding="utf-8").partition("```console\n")[2].partition("```")[0]
    return [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]


@pytest.fixture(scope="module")
def model(repo: Path) -> Path:
    """The bundled classifier of reviews."""
    return repo / "models" / "mini-nsmc"


@pytest.fixture(scope="module")
def address(repo: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page as the guide makes it."""
    lines = commands(repo / "docs" / "browser.md")
    assert lines == commands(repo / "docs" / "ko" / "browser.md")
    assert lines[-1][:3] == SERVE
    clone = tmp_path_factory.mktemp("clone")
    shutil.copytree(repo / "docs" / "browser", clone / "docs" / "browser")
    (clone / "models").symlink_to(model.parent)
    for line in lines[:-1]:
        subprocess.run(line, cwd=clone, check=True, timeout=600, capture_output=True)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(clone / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize(("language", "heading"), [("ko-KR", "브라우저에서"), ("en-US", "judged in your browser")])
def test_the_page_judges_as_python_does_also_offline(
    language: str, heading: str, address: str, browser: Any, model: Path
) -> None:
    context = browser.new_context(locale=language)
    page, asked, failed = context.new_page(), list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url.removeprefix("blob:")))
    page.on("response", lambda response: response.ok or failed.append(response.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#scores dt", timeout=60_000)
    assert heading in page.inner_text("h1")
    context.set_offline(True)
    checkpoint = kobert_pipeline.load(model, backend="onnx-int8")
    assert len({checkpoint.predict(text)["label"] for text in TEXTS}) == 2
    for text in TEXTS:
        page.fill("#text", text)
        page.wait_for_function("text => document.querySelector('#text').value === text", arg=text)
        expected = checkpoint.predict(text)["scores"]
        page.wait_for_function(
            "expected => [...document.querySelectorAll('#scores dt')].every((name, i) => Math.abs("
            "document.querySelectorAll('#scores .number')[i].textContent - expected[name.textContent]) < 0.01)",
            arg=expected,
        )
    assert not failed and {url for url in asked if not url.startswith(address)} == set()
    context.close()
