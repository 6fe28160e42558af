"""A Wikipedia dump (`kowiki-*-pages-articles.xml.bz2`), streamed: articles as prose, without templates, tables, notes
and headings."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from kobert_pipeline.corpus.document import TOO_LONG, Document
from kobert_pipeline.corpus.open_text import LONGEST_LINE, open_binary
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Unfit

ARTICLES = "0"
"""The namespace of articles; talk, users, templates and the like have others."""
NOT_PROSE = {
    "ref",
    "table",
    "gallery",
    "math",
    "chem",
    "syntaxhighlight",
    "source",
    "code",
    "timeline",
    "score",
    "hiero",
    "imagemap",
}
SHOWN = {
    "lang": "2", "llang": "2", "nobr": "1", "nowrap": "1", "nobold": "1", "small": "1", "big": "1", "작은 글씨": "1",
}  # fmt: skip
"""Templates that show one of their parameters, and which; besides lang-en, lang-ja and the like, which show their
first."""
MARKS = re.compile(
    r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|\[(?=[a-z]{2,9}:|//)|\]|</?[A-Za-z][^\s<>/]{0,40}(?:[^<>]{0,1000}/>)?"
)
CLOSES = {"}}": "{{", "]]": "[[", "]": "[", "|}": "{|"}
NOT_CLOSED = {"br", "hr", "wbr", "img", "li", "dt", "dd", "td", "th", "tr"}
"""Tags that need no end."""
MAX_NESTED = 40
"""Marks in one another that mwparserfromhell follows."""
MAX_COST = 5_000_000
"""About five seconds."""
BROKEN = "broken_markup"
DEEPEST = 20
BLOCK = 2**16
"""Bytes parsed at once."""
NOT_TEXT = ("파일:", "그림:", "분류:", "file:", "image:", "category:")


class Wikipedia(Reader):
    """MediaWiki XML dumps, .xml or compressed."""

    name: Literal["wikipedia"] = "wikipedia"

    def documents(self, path: Path) -> Iterator[Document]:
        """One per article that is no redirect and holds any prose; its paragraphs are in order."""
        for page in pages(path, self.max_document_bytes):
            identity, reason = f"{path.name}#{page.id}", TOO_LONG if page.too_long else ""
            markup = without_comments(page.markup)
            if not reason and parsing_cost(markup) > MAX_COST:
                reason = BROKEN
            text = "" if reason else prose(markup)
            if text or reason:
                yield Document(identity, path.name, f"{page.title}\n{text}" if text else "", dropped=reason)


@dataclass
class Page:
    """What is read of a page. `id` is its own, not that of its revision, which comes later."""

    ns: str = ""
    id: str = ""
    title: str = ""
    markup: str = ""
    redirect: bool = False
    too_long: bool = False


class PageBuilder:
    """Takes the events of an XML parser and gathers articles; of a page in progress it holds no more than `most`
    characters."""

    def __init__(self, most: int) -> None:
        self.most, self.finished, self.events = most, list[Page](), 0
        self.page, self.open, self.text, self.size = Page(), list[str](), list[str](), 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins. Raises ValueError for one that lies deeper than any of MediaWiki's."""
        self.events += 1
        self.open.append(tag.rpartition("}")[2])
        if len(self.open) > DEEPEST:
            raise ValueError(f"elements in elements, {DEEPEST} deep")
        self.text, self.size = [], 0
        if self.open[-1] == "page":
            self.page = Page()
        elif self.open[-1] == "redirect":
            self.page.redirect = True

    def data(self, text: str) -> None:
        """Text of the innermost element."""
        self.events += 1
        self.size += len(text)
        if self.size > self.most:
            self.text, self.page.too_long = [], True
        else:
            self.text.append(text)

    def end(self, tag: str) -> None:
        """An element ends; it holds no other, if it is one of those that count."""
        self.events += 1
        name, inside = self.open.pop(), self.open[-1:] == ["page"]
        if name == "page" and self.page.ns == ARTICLES and not self.page.redirect:
            self.finished.append(self.page)
        elif name == "text":
            self.page.markup = "".join(self.text)
        elif inside and name in ("ns", "id", "title"):
            setattr(self.page, name, "".join(self.text))
        self.text, self.size = [], 0


def pages(path: Path, most: int = LONGEST_LINE) -> Iterator[Page]:
    """Every article, one in memory at a time, those of more than `most` characters without their markup."""
    target = PageBuilder(most)
    parser, silent = ElementTree.XMLParser(target=target), 0
    with open_binary(path) as file:
        try:
            while block := file.read(BLOCK):
                before = target.events
                parser.feed(block)
                silent = 0 if target.events > before else silent + len(block)
                if silent > most:  # the parser keeps all of a tag or comment, up to its end
                    raise ValueError(f"a tag or comment of more than {most:,} bytes")
                yield from target.finished
                target.finished.clear()
            parser.close()
        except (ElementTree.ParseError, ValueError) as error:
            raise Unfit("damaged", f"{path} is not a whole MediaWiki XML dump ({error}); fetch it again") from None


def without_comments(markup: str) -> str:
    """The markup without comments, of which one that never ends reaches to the page's end, as in MediaWiki."""
    kept, end = [], 0
    while (start := markup.find("<!--", end)) >= 0:
        kept.append(markup[end:start])
        end = markup.find("-->", start) + len("-->")
        if end < len("-->"):
            return "".join(kept)
    return "".join([*kept, markup[end:]])


def parsing_cost(markup: str) -> int:
    """How many characters mwparserfromhell looks at, about: it reads on from each mark that is never closed to the
    page's end, and then again without it. Comments are left out before."""
    never_closed, marks = 0, list[str]()
    counts = Counter[str]()
    for found in MARKS.finditer(markup):
        mark = found.group()
        kind = mark[:2] if mark[0] != "<" else mark.strip("</>").lower()
        if mark[0] == "<" and (kind in NOT_CLOSED or mark.endswith("/>")):
            continue
        closes = kind if mark.startswith("</") else CLOSES.get(kind, "")
        if not closes:
            if len(marks) < MAX_NESTED:
                marks.append(kind)
                counts[kind] += 1
            else:
                never_closed += 1
            continue
        while counts[closes]:
            counts[last := marks.pop()] -= 1
            if last == closes:
                break
            never_closed += 1
    return (1 + never_closed + len(marks)) * len(markup)


def prose(markup: str) -> str:
    """Wiki markup as paragraphs, a line each."""
    import mwparserfromhell
    from mwparserfromhell.nodes import Heading

    code = mwparserfromhell.parse(markup)
    code.nodes = [node for node in code.nodes if not isinstance(node, Heading)]
    replace_nodes(code, _for_tag)
    replace_nodes(code, _for_template, inner_first=True)  # what a template shows may hold others
    replace_nodes(code, _for_link)
    text = code.strip_code(normalize=True, collapse=True)
    return "\n".join(
        line.strip(" \t*#:;") for line in text.splitlines() if any(character.isalnum() for character in line)
    )


def replace_nodes(code: Any, put: Callable[[Any], list[Any] | None], inner_first: bool = False) -> None:
    """Put for each node of `code`, in place, those that `put` gives for it, or leave it where that gives None. Nodes
    that lie in others are asked for before these (`inner_first`), or after them where they stay. Every list of nodes is
    made once, whereas `Wikicode.replace` looks for each node through the whole page."""
    nodes: list[Any] = []
    for node in code.nodes:
        new = None if inner_first else put(node)
        if new is None:
            for inner in node.__children__():
                replace_nodes(inner, put, inner_first)
            new = put(node) if inner_first else None
        nodes += [node] if new is None else new
    code.nodes = nodes


def _for_tag(node: Any) -> list[Any] | None:
    """Nothing for what is no prose, a line end for one."""
    from mwparserfromhell.nodes import Tag, Text

    name = str(node.tag).strip().lower() if isinstance(node, Tag) else ""
    return [] if name in NOT_PROSE else [Text("\n")] if name == "br" else None


def _for_template(node: Any) -> list[Any] | None:
    """What a template shows."""
    import mwparserfromhell
    from mwparserfromhell.nodes import Template

    shown = _template_text(node) if isinstance(node, Template) else None
    return None if shown is None else list(mwparserfromhell.parse(shown).nodes)


def _for_link(node: Any) -> list[Any] | None:
    """Nothing for pictures and categories."""
    from mwparserfromhell.nodes import Wikilink

    return [] if isinstance(node, Wikilink) and str(node.title).strip().lower().startswith(NOT_TEXT) else None


def _template_text(template: Any) -> str | None:
    """What a template shows of its parameters, if it is known to show one."""
    name = str(template.name).strip().lower()
    number = "1" if name.startswith("lang-") else SHOWN.get(name)
    return str(template.get(number).value) if number and template.has(number) else None
