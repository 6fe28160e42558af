"""A Wikipedia dump (`kowiki-*-pages-articles.xml.bz2`), streamed: articles as prose, without templates, tables, notes and headings."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from kobert_pipeline.corpus.document import Document
from kobert_pipeline.corpus.opening import open_binary
from kobert_pipeline.corpus.reader import Reader
from kobert_pipeline.errors import UserError

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
            raise UserError(f"{path} is not a whole MediaWiki XML dump ({error}); fetch it again") from None


def prose(markup: str) -> str:
    """Wiki markup as paragraphs, a line each."""
    import mwparserfromhell

    code = mwparserfromhell.parse(markup)
    for heading in code.filter_headings(recursive=False):
        _remove(code, heading)
    for tag in code.filter_tags(recursive=True):
        if str(tag.tag).strip().lower() in NOT_PROSE:
            _remove(code, tag)
        elif str(tag.tag).strip().lower() == "br":
            _put(code, tag, "\n")
    for template in reversed(code.filter_templates(recursive=True)):  # those inside others first
        if (shown := _shown(template)) is not None:
            _put(code, template, shown)
    for link in code.filter_wikilinks(recursive=True):
        if str(link.title).strip().lower().startswith(NOT_TEXT):
            _remove(code, link)
    text = code.strip_code(normalize=True, collapse=True)
    return "\n".join(line.strip(" \t*#:;") for line in text.splitlines() if any(character.isalnum() for character in line))


def _shown(template: Any) -> str | None:
    """What a template shows of its parameters, if it is known to show one."""
    name = str(template.name).strip().lower()
    number = "1" if name.startswith("lang-") else SHOWN.get(name)
    return str(template.get(number).value) if number and template.has(number) else None


def _put(code: Any, node: Any, text: str) -> None:
    with suppress(ValueError):  # it went with what it lay in
        code.replace(node, text)


def _remove(code: Any, node: Any) -> None:
    with suppress(ValueError):  # it went with what it lay in
        code.remove(node)


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(found: dict[str, ElementTree.Element], tag: str) -> str:
    return (found[tag].text or "") if tag in found else ""
