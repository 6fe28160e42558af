"""HTML pages that are one file each and ask no server for anything: styles, script and data are inside.

Texts may come from anybody. They are escaped, and the page's policy runs no script but ours, known by its SHA-256.
"""

import hashlib
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any

from kobert_pipeline.files import SURROGATES, atomic_write, json_text, refuse_unwritable

PAGES = Path(__file__).parent / "pages"
SUFFIX = ".html"


def label_of(folder: Path) -> str:
    """A short name of a checkpoint: the end of its path, long enough to tell the checkpoints of runs apart."""
    return "/".join(folder.parts[-3:]).lstrip("/")


def page(title: str, body: str, script: str | None = None, data: Any = None) -> str:
    """A page with a `body` in HTML. `script` is the name of a file in `pages/`, which finds the JSON of `data` in the
    element of that id."""
    style = (PAGES / "page.css").read_text(encoding="utf-8")
    code = f"\n{(PAGES / script).read_text(encoding='utf-8')}" if script else ""
    # of the whole content of the script element, of which browsers hash every byte
    digest = b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    # </script> in a text would end the element
    content = json_text(data).replace("<", r"\u003c") if script else ""
    scripts = f'<script type="application/json" id="data">{content}</script>\n<script>{code}</script>' if script else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
{scripts}
</body>
</html>
"""


def write_page(path: Path, content: str) -> None:
    """Write a page to a new file. Raises UserError where it exists."""
    refuse_unwritable(path, "--out", (SUFFIX,))
    with atomic_write(path) as part:
        part.write_text(SURROGATES.sub("\ufffd", content), encoding="utf-8")


def options(choices: dict[Any, str], chosen: Any) -> str:
    """The <option> elements of a <select>: {value: text}."""
    return "".join(
        f'<option value="{escape(str(value))}"{" selected" if value == chosen else ""}>{escape(text)}</option>'
        for value, text in choices.items()
    )
