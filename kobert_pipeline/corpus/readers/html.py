"""HTML pages: the main text of each, without menus, scripts and comments, as trafilatura extracts it (Barbaresi, ACL
2021; optional extra `html`)."""

import codecs
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.reader import HEAD, Reader, refuse_format
from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.encoding import MARKS, MAX_NULLS, lookup_codec
from kobert_pipeline.tables.file_type import TAG
from kobert_pipeline.tables.open_text import open_binary
from kobert_pipeline.tables.unreadable import UnreadableInput

CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
DECLARATION = re.compile(r"\s*<\?xml[^>]*>")
"""An XML declaration names the encoding of the bytes, so it is wrong for decoded text."""
BULLET = re.compile(r"^\s*- ")
"""How trafilatura marks list items."""
END = re.compile(r"</(?:body|html)\s*>", re.IGNORECASE)
OPENING = re.compile(r"<[a-zA-Z!]")
ANY_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|<(?P<raw>script|style|textarea)\b.*?(?:</(?P=raw)\s*>|\Z)|"
    r"<(?P<slash>/?)(?P<name>[a-zA-Z][\w:-]*)(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>",
    re.DOTALL | re.IGNORECASE,
)
VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
}  # fmt: skip
"""Elements without an end."""
NOT_NESTED = VOID | {"p", "li", "dt", "dd", "td", "th", "tr", "option"}
"""Elements without an end, and elements that the next one of the same name ends, unless another element is open between
the two."""
TOO_DEEP = 240
"""Nested elements from which a page is changed: libxml2 leaves out what is inside 256 others."""
DEEPEST = 50
"""Nested elements that stay then; between two of them there may be some of `NOT_NESTED`."""
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


class Html(Reader):
    """HTML pages, .html or .htm, plain or .gz .bz2 .xz .zst."""

    name: Literal["html"] = "html"
    encoding: str | None = None
    """Encoding of the pages; null: UTF-8 where a page is valid UTF-8, else what its meta element says (euc-kr means
    CP949, as in browsers)."""
    ordered: bool = True
    """Whether the order of paragraphs means anything."""

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
        page, characters_in = shallow(without_early_end(DECLARATION.sub("", page, count=1)))
        title, text = main_text(page)
        if not text:  # pages of ASP.NET are forms as a whole
            title, text = main_text(page, [menu for menu in MENUS if menu != FORM])
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


def shallow(page: str) -> tuple[str, int]:
    """A page without the tags of elements that are nested so deeply that the parser would leave out their text, and the
    number of characters of its text. Raises UserError where trafilatura, which brings the parser, is not installed."""
    depth, characters = measure(page)
    for not_nested in (NOT_NESTED, VOID):
        if depth >= TOO_DEEP:
            page = without_deep_tags(page, not_nested)
            depth, characters = measure(page)
    return page, characters


def without_early_end(page: str) -> str:
    """A page without the ends of its body where text follows, which the parser would leave out."""
    end = END.search(page)
    return END.sub("", page) if end and ANY_TAG.sub("", page[end.end() :]).strip() else page


def measure(page: str) -> tuple[int, int]:
    """How deep the elements of a page are nested, and the characters of its text, without scripts."""
    try:
        from lxml import etree
    except ImportError:
        raise UserError(MISSING_LIBRARY) from None
    tree = etree.fromstring(page.encode("utf-8", "replace"), etree.HTMLParser(encoding="utf-8", remove_comments=True))
    if tree is None:
        return 0, 0
    depth = deepest = 0
    for event, _ in etree.iterwalk(tree, ("start", "end")):
        depth += 1 if event == "start" else -1
        deepest = max(deepest, depth)
    texts = tree.xpath("//text()[not(parent::script or parent::style)]")
    return deepest, sum(len(" ".join(text.split())) + 1 for text in texts if text.strip())  # 1: its line end


def without_deep_tags(page: str, not_nested: Collection[str] = NOT_NESTED) -> str:
    """A page without the tags of elements inside `DEEPEST` others; removed tags that begin a line become <br>."""
    stack, open_names = list[tuple[str, bool]](), Counter[str]()

    def replace_tag(tag: re.Match[str]) -> str:
        name = (tag["name"] or "").lower()
        if not name or name in not_nested or (tag["slash"] and not open_names[name]):
            return tag.group()
        if not tag["slash"]:
            stack.append((name, len(stack) < DEEPEST))
            open_names[name] += 1
            stays = stack[-1][1]
        else:
            ended = ""
            while ended != name:  # what is not closed ends with what it is in
                ended, stays = stack.pop()
                open_names[ended] -= 1
        return tag.group() if stays else "<br>" if (known := TAG.match(f"<{name}>")) and known[1] else ""

    return ANY_TAG.sub(replace_tag, page)


def main_text(page: str, menus: Sequence[str] = MENUS) -> tuple[str, str]:
    """Title and main text of a page, "" where there is none. Raises UserError where trafilatura is not installed."""
    try:
        from trafilatura import extract
    except ImportError:
        raise UserError(MISSING_LIBRARY) from None
    # fast: without trafilatura's fallback extractors, which rely on frequent English words
    result = extract(
        page, output_format="json", with_metadata=True, include_comments=False,
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
