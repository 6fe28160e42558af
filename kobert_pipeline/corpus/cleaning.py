"""Cleaning that does not change meaning: NFC (not NFKC, which turns ㅋ into another character), no characters for which
the tokenizer has no token, normalized white space."""

import html
import re
import unicodedata
from functools import cache, lru_cache
from typing import Literal

from pydantic import Field

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.pii import Kind
from kobert_pipeline.morphemes.normalization import remove_invisible, replace_surrogates

# the largest code point has 7 decimal and 6 hexadecimal digits (1114111, 10FFFF), HTML 4's longest name 8 letters
ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,7});")
LONGEST_ENTITY = 10
"""Characters of the longest match of `ENTITY`."""
MAX_MARKS = 30  # the limit of Unicode's Stream-Safe Text Format (UAX #15)
BLANKS = re.compile(r"[^\S\n]+")
# not digits (1000000 is a number), and white space is normalized anyway
RUN = re.compile(r"([^\d\s])\1{2,}")
PAIR = re.compile(r"([^\d\s])\1+")
LINE_ENDS = re.compile("\r\n|[\r\u2028\u2029\x85\x0b\x0c]")
LINES = re.compile(r" ?\n[ \n]*")


class CleaningOptions(Options):
    """How every text is cleaned, besides normalizing characters and white space."""

    max_repeats: int | None = Field(10, gt=0)
    """Longest run of one character (ㅋㅋㅋㅋ, !!!!, ----; not digits); longer runs are shortened, null keeps them."""
    tags: Literal["keep", "remove"] = Field("keep", exclude_if=lambda value: value == "keep")
    """Whether HTML tags inside the texts stay; removed tags are counted (`tags_removed`), and so are documents that
    keep some (`documents_with_tags`)."""
    mask: tuple[Kind, ...] = ()
    """Personal data to redact: any of email, phone, resident_number, card. The digits of what is found become 0,
    addresses a reserved one."""


def clean(text: str, options: CleaningOptions = CleaningOptions()) -> str:  # noqa: B008 - frozen
    """The cleaned text: one paragraph per line, no empty lines. Cleaning a clean text does not change it."""
    # NFC last, since two jamo compose only when no invisible character separates them, and cleaning twice must give
    # what cleaning once gives
    text = to_nfc(_visible_lines(text))
    if "&" in text and (unescaped := _unescape_entities(text)) != text:
        text = to_nfc(unescaped)  # an entity may name a combining mark
    # blanks first: LINES expects at most one before a line end
    text = LINES.sub("\n", BLANKS.sub(" ", text)).strip()
    return text if options.max_repeats is None else limit_repeats(text, options.max_repeats)


def limit_repeats(text: str, limit: int) -> str:
    """`text` with at most `limit` equal characters in a row, except digits."""
    # RUN passes over runs of two, which only a limit of 1 shortens
    run = RUN if limit > 1 else PAIR
    return run.sub(lambda match: match.group()[:limit], text) if run.search(text) else text


def to_nfc(text: str) -> str:
    """`text` in NFC; where that changes it, with at most `MAX_MARKS` combining marks in a row."""
    if unicodedata.is_normalized("NFC", text):
        return text
    # before NFC, since sorting combining marks takes time quadratic in their number; after it, since it splits some
    marks = _too_many_marks()
    return marks.sub(_first_marks, unicodedata.normalize("NFC", marks.sub(_first_marks, text)))


def _first_marks(run: re.Match[str]) -> str:
    return run.group()[:MAX_MARKS]


@cache
def _too_many_marks() -> re.Pattern[str]:
    """A pattern of more than `MAX_MARKS` characters in a row that decompose to nothing but combining marks."""
    characters = map(chr, range(0x300, 0x20000))  # all marks are in the first two planes
    marks = [mark for mark in characters if all(map(unicodedata.combining, unicodedata.normalize("NFD", mark)))]
    return re.compile(f"[{re.escape(''.join(marks))}]{{{MAX_MARKS + 1},}}")


def _unescape_entities(text: str) -> str:
    """`text` with HTML entities replaced by their characters, also where that completes another one (&amp;lt;)."""
    if not ENTITY.search(once := ENTITY.sub(lambda match: _unescape(match.group()), text)):
        return once
    # nested entities: one pass with a stack, since unescaping again and again would be quadratic in their depth
    characters: list[str] = []
    for character in text:
        characters.append(character)
        # again and again, since the replacement may itself be the ; that completes the entity around it
        while characters and characters[-1] == ";" and _unescape_last(characters):
            pass
    return "".join(characters)


def _unescape_last(characters: list[str]) -> bool:
    """Replace the entity at the end of `characters`, in place; whether there was one."""
    end = "".join(characters[-LONGEST_ENTITY:])
    entity = end[end.rfind("&") :] if "&" in end else ""
    # an unknown entity is its own replacement: counted as replaced, the caller's loop would never end
    if not ENTITY.fullmatch(entity) or (replacement := _unescape(entity)) == entity:
        return False
    characters[-len(entity) :] = replacement
    return True


@lru_cache(maxsize=1000)
def _unescape(entity: str) -> str:
    """The characters that an entity stands for, cleaned; the entity itself where it is unknown."""
    return unicodedata.normalize("NFC", _visible_lines(html.unescape(entity)))


def _visible_lines(text: str) -> str:
    """`text` without invisible characters and with \n as its only line end."""
    return LINE_ENDS.sub("\n", remove_invisible(replace_surrogates(text)))
