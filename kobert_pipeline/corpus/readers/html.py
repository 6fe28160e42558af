"""HTML pages: the main text of each, without menus, scripts and readers' comments, as trafilatura finds it (Barbaresi,
ACL 2021; optional extra `html`)."""

import codecs
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.encoding import MARKS
from kobert_pipeline.corpus.open_text import open_binary
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Unfit
from kobert_pipeline.errors import UserError

CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
DECLARATION = re.compile(r"\s*<\?xml[^>]*>")
"""Says the encoding of bytes, which text has no more."""
BULLET = re.compile(r"^\s*- ")
"""How trafilatura writes the beginning of a list's entry."""
TAG = re.compile(r"<[a-zA-Z!]")
HEAD = 4096
"""Bytes in which a page says its charset; browsers look at a quarter of them."""
LARGEST = 20 * 2**20
"""Bytes of a page. What is larger is an export of many pages, and takes minutes to take apart."""
MENUS = ["//nav", "//aside", "//footer", "//noscript", "//form"]
"""What is no text of a page, also where its main text is hard to find."""
SHORTEST = 100
"""Characters from which trafilatura trusts what it took for the main text. It trusts 250 by default, but Korean says
more in a character: short news would be read with everything around them."""


class Html(Reader):
    """HTML pages, .html or .htm, plain or .gz .bz2 .xz .zst."""

    name: Literal["html"] = "html"
    encoding: str | None = None
    """Encoding of the pages; null: UTF-8 where a page is that, else what its meta element says (euc-kr means CP949, as
    in browsers)."""
    ordered: bool = True
    """Whether the order of paragraphs means anything."""

    def documents(self, path: Path) -> Iterator[Document]:
        """The title and the paragraphs of the main text, a line each. Raises Unfit for a page without text, and for
        what is no page."""
        with open_binary(path) as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise Unfit(
                "too_large",
                f"{path} has more than {LARGEST:,} bytes, which is no single page; save its pages as files of their "
                "own",
            )
        page = decode_page(path, content, self.encoding)
        if not TAG.search(page):
            raise Unfit("not_html", f"{path} is not HTML, it has no tags; read it by the reader text")
        title, text = main_text(page)
        if not text:
            raise Unfit(
                "no_text", f"{path} has no text; a page that scripts make in the browser has to be saved from there"
            )
        whole = text if not title or text.startswith(title) else f"{title}\n{text}"
        yield Document(f"{path.name}#0", path.name, whole, self.ordered)


def decode_page(path: Path, content: bytes, encoding: str | None) -> str:
    """A page as text. What is UTF-8 is never UTF-8 by chance, whereas what a page says of itself may be wrong. Raises
    Unfit."""
    mark = next((codec for mark, codec in MARKS.items() if content.startswith(mark)), None)
    if b"\0" in content and not (mark or encoding):
        raise Unfit("binary", f"{path} is a binary file (it holds null bytes), a page of HTML was expected")
    named = encoding or mark or _declared_codec(content)
    for codec in (encoding,) if encoding else (mark, "utf-8", named or "cp949"):
        try:
            if codec:
                return content.decode(codec).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
        except LookupError:
            raise UserError(
                f"{path}: there is no encoding {encoding!r}; write for example utf-8, cp949 or utf-16"
            ) from None
    if encoding or named is None:
        what = encoding or "UTF-8 or CP949, and names no charset"
        raise Unfit("encoding", f"{path} is not {what}; say what it is in by the option encoding")
    return content.decode(named, "replace")  # the paragraphs that lost a character are dropped as mojibake


def _declared_codec(content: bytes) -> str | None:
    """The codec of the charset that a page names; None where it names none that is known."""
    found = CHARSET.search(content[:HEAD])
    try:
        codec = codecs.lookup(found[1].decode("ascii", "replace")).name if found else None
    except LookupError:
        return None
    return "cp949" if codec == "euc_kr" else codec


def main_text(page: str) -> tuple[str, str]:
    """Title and main text of a page, both "" where there is none. Raises UserError where trafilatura is not
    installed."""
    try:
        from trafilatura import extract
    except ImportError:
        raise UserError(
            "the reader html needs the library trafilatura; run: pip install 'kobert-pipeline[html]'"
        ) from None
    # fast: without its second opinions, which know the commonest words of English
    told = extract(
        DECLARATION.sub("", page, count=1), output_format="json", with_metadata=True, include_comments=False,
        include_tables=False,
        fast=True, prune_xpath=MENUS, config=_config(),
    )  # fmt: skip
    found = json.loads(told) if told else {}
    lines = [BULLET.sub("", line).strip() for line in (found.get("text") or "").splitlines()]
    return " ".join((found.get("title") or "").split()), "\n".join(filter(None, lines))


@cache
def _config() -> Any:
    """trafilatura's settings, with `SHORTEST` for its own."""
    from trafilatura.settings import use_config

    config = use_config()
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", str(SHORTEST))
    return config
