"""Mojibake (text decoded with the wrong encoding): repaired where that is certain; other damaged paragraphs are
dropped."""

import re

from kobert_pipeline.tables.encoding import is_korean

LOST = "\ufffd"
# what Windows-1252 and Latin-1 show for the bytes 0x80 to 0xFF: the range of Latin-1, and the characters that
# Windows-1252 has in place of its control characters
LATIN = "\x80-\xff\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122"
LETTER = "\xc0-\xd6\xd8-\xf6\xf8-\xff"
# the characters of LATIN that are no LETTER, as a set of its own: Python before 3.11.5 forgets matches of `(?:...)*+`
SIGN = "\x80-\xbf\xd7\xf7" + LATIN.removeprefix("\x80-\xff")
RUN = re.compile(f"(?<![{LATIN}])(?=[{LATIN}]{{4}})[{SIGN}]*+[{LETTER}][{SIGN}]*+[{LETTER}]")
"""Four or more non-ASCII bytes as Windows-1252 shows them, two of them letters: not a word of any language, nor mere
punctuation. Possessive quantifiers and the lookbehind keep it linear: a run is tried once, from its start."""


HANJA = re.compile("[\u4e00-\u9fff\uf900-\ufaff]")
"""What CP949 shows for the first bytes of a Hangul syllable in UTF-8."""
MISREAD = 0.4
"""A line with Hanja and `?` in which at least this share of the syllables is rare was misread. Of 3,000
lines that were read as CP949, with ? for what it lacks, all but one have that; of 917,780 lines of Wikipedia, reviews
and questions none has."""
FEWEST = 4
"""Syllables of a repaired line from which on rare ones are no sign that it was right before."""


def repair(text: str) -> tuple[str, int, int]:
    """The repaired text, the number of repaired paragraphs, and the number of dropped ones."""
    # the whole text first, since a wrong encoding is chosen for a whole file
    whole = misread_as_cp949(text)
    if whole is not None:
        return whole, whole.count("\n") + 1, 0
    if LOST not in text and not RUN.search(text) and not HANJA.search(text):
        return text, 0, 0
    lines = text.split("\n")
    fixed = [misread_as_latin(line) if RUN.search(line) else without_misread_utf8(line) for line in lines]
    remaining = [line for line in fixed if line is not None and LOST not in line]
    repaired = sum(before != after and after is not None for before, after in zip(lines, fixed, strict=True))
    return "\n".join(remaining), repaired, len(lines) - len(remaining)


def misread_as_latin(line: str) -> str | None:
    """A line of UTF-8 or CP949 that was decoded as Windows-1252 or Latin-1, repaired; the line itself where that gives
    no Korean and the line is Korean, such as one about ÄÖÜß; None where neither is."""
    from ftfy import fix_encoding

    fixed = fix_encoding(line)
    if not RUN.search(fixed) and is_korean(fixed):
        return str(fixed)
    # ftfy only looks for misread UTF-8, so misread CP949 is tried here
    for wrong in ("cp1252", "latin-1"):
        try:
            right = line.encode(wrong).decode("cp949")
        except UnicodeError:
            continue
        if is_korean(right):
            return right
    return line if is_korean(line) else None


def without_misread_utf8(line: str) -> str | None:
    """A line of UTF-8 that was decoded as CP949, repaired; None where characters of it are lost (`諛곗넚?씠 鍮좊Ⅴ怨?`);
    any other line as it is."""
    if not HANJA.search(line):
        return line
    if right := misread_as_cp949(line):
        return right
    rare, syllables = count_rare(line)
    return None if "?" in line and rare > 2 and rare >= MISREAD * syllables else line


def count_rare(text: str) -> tuple[int, int]:
    """How many syllables of a text are not among the 2,350 of KS X 1001, which CP949 writes with other bytes, and how
    many there are."""
    syllables = [character for character in text if "가" <= character <= "힣"]
    return sum(min(syllable.encode("cp949")) < 0xA1 for syllable in syllables), len(syllables)


def misread_as_cp949(text: str) -> str | None:
    """A text of UTF-8 that was decoded as CP949, repaired; None where it is not one."""
    if text.isascii():
        return None
    try:
        right = text.encode("cp949").decode("utf-8")
    except UnicodeError:
        return None
    # of real Korean texts only a few very short ones are valid UTF-8 in CP949, and those become rare syllables
    rare, syllables = count_rare(right)
    return right if is_korean(right) and (not rare or syllables >= FEWEST) else None
