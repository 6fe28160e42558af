"""The type of a file, by its name or by its first bytes: files that are not text, whatever their names say, and HTML
and JSON Lines, whose markup must not be in training texts."""

import re
from pathlib import Path

from kobert_pipeline.files import parse_json

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
    """The suffix of a file's name in lower case, without that of a compression: `.csv` of `Train.CSV.gz`."""
    name = Path(path.name.lower())
    return name.with_suffix("").suffix if name.suffix in COMPRESSED else name.suffix


def detect_format(head: bytes) -> tuple[str, str] | None:
    """For a file that begins with `head` and is not text, the reason to count and a description; None where it may be
    text."""
    return next(((reason, what) for magic, reason, what in FORMATS if head.startswith(magic)), None)


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
