"""A Wikipedia dump (`kowiki-*-pages-articles.xml.bz2`), streamed: articles as prose, without templates, tables, notes and headings."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.opening import open_binary
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.corpus.unfit import Unfit

ARTICLES = "0"
"""The namespace of articles; talk, users, templates and the like have others."""
NOT_PROSE = {"ref", "table", "gallery", "math", "chem", "syntaxhighlight", "source", "code", "timeline", "score", "hiero", "imagemap"}
SHOWN = {
    "lang": "2", "llang": "2", "nobr": "1", "nowrap": "1", "nobold": "1", "small": "1", "big": "1", "작은 글씨": "1",
}  # fmt: skip
"""Templates that show one of their parameters, and which; besides lang-en, lang-ja and the like, which show their first."""
NOT_TEXT = ("파일:", "그림:", "분류:", "file:", "image:", "category:")


class Wikipedia(Reader):
    """MediaWiki XML dumps, .xml or compressed."""

    name: Literal["wikipedia"] = "wikipedia"

    def documents(self, path: Path) -> Iterator[Document]:
        """One per article that is no redirect and holds any prose; its paragraphs are in order."""
        for identity, title, markup in pages(path):
            text = prose(markup)
            if text:
                yield Document(f"{path.name}#{identity}", path.name, f"{title}\n{text}")


def pages(path: Path) -> Iterator[tuple[str, str, str]]:
    """(id, title, markup) of every article, one in memory at a time."""
    with open_binary(path) as file:
        try:
            root = None
            for event, element in ElementTree.iterparse(file, events=("start", "end")):
                root = element if root is None else root
                if event == "end" and _tag(element) == "page":
                    found = {_tag(child): child for child in element.iter()}
                    if _text(found, "ns") == ARTICLES and "redirect" not in found:
                        yield _text({_tag(child): child for child in element}, "id"), _text(found, "title"), _text(found, "text")
                    root.clear()  # else every page stays below the root
        except ElementTree.ParseError as error:
            raise Unfit("damaged", f"{path} is not a whole MediaWiki XML dump ({error}); fetch it again") from None


def prose(markup: str) -> str:
    """Wiki markup as paragraphs, a line each."""
    import mwparserfromhell
    from mwparserfromhell.nodes import Heading

    code = mwparserfromhell.parse(markup)
    code.nodes = [node for node in code.nodes if not isinstance(node, Heading)]
    exchange(code, _for_tag)
    exchange(code, _for_template, inner_first=True)  # what a template shows may hold others
    exchange(code, _for_link)
    text = code.strip_code(normalize=True, collapse=True)
    return "\n".join(line.strip(" \t*#:;") for line in text.splitlines() if any(character.isalnum() for character in line))


def exchange(code: Any, put: Callable[[Any], list[Any] | None], inner_first: bool = False) -> None:
    """Put for each node of `code`, in place, those that `put` gives for it, or leave it where that gives None. Nodes that lie in others are
    asked for before these (`inner_first`), or after them where they stay. Every list of nodes is made once, whereas
    `Wikicode.replace` looks for each node through the whole page."""
    nodes: list[Any] = []
    for node in code.nodes:
        new = None if inner_first else put(node)
        if new is None:
            for inner in node.__children__():
                exchange(inner, put, inner_first)
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

    shown = _shown(node) if isinstance(node, Template) else None
    return None if shown is None else list(mwparserfromhell.parse(shown).nodes)


def _for_link(node: Any) -> list[Any] | None:
    """Nothing for pictures and categories."""
    from mwparserfromhell.nodes import Wikilink

    return [] if isinstance(node, Wikilink) and str(node.title).strip().lower().startswith(NOT_TEXT) else None


def _shown(template: Any) -> str | None:
    """What a template shows of its parameters, if it is known to show one."""
    name = str(template.name).strip().lower()
    number = "1" if name.startswith("lang-") else SHOWN.get(name)
    return str(template.get(number).value) if number and template.has(number) else None


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(found: dict[str, ElementTree.Element], tag: str) -> str:
    return (found[tag].text or "") if tag in found else ""
