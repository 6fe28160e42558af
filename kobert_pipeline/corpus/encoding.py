"""Which encoding a file is in, and how its lines become text. Korean files are UTF-8, CP949 (and EUC-KR, a part of it)
or UTF-16, some of them a mixture of the first two; what is certain is read, anything else is refused or marked with
U+FFFD."""

import codecs
import unicodedata

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks. That of UTF-32 begins like one of UTF-16, so it stands first."""

MIN_SHARE = 0.8
"""Share of the characters beyond ASCII that must be Hangul for CP949, and share of all that must be usual for UTF-16
without a mark."""


SLANG = frozenset("ㅋㅎㅠㅜ")
"""Jamo that chats are full of."""

MAX_NULLS = 0.01
"""Share of null bytes up to which a text may hold some, though never two in a row as binary files do; cleaning takes
them out."""


def detect(head: bytes) -> str | None:
    """The encoding of a file that begins with `head`; None where no Korean encoding fits."""
    for mark, name in MARKS.items():
        if head.startswith(mark):
            return name
    if b"\x00" in head:
        wide = next((name for name in ("utf-16-le", "utf-16-be") if _is_usual(_decode_prefix(head, name))), None)
        if wide or b"\x00\x00" in head or head.count(b"\x00") > MAX_NULLS * len(head):
            return wide
    if _decode_prefix(head, "utf-8") is not None:
        return "utf-8"
    if is_korean(_decode_prefix(head, "cp949")):
        return "cp949"
    return _majority_encoding(head.split(b"\n"))


def _majority_encoding(lines: list[bytes]) -> str | None:
    """The encoding of most lines of a mixture; None where too many are in neither."""
    beyond = [line for line in lines if not line.isascii()]
    of_lines = [
        "utf-8"
        if _decode_prefix(line, "utf-8") is not None
        else "cp949"
        if is_korean(_decode_prefix(line, "cp949"))
        else ""
        for line in beyond
    ]
    if of_lines.count("") > (1 - MIN_SHARE) * len(of_lines):
        return None
    return "utf-8" if of_lines.count("utf-8") >= of_lines.count("cp949") else "cp949"


def decode_line(line: bytes, codec: str) -> str:
    """A line of a file in UTF-8 or CP949. A line in the other of the two is read as that; one in neither gets U+FFFD
    for what is lost."""
    for name in (codec, "utf-8", "cp949"):
        try:
            text = line.decode(name)
        except UnicodeDecodeError:
            continue
        if name != "cp949" or name == codec or is_korean(text):
            return text
    return line.decode(codec, "replace")


def is_korean(text: str | None) -> bool:
    """Whether there are Hangul syllables, and nearly all letters beyond ASCII are such or laughter and tears. Other
    jamo do not count: the hiragana of EUC-JP have their places. Marks and symbols say nothing."""
    beyond = [
        character for character in text or "" if character > "\x7f" and unicodedata.category(character)[0] not in "PS"
    ]
    syllables = sum("\uac00" <= character <= "\ud7a3" for character in beyond)
    return syllables > 0 and syllables + sum(character in SLANG for character in beyond) >= MIN_SHARE * len(beyond)


def _is_usual(text: str | None) -> bool:
    """Whether a text is made of Hangul, printable ASCII and white space. The bytes of anything else, read as UTF-16,
    are not."""
    usual = sum("\uac00" <= one <= "\ud7a3" or " " <= one <= "~" or one in "\t\r\n" for one in text or "")
    return bool(text) and usual >= MIN_SHARE * len(text or "")


def _decode_prefix(head: bytes, codec: str) -> str | None:
    """`head` as text, the last character maybe cut off; None where it is in another encoding."""
    try:
        return codecs.getincrementaldecoder(codec)().decode(head)
    except UnicodeDecodeError:
        return None
