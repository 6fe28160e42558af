"""The type of a file, by its name or by how it begins: files that are not text, whatever their names say, and text in a
format such as HTML, subtitles or a chat log, whose markup must not be in training texts."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kobert_pipeline.files import parse_json
from kobert_pipeline.tables.chat import forms_of

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes of files that are decompressed while they are read."""
AS_TEXT = "save it as text (a spreadsheet as .xlsx or CSV UTF-8, without a password)"
FORMATS = (
    (b"%PDF-", "pdf", "a PDF file; convert it to text first (pdftotext FILE)"),
    (b"PK\x03\x04", "office_file", f"a zip archive, as docx, xlsx, pptx and hwpx files are; {AS_TEXT}, or unpack it"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "office_file", f"an office file (hwp, doc, xls or ppt); {AS_TEXT}"),
    (b"HWP Document File", "office_file", f"an office file (hwp); {AS_TEXT}"),
    (b"{\\rtf", "office_file", f"an office file (rtf); {AS_TEXT}"),
    (b"PAR1", "parquet", "a Parquet file; read it by the reader parquet"),
    *(
        (magic, "compressed", f"compressed by {tool}, which its name does not say; rename it so that it ends in {end}")
        for magic, tool, end in (
            (b"\x1f\x8b\x08", "gzip", ".gz"), (b"BZh", "bzip2", ".bz2"), (b"\xfd7zXZ\x00", "xz", ".xz"),
            (b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
        )
    ),
)  # fmt: skip
"""First bytes; the reason that is counted when the file is skipped; what the file is and what to do about it."""

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

# Possessive quantifiers and atomic groups: whatever is before the first tag is given back at most once and as a
# whole, so a long prefix takes no more than linear time. The outer group is not possessive, since Python before 3.11.5
# forgets matches of `(?:...)*+`.
PAGE = re.compile(
    r"\s*+(?:<\?xml[^>]*+>\s*+|<!--(?>.*?-->)\s*+)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
MARKUP, TAGS = 0.3, 20
"""A text that does not begin like a page is HTML if it has `TAGS` tags and they make up this share of its
characters."""


def data_suffix(path: Path) -> str:
    """The suffix of a file's name in lower case, without a compression's suffix: `.csv` of `Train.CSV.gz`."""
    name = Path(path.name.lower())
    return name.with_suffix("").suffix if name.suffix in COMPRESSED else name.suffix


def detect_format(head: bytes) -> tuple[str, str] | None:
    """For a file that begins with `head` and is not text, the reason to count and a description; None where it may be
    text."""
    return next(((reason, what) for magic, reason, what in FORMATS if head.startswith(magic)), None)


WIKI_EXTRACTOR = re.compile(
    r"""^[ \t]*<doc\s(?:[^\n]*\s)?id=["']([^"'\n]*)["'][^\n]*>\s*(?:\n|$)""", re.IGNORECASE | re.MULTILINE
)
"""A line with which an article begins; group 1 is its id."""
SUBTITLES = re.compile(
    r"\s*(?:(?:\d+\s*\n\s*)?\d\d?:\d\d(?::\d\d)?[,.]\d{1,3}\s*(?:-->|,\d\d?:\d\d:\d\d\.\d{3}\s*\n)|"
    r"WEBVTT\b|\[Script Info\]|\{\d+\}\{\d+\}|"
    r"(?:\[(?:ti|ar|al|by|offset):.*\]\s*\n\s*)*(?:\[\d\d:\d\d(?:\.\d+)?\].*\n\s*){2})",
    re.IGNORECASE,
)
"""How SRT, WebVTT, YouTube's SBV, ASS and MicroDVD subtitles and LRC lyrics begin."""
SAMI = re.compile(r"<sync\s+start\s*=", re.IGNORECASE)
HEADER = r"[A-Za-z][\w-]{0,60}:(?: .*)?\n(?:[ \t].*\n)*"
MAIL = re.compile(
    rf"\s*(?:From \S+ .*\d{{4}}.*\n{HEADER}|"
    rf"(?=(?:{HEADER}){{0,40}}(?:From|To|Received|Return-Path|Delivered-To|Message-ID): )(?:{HEADER}){{3}})",
    re.IGNORECASE,
)
"""How a mailbox (mbox) and a single message begin: with headers, among them one that only mail has."""
TABLE_LINES, TABLE_SHARE = 4, 0.9
"""Lines that are a table if this share of them has the same number of tabs."""
COLUMN_NAMES = re.compile(r'(?:"?[^\W\d]\w*"?|(?:"")?(?=,[^,]+,))(?:,"?[^\W\d]\w*"?)+')
"""The first line of a CSV file; a column of row numbers before two others may have no name."""
QUOTED = re.compile('"[^"]*"')
JSON = re.compile(r'\s*(?:\[\s*)*\{\s*"(?:[^"\\\n]|\\.)*"\s*:')


class TextFormat(NamedTuple):
    """A format that is text, but not prose."""

    name: str
    """The name by which skipped files are counted; where a reader reads the format, that reader's name."""
    description: str
    """What it is, what of it is no text, and what to do about it."""
    begins: Callable[[str], object]
    """Whether a text in it begins so."""


def text_format(head: str) -> TextFormat | None:
    """The format of a text that begins with `head`; None where it is prose, as far as its beginning shows."""
    return next((form for form in TEXT_FORMATS if form.begins(head)), None)


def is_html(head: str) -> bool:
    """Whether a text that begins with `head` is an HTML page or a part of one; a text about HTML has fewer tags."""
    if PAGE.match(head):
        return True
    tags = [match.group() for match in TAG.finditer(head)]
    return len(tags) >= TAGS and sum(map(len, tags)) >= MARKUP * len(head)


def is_json_lines(head: str) -> bool:
    """Whether the first line of a text that begins with `head` is a JSON object."""
    line = head.lstrip().partition("\n")[0]
    try:
        return line.startswith("{") and bool(parse_json(line))  # {} is no evidence
    except ValueError:
        return False


def is_table(head: str) -> bool:
    """Whether the lines of a text that begins with `head` have columns with tabs between them, comments (`# text = ...`
    in CoNLL-U, `## id` in KLUE-NER) aside, or with commas, below a line of names without blanks."""
    # the last line may be cut off
    lines = [line.rstrip() for line in head.split("\n")[:-1] if line.strip() and not line.startswith("#")]
    if len(lines) < TABLE_LINES:
        return False
    # a text may be indented by tabs; the first column of KLUE-NER may be a blank
    tabs = Counter(line.lstrip("\t").count("\t") for line in lines)
    tabs.pop(0, None)
    most = max(tabs.values(), default=0)
    if COLUMN_NAMES.fullmatch(lines[0]):
        most = max(most, sum(QUOTED.sub("", line).count(",") == lines[0].count(",") for line in lines))
    return most >= TABLE_SHARE * len(lines)


HTML = TextFormat("html", "HTML, whose tags and menus are not text; use the reader html", is_html)
TEXT_FORMATS = (
    TextFormat(
        "warc", "a web archive (WARC), whose headers are not text; save each of its pages as a file (Python's library "
        "warcio reads them), and use the reader html", re.compile(r"WARC/\d").match,
    ),
    HTML._replace(begins=PAGE.match),  # a page may have any of the others in it
    TextFormat(
        "wikiextractor", "WikiExtractor's output, whose <doc> lines are not text; use the reader wikiextractor",
        WIKI_EXTRACTOR.search,
    ),
    TextFormat(
        "subtitles", "subtitles, whose numbers and times are not text; use the reader subtitles",
        lambda head: SUBTITLES.match(head) or SAMI.search(head),
    ),
    TextFormat("chat", "a chat log, whose names and times are not text; use the reader chat", forms_of),
    TextFormat(
        "mail", "a mailbox or a message with its headers, which are not text; save the texts of its messages without "
        "them (a mail program does, or Python's modules mailbox and email)", MAIL.match,
    ),
    TextFormat(
        "wikipedia", "a dump of MediaWiki, whose markup is not text; use the reader wikipedia",
        re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<mediawiki\b").match,
    ),
    HTML,
    TextFormat(
        "xml", "XML or SGML, whose tags are not text; save what is between them as text, or as JSON Lines",
        re.compile(r"\s*<(?:\?xml\b|!DOCTYPE\b|(?:tei|teicorpus|rss|feed|tt)\b[^\n]*>)", re.IGNORECASE).match,
    ),
    TextFormat("jsonl", "JSON Lines, whose keys are not text; use the reader jsonl", is_json_lines),
    TextFormat("json", "JSON, whose keys are not text; use the reader json", JSON.match),
    TextFormat(
        "csv", "a table with tabs or commas between its columns, whose names and labels are not text; use the reader "
        "csv",
        is_table,
    ),
)  # fmt: skip
"""The formats that are recognized, the more special ones first."""
