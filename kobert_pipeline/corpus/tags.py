"""HTML tags inside texts, as in posts copied from a website: found, counted, removed."""

import re

from kobert_pipeline.corpus.cleaning import CleaningOptions, clean

BREAKING = (
    "address|article|aside|blockquote|body|br|center|dd|div|dl|dt|figcaption|figure|footer|form|h[1-6]|head|header|hr|"
    "html|li|main|nav|ol|option|p|pre|section|select|table|tbody|td|tfoot|th|thead|title|tr|ul"
)
"""Elements that begin a new line."""
INLINE = (
    "a|b|big|button|code|del|em|embed|font|i|iframe|img|input|ins|label|link|meta|object|param|s|script|small|span|"
    "strike|strong|style|sub|sup|svg|textarea|u|video"
)
"""Elements inside a line."""
# only names of HTML: titles of films and songs are often written <like this>
TAG = re.compile(rf"</?(?:({BREAKING})|{INLINE})(?:\s[^<>]{{0,1000}})?/?>|<!--[^<>]{{0,1000}}-->", re.IGNORECASE)
"""A tag or comment; group 1 is the name of an element that begins a new line."""


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
    found, removed = remove_tags(text, line_end)
    # without a tag, blanks may be next to each other and the two ends of an entity together
    return (clean(found, options) if removed else text), removed
