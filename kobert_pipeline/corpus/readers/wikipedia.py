"""Wikipedia dumps (`kowiki-*-pages-articles.xml.bz2`), streamed: the prose of articles, without templates, tables,
footnotes and headings."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from kobert_pipeline.corpus.document import TOO_LONG, Document
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.tables.open_text import LONGEST_LINE, open_binary
from kobert_pipeline.tables.unreadable import UnreadableInput

ARTICLES = "0"
"""The namespace of articles; talk pages, templates and so on have others."""
NOT_PROSE = {
    "ref", "table", "gallery", "math", "chem", "syntaxhighlight", "source", "code", "timeline", "score", "hiero",
    "imagemap",
}  # fmt: skip
"""Tags whose content is dropped."""
SHOWN = {
    "lang": "2", "llang": "2", "nobr": "1", "nowrap": "1", "nobold": "1", "small": "1", "big": "1", "작은 글씨": "1",
}  # fmt: skip
"""Templates that display one of their parameters, and its number; lang-en, lang-ja and so on display their first."""
MARKS = re.compile(
    r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|\[(?=[a-z]{2,9}:|//)|\]|</?[A-Za-z][^\s<>/]{0,40}(?:[^<>]{0,1000}/>)?"
)
CLOSES = {"}}": "{{", "]]": "[[", "]": "[", "|}": "{|"}
NOT_CLOSED = {"br", "hr", "wbr", "img", "li", "dt", "dd", "td", "th", "tr"}
"""Tags without an end tag."""
MAX_NESTED = 40
"""Levels of nested markup that count as parsed; mwparserfromhell parses 100."""
MAX_COST = 5_000_000
"""`parsing_cost` of the most expensive page that is parsed, about five seconds."""
BROKEN = "broken_markup"
DEEPEST = 20
"""Levels of nested XML elements; MediaWiki's dumps have far fewer."""
BLOCK = 2**16
"""Bytes that are parsed at once."""
NOT_TEXT = ("파일:", "그림:", "분류:", "file:", "image:", "category:")


class Wikipedia(Reader):
    """MediaWiki XML dumps, .xml or compressed."""

    name: Literal["wikipedia"] = "wikipedia"

    def documents(self, path: Path) -> Iterator[Document]:
        """One per article that has prose and is not a redirect."""
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
    """The fields of a page that are read. `id` is the page's id, not its revision's."""

    ns: str = ""
    id: str = ""
    title: str = ""
    markup: str = ""
    redirect: bool = False
    too_long: bool = False


class PageBuilder:
    """Target of an XML parser: builds articles from its events, with at most `limit` characters of a page in memory."""

    def __init__(self, limit: int) -> None:
        self.limit, self.finished, self.events = limit, list[Page](), 0
        self.page, self.open, self.text, self.size = Page(), list[str](), list[str](), 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Called at the start of an element. Raises ValueError for more than `DEEPEST` levels."""
        self.events += 1
        self.open.append(tag.rpartition("}")[2])
        if len(self.open) > DEEPEST:
            raise ValueError(f"elements nested more than {DEEPEST} deep")
        self.text, self.size = [], 0
        if self.open[-1] == "page":
            self.page = Page()
        elif self.open[-1] == "redirect":
            self.page.redirect = True

    def data(self, text: str) -> None:
        """Called with text of the innermost element."""
        self.events += 1
        self.size += len(text)
        if self.size > self.limit:
            self.text, self.page.too_long = [], True
        else:
            self.text.append(text)

    def end(self, tag: str) -> None:
        """Called at the end of an element. Elements whose text is kept have no child elements."""
        self.events += 1
        # of the <id> of a page, a revision and a contributor only the first is the page's
        name, inside = self.open.pop(), self.open[-1:] == ["page"]
        if name == "page" and self.page.ns == ARTICLES and not self.page.redirect:
            self.finished.append(self.page)
        elif name == "text":
            self.page.markup = "".join(self.text)
        elif inside and name in ("ns", "id", "title"):
            setattr(self.page, name, "".join(self.text))
        self.text, self.size = [], 0


def pages(path: Path, limit: int = LONGEST_LINE) -> Iterator[Page]:
    """Every article of a dump, streamed; articles of more than `limit` characters without their markup."""
    target = PageBuilder(limit)
    parser, silent = ElementTree.XMLParser(target=target), 0
    with open_binary(path) as file:
        try:
            while block := file.read(BLOCK):
                before = target.events
                parser.feed(block)
                silent = 0 if target.events > before else silent + len(block)
                if silent > limit:  # the parser keeps a tag or comment in memory until its end, without an event
                    raise ValueError(f"a tag or comment of more than {limit:,} bytes")
                yield from target.finished
                target.finished.clear()
            parser.close()
        except (ElementTree.ParseError, ValueError) as error:
            sentence = f"{path} is not a complete MediaWiki XML dump ({error}); fetch it again"
            raise UnreadableInput("damaged", sentence) from None


def without_comments(markup: str) -> str:
    """The markup without comments. As in MediaWiki, a comment that is never closed extends to the end of the page."""
    parts, end = [], 0
    while (start := markup.find("<!--", end)) >= 0:
        parts.append(markup[end:start])
        end = markup.find("-->", start) + len("-->")
        if end < len("-->"):
            return "".join(parts)
    return "".join([*parts, markup[end:]])


def parsing_cost(markup: str) -> int:
    """Roughly the number of characters that mwparserfromhell reads for markup without comments: for every mark that is
    never closed it reads to the end of the page, and then once more without that mark."""
    never_closed, marks = 0, list[str]()
    counts = Counter[str]()  # of `marks`, so that a wrong end mark does not search the whole stack
    for match in MARKS.finditer(markup):
        mark = match.group()
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
    """The prose of wiki markup, one paragraph per line."""
    import mwparserfromhell
    from mwparserfromhell.nodes import Heading

    code = mwparserfromhell.parse(markup)
    code.nodes = [node for node in code.nodes if not isinstance(node, Heading)]
    replace_nodes(code, _for_tag)  # first, so that templates and links in footnotes and tables are not parsed again
    replace_nodes(code, _for_template, inner_first=True)  # the displayed parameter may contain templates
    replace_nodes(code, _for_link)
    text = code.strip_code(normalize=True, collapse=True)
    lines = [line for line in text.splitlines() if any(character.isalnum() for character in line)]
    return "\n".join(line.lstrip(" \t*#:;").rstrip() for line in lines)  # marks of lists are at the beginning


def replace_nodes(code: Any, replace: Callable[[Any], list[Any] | None], inner_first: bool = False) -> None:
    """Replace, in place, each node of `code` by the nodes that `replace` gives for it; None keeps the node. Nodes
    inside others are replaced before these (`inner_first`), or after them if these are kept."""
    # a new list of nodes, since `Wikicode.replace` would search the whole page for every node
    nodes: list[Any] = []
    for node in code.nodes:
        new = None if inner_first else replace(node)
        if new is None:
            for inner in node.__children__():
                replace_nodes(inner, replace, inner_first)
            new = replace(node) if inner_first else None
        nodes += [node] if new is None else new
    code.nodes = nodes


def _for_tag(node: Any) -> list[Any] | None:
    """No nodes for tags that are not prose, a line end for <br>, None otherwise."""
    from mwparserfromhell.nodes import Tag, Text

    name = str(node.tag).strip().lower() if isinstance(node, Tag) else ""
    if name == "br":
        return [Text("\n")]
    return [] if name in NOT_PROSE else None


def _for_template(node: Any) -> list[Any] | None:
    """The parsed text that a template displays, None for other nodes."""
    import mwparserfromhell
    from mwparserfromhell.nodes import Template

    text = _template_text(node) if isinstance(node, Template) else None
    return None if text is None else list(mwparserfromhell.parse(text).nodes)


def _for_link(node: Any) -> list[Any] | None:
    """No nodes for links to files and categories, None otherwise."""
    from mwparserfromhell.nodes import Wikilink

    is_file = isinstance(node, Wikilink) and str(node.title).strip().lower().startswith(NOT_TEXT)
    return [] if is_file else None


def _template_text(template: Any) -> str | None:
    """The parameter that a template displays, None for templates that are not known to display one."""
    name = str(template.name).strip().lower()
    parameter = "1" if name.startswith("lang-") else SHOWN.get(name)
    return str(template.get(parameter).value) if parameter and template.has(parameter) else None
