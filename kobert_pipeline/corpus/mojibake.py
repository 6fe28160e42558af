"""Text that was read in a wrong encoding: put right where that is certain, dropped by the paragraph where it is not,
never passed on."""

import re

from kobert_pipeline.corpus.encoding import is_korean

LOST = "\ufffd"
LATIN = "\x80-\xff\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122"
LETTER = "\xc0-\xd6\xd8-\xf6\xf8-\xff"
SIGN = f"(?![{LETTER}])[{LATIN}]"
RUN = re.compile(f"(?<![{LATIN}])(?=[{LATIN}]{{4}})(?:{SIGN})*+[{LETTER}](?:{SIGN})*+[{LETTER}]")
"""Bytes beyond ASCII as Windows-1252 shows them, four in a row and two of them letters: in no language are they a word,
and no ellipsis. It looks at each run once, from its beginning."""


def repair(text: str) -> tuple[str, int, int]:
    """`text` with its paragraphs put right, and how many were put right and how many dropped."""
    whole = misread_as_cp949(text)
    if whole is not None:
        return whole, whole.count("\n") + 1, 0
    if LOST not in text and not RUN.search(text):
        return text, 0, 0
    lines = text.split("\n")
    found = [misread_as_latin(line) if RUN.search(line) else line for line in lines]
    kept = [line for line in found if line is not None and LOST not in line]
    return (
        "\n".join(kept),
        sum(one != two and two is not None for one, two in zip(lines, found, strict=True)),
        len(lines) - len(kept),
    )


def misread_as_latin(line: str) -> str | None:
    """UTF-8 or CP949 that was read as Windows-1252 or Latin-1, put right; None where that gives no Korean."""
    from ftfy import fix_encoding

    fixed = fix_encoding(line)
    if not RUN.search(fixed) and is_korean(fixed):
        return str(fixed)
    for wrong in ("cp1252", "latin-1"):
        try:
            right = line.encode(wrong).decode("cp949")
        except UnicodeError:
            continue
        if is_korean(right):
            return right
    return None


def misread_as_cp949(text: str) -> str | None:
    """UTF-8 that was read as CP949, put right; None where it is not that. Real Korean in CP949 is not UTF-8, so this
    cannot err."""
    if text.isascii():
        return None
    try:
        right = text.encode("cp949").decode("utf-8")
    except UnicodeError:
        return None
    return right if is_korean(right) else None
