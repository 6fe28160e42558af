"""HTML tags inside texts, as in posts copied from a website: found, counted, removed. The markup of wikis: found."""

import re
from itertools import islice

from kobert_pipeline.corpus.cleaning import CleaningOptions, clean
from kobert_pipeline.tables.file_type import TAG

MARKUP = re.compile(
    r"\[\[[^\[\]\n]{1,200}\]\]|\'{3}|\{\{\{|\{\{[^{}\n]{1,200}\}\}|^=+ [^\n]{1,100} =+$|^\|\||\[\* |\[include\(",
    re.MULTILINE,
)
"""What MediaWiki and namuwiki write for links, bold text, templates, headings, tables and footnotes."""
MARKS = 3
"""Marks of a text with markup; a text about something else may have one or two."""


def has_markup(text: str) -> bool:
    """Whether a text has the markup of a wiki."""
    return sum(1 for _ in islice(MARKUP.finditer(text), MARKS)) == MARKS


def has_tags(text: str) -> bool:
    """Whether there is an HTML tag in a text."""
    return "<" in text and bool(TAG.search(text))


def remove_tags(text: str, line_end: str = "\n") -> tuple[str, int]:
    """The text without its HTML tags, and their number; elements such as `<br>` become a `line_end`.

    What is between them stays, also the code in a script element. Entities (`&lt;`) are no tags; cleaning has decoded
    them before.
    """
    if "<" not in text:
        return text, 0
    return TAG.subn(lambda tag: line_end if tag.group(1) else "", text)


def without_tags(text: str, options: CleaningOptions, line_end: str = "\n") -> tuple[str, int]:
    """A clean text without its HTML tags if the options remove them, clean again, and the number of tags removed."""
    if options.tags == "keep":
        return text, 0
    untagged, removed = remove_tags(text, line_end)
    # without a tag, blanks may be next to each other and the two ends of an entity together
    return (clean(untagged, options) if removed else text), removed
