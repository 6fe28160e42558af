"""What tests ask a written page."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.visualize import page

DOCUMENT = Path(__file__).with_name("document.js")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node runs the script of a page; it is missing")


class Page(HTMLParser):
    """A page's tags, its text and the data of its script."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.html = path, path.read_text(encoding="utf-8")
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(self.html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def data(self) -> Any:
        found = re.search(r'<script type="application/json" id="data">(.*?)</script>', self.html, re.S)
        assert found
        return json.loads(found[1])

    def states(self, *steps: tuple[str, Any]) -> list[Any]:
        """What the page shows at first and after each (id of a control, value)."""
        argv = ["node", str(DOCUMENT), str(self.path), json.dumps(steps)]
        return list(json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout))


def asks_no_server(found: Page) -> None:
    """Fail unless all that the page needs is in it, and a policy forbids browsers all else."""
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in found.tags}
    for tag, attributes in found.tags:
        assert not {"src", "href", "srcset", "action", "xlink:href"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
    ours = "".join(path.read_text(encoding="utf-8") for path in page.PAGES.iterdir())
    for words in ("http:", "https:", "url(", "@import", "import(", "fetch(", "XMLHttpRequest", "innerHTML", "eval("):
        assert words not in ours
    policy = next(a["content"] for _, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'; ") and "script-src 'sha256-" in policy
    assert "http" not in re.sub(r"http-equiv", "", found.html.partition('<script type="application/json"')[0])
