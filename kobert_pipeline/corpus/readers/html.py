"""HTML pages: the main text of each, without menus, scripts and comments, as trafilatura extracts it (Barbaresi, ACL
2021; optional extra `html`)."""

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import HEAD, Ordered, refuse_format
from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.encoding import MARKS, MAX_NULLS, lookup_codec
from kobert_pipeline.tables.open_text import open_binary
from kobert_pipeline.tables.unreadable import UnreadableInput

CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
DECLARATION = re.compile(r"\s*<\?xml[^>]*>")
"""An XML declaration names the encoding of the bytes, so it is wrong for decoded text."""
BULLET = re.compile(r"^\s*- ")
"""How trafilatura marks list items."""
END = re.compile(r"</(?:body|html)\s*>", re.IGNORECASE)
"""The end of a page, after which the parser would leave out any further text."""
OPENING = re.compile(r"<[a-zA-Z!]")
MISSING_LIBRARY = "the reader html requires the library trafilatura; run: pip install 'kobert-pipeline[html]'"
CHARSET_HEAD = 4096
"""Bytes that are searched for the charset of a page; browsers search a quarter of that."""
LARGEST = 20 * 2**20
"""Bytes of a page. Larger files are exports of many pages, and parsing them takes minutes."""
FORM = "//form"
MENUS = ["//nav", "//aside", "//footer", "//noscript", FORM]
"""XPaths of elements that are never main text."""
SHORTEST = 100
"""Characters from which trafilatura accepts a main text; its default is 250, but Korean needs fewer characters, and
short news would be read with everything around them."""


class Html(Ordered):
    """HTML pages, .html or .htm, plain or .gz .bz2 .xz .zst."""

    name: Literal["html"] = "html"
    encoding: str | None = None
    """Encoding of the pages; null: UTF-8 where a page is valid UTF-8, else what its meta element says (euc-kr means
    CP949, as in browsers)."""

    @property
    def files_are_documents(self) -> bool:
        """A page is a document."""
        return True

    def documents(self, path: Path) -> Iterator[Document]:
        """One document: the title and the paragraphs of the main text, a line each. Raises UnreadableInput for a page
        without text and for a file that is not a page."""
        with open_binary(path) as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UnreadableInput(
                "too_large",
                f"{path} has more than {LARGEST:,} bytes, which is no single page; save each of its pages as a file",
            )
        page = decode_page(path, content, self.encoding)
        refuse_format(path, page[:HEAD], "html")
        if not OPENING.search(page):
            raise UnreadableInput("not_html", f"{path} is not HTML, it has no tags; use the reader text")
        page = END.sub("", DECLARATION.sub("", page, count=1))
        tree = parse(path, page)
        # before `main_text`, which takes elements out of the tree
        characters_in = count_characters(tree)
        title, text = main_text(tree)
        if not text:  # pages of ASP.NET are forms as a whole; `main_text` took the forms out of the first tree
            title, text = main_text(parse(path, page), [menu for menu in MENUS if menu != FORM])
        if not text:
            raise UnreadableInput(
                "no_text", f"{path} has no text; a page that scripts fill in the browser has to be saved from there"
            )
        if title and not text.startswith(title):
            text = f"{title}\n{text}"
        yield Document(f"{path.name}#0", path.name, text, self.ordered, characters_in=characters_in)


def decode_page(path: Path, content: bytes, encoding: str | None) -> str:
    """A page as text. Raises UnreadableInput where its encoding is unknown."""
    mark = next((codec for mark, codec in MARKS.items() if content.startswith(mark)), None)
    if b"\0" in content and not (mark or encoding):
        if b"\0\0" in content or content.count(b"\0") > MAX_NULLS * len(content):
            problem = f"{path} is a binary file (it holds null bytes), a page of HTML was expected"
            raise UnreadableInput("binary", problem)
        content = content.replace(b"\0", b"")
    named = lookup_codec(path, encoding) if encoding else mark or _declared_codec(content)
    # UTF-8 before the declared charset: nothing is valid UTF-8 by chance, but declarations are often wrong
    for codec in (named,) if encoding else (mark, "utf-8", named or "cp949"):
        try:
            if codec:
                return content.decode(codec).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
    if encoding or named is None:
        what = encoding or "UTF-8 or CP949, and names no charset"
        raise UnreadableInput("encoding", f"{path} is not {what}; set the option encoding")
    return content.decode(named, "replace")  # cleaning drops the paragraphs with U+FFFD as mojibake


def _declared_codec(content: bytes) -> str | None:
    """The codec of the charset that a page declares; None where it declares none, or an unknown one."""
    charset = CHARSET.search(content[:CHARSET_HEAD])
    try:
        codec = codecs.lookup(charset[1].decode("ascii", "replace")).name if charset else None
    except LookupError:
        return None
    return "cp949" if codec == "euc_kr" else codec


def parse(path: Path, page: str) -> Any:
    """The tree of a page, None for one without elements. Raises UnreadableInput where the parser would lose text, and
    UserError where trafilatura, which brings the parser, is not installed."""
    try:
        from lxml import etree, html
    except ImportError:
        raise UserError(MISSING_LIBRARY) from None
    # huge_tree: without it, the parser leaves out what is inside 256 other elements, as many as sites forget to close
    # encoding: a meta element may still name the page's own, with which the parser would decode these bytes of UTF-8
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, huge_tree=True)
    tree = etree.fromstring(page.encode("utf-8", "replace"), parser)
    if any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log):
        problem = f"{path} has more than 2,000 elements inside each other; open it in a browser and save it as text"
        raise UnreadableInput("too_deep", problem)
    return tree


def count_characters(tree: Any) -> int:
    """The characters of the text of a page, without scripts."""
    texts = [] if tree is None else tree.xpath("//text()[not(parent::script or parent::style)]")
    return sum(len(" ".join(text.split())) + 1 for text in texts if text.strip())  # 1: its line end


def main_text(tree: Any, menus: Sequence[str] = MENUS) -> tuple[str, str]:
    """Title and main text of a page, "" where there is none; changes the tree. Raises UserError where trafilatura is
    not installed."""
    try:
        from trafilatura import extract
    except ImportError:
        raise UserError(MISSING_LIBRARY) from None
    if tree is None:
        return "", ""
    # fast: without trafilatura's fallback extractors, which rely on frequent English words
    result = extract(
        tree, output_format="json", with_metadata=True, include_comments=False,
        include_tables=False, fast=True, prune_xpath=list(menus), config=_config(),
    )  # fmt: skip
    content = json.loads(result) if result else {}
    lines = [BULLET.sub("", line).strip() for line in (content.get("text") or "").splitlines()]
    return " ".join((content.get("title") or "").split()), "\n".join(filter(None, lines))


@cache
def _config() -> Any:
    """trafilatura's settings, with our `SHORTEST`."""
    from trafilatura.settings import use_config

    config = use_config()
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", str(SHORTEST))
    return config
