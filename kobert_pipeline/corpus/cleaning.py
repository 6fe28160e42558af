"""Cleaning that keeps meaning: NFC (never NFKC, which turns ㅋ into another character), no control characters, tidy
white space."""

import html
import re
import unicodedata
from functools import cache, lru_cache

from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.pii import Kind

INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b\u2060\ufeff\ufffe\uffff]|[\ud800-\udfff]")
"""Control characters, zero-width space and joiner marks, lone surrogates. U+200D stays: emoji sequences need it."""

ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
LONGEST_ENTITY = 10
"""Characters that it matches at most."""
MOST_MARKS = 30
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
    text = to_nfc(INVISIBLE.sub("", _normalize_line_ends(text)))
    if "&" in text and (shown := _unescape_entities(text)) != text:
        text = to_nfc(shown)
    text = LINES.sub("\n", BLANKS.sub(" ", text)).strip()
    return text if options.max_repeats is None else limit_repeats(text, options.max_repeats)


def limit_repeats(text: str, most: int) -> str:
    """`text` with at most `most` of one character in a row, digits aside."""
    return RUN.sub(lambda match: match.group()[:most], text) if most < 3 or RUN.search(text) else text


def to_nfc(text: str) -> str:
    """`text` in NFC, of more than `MOST_MARKS` combining marks in a row only the first: to put marks in order takes
    time that grows with the square of their number, and no script stacks as many (Unicode's Stream-Safe Text Format,
    UAX #15, allows 30)."""
    if unicodedata.is_normalized("NFC", text):
        return text
    marks = _too_many_marks()
    return marks.sub(
        _first_marks, unicodedata.normalize("NFC", marks.sub(_first_marks, text))
    )  # NFC makes two of some marks


def _first_marks(found: re.Match[str]) -> str:
    return found.group()[:MOST_MARKS]


@cache
def _too_many_marks() -> re.Pattern[str]:
    """Runs of more than `MOST_MARKS` characters that are nothing but combining marks when taken apart. All are in the
    first two planes."""
    marks = [
        one
        for one in map(chr, range(0x300, 0x20000))
        if all(map(unicodedata.combining, unicodedata.normalize("NFD", one)))
    ]
    return re.compile(f"[{re.escape(''.join(marks))}]{{{MOST_MARKS + 1},}}")


def _unescape_entities(text: str) -> str:
    """`text` with HTML's entities as the characters they name, and with those that these complete (&amp;lt;), however
    many, in one pass."""
    if not ENTITY.search(once := ENTITY.sub(lambda match: _unescape(match.group()), text)):
        return once
    shown: list[str] = []
    for character in text:
        shown.append(character)
        while shown and shown[-1] == ";" and _unescape_last(shown):
            pass
    return "".join(shown)


def _unescape_last(shown: list[str]) -> bool:
    """Exchange the entity that ends `shown`, if one does; whether it did."""
    end = "".join(shown[-LONGEST_ENTITY:])
    entity = end[end.rfind("&") :] if "&" in end else ""
    if not ENTITY.fullmatch(entity) or (meant := _unescape(entity)) == entity:
        return False
    shown[-len(entity) :] = meant
    return True


@lru_cache(maxsize=1000)
def _unescape(entity: str) -> str:
    """The characters that an entity names, as far as they are kept."""
    return unicodedata.normalize("NFC", INVISIBLE.sub("", _normalize_line_ends(html.unescape(entity))))


def _normalize_line_ends(text: str) -> str:
    return (
        text.replace("\r\n", "\n")
        .replace("\r", "\n")
        .replace("\u2028", "\n")
        .replace("\u2029", "\n")
        .replace("\x85", "\n")
    )
