"""Cleaning that keeps meaning: NFC (never NFKC, which turns ㅋ into another character), no control characters, tidy white space."""

import html
import re
import unicodedata

from pydantic import Field

from kobert_pipeline.corpus.masking import Kind
from kobert_pipeline.options import Options

INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b\u2060\ufeff\ufffe\uffff]|[\ud800-\udfff]")
"""Control characters, zero-width space and joiner marks, lone surrogates. U+200D stays: emoji sequences need it."""

ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
BLANKS = re.compile(r"[^\S\n]+")
RUN = re.compile(r"([^\d\s])\1{2,}")
LINES = re.compile(r" ?\n[ \n]*")


class CleaningOptions(Options):
    """What is done to a text besides tidying it."""

    max_repeats: int | None = Field(10, gt=0)
    """Longer runs of one character (ㅋㅋㅋㅋ, !!!!, ----; not digits) are cut to this length; null leaves them."""
    mask: tuple[Kind, ...] = ()
    """What of persons is hidden, by zeros or an address that belongs to nobody: email, phone, resident_number, card."""


def clean(text: str, options: CleaningOptions = CleaningOptions()) -> str:  # noqa: B008 - frozen
    """The text as the pipeline wants it: paragraphs as lines, none of them empty. Clean text stays as it is."""
    # what one round uncovers (&amp;lt; or an entity broken by a zero-width space) the next one takes
    while (cleaned := _round(text)) != text:
        text = cleaned
    return text if options.max_repeats is None else shortened(text, options.max_repeats)


def shortened(text: str, most: int) -> str:
    """`text` with at most `most` of one character in a row, digits aside."""
    return RUN.sub(lambda match: match.group()[:most], text) if most < 3 or RUN.search(text) else text


def _round(text: str) -> str:
    if "&" in text:
        text = ENTITY.sub(lambda match: html.unescape(match.group()), text)
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n").replace("\x85", "\n")
    text = unicodedata.normalize("NFC", INVISIBLE.sub("", text))
    return LINES.sub("\n", BLANKS.sub(" ", text)).strip()
