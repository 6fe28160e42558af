"""A plain implementation of prose from wiki markup: it searches the whole page for each node, so it is slow on large
pages."""

from contextlib import suppress

import mwparserfromhell

from kobert_pipeline.corpus.readers.wikipedia import NOT_PROSE, NOT_TEXT, SHOWN


def plain_prose(markup):
    code = mwparserfromhell.parse(markup)
    for heading in code.filter_headings(recursive=False):
        put(code, heading, "")
    for tag in code.filter_tags(recursive=True):
        if str(tag.tag).strip().lower() in NOT_PROSE:
            put(code, tag, "")
        elif str(tag.tag).strip().lower() == "br":
            put(code, tag, "\n")
    for template in reversed(code.filter_templates(recursive=True)):  # those inside others first
        name = str(template.name).strip().lower()
        number = "1" if name.startswith("lang-") else SHOWN.get(name)
        if number and template.has(number):
            put(code, template, str(template.get(number).value))
    for link in code.filter_wikilinks(recursive=True):
        if str(link.title).strip().lower().startswith(NOT_TEXT):
            put(code, link, "")
    text = code.strip_code(normalize=True, collapse=True)
    return "\n".join(
        line.lstrip(" \t*#:;").rstrip() for line in text.splitlines() if any(character.isalnum() for character in line)
    )


def put(code, node, text):
    with suppress(ValueError):  # it went with what it lay in
        code.replace(node, text)
