"""Detect the encoding of a file and decode its lines. Korean files are in UTF-8, CP949 (which includes EUC-KR) or
UTF-16, some in a mixture of the first two. Nothing is guessed: other bytes are refused, or become U+FFFD."""

import codecs
import unicodedata
from pathlib import Path

from kobert_pipeline.errors import UserError

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks. UTF-32's begins with UTF-16's, so it must come first."""

MIN_SHARE = 0.8
"""Share of non-ASCII characters that must be Hangul for CP949, and of all characters that must be Hangul, ASCII or
white space for UTF-16 without a byte order mark."""

SLANG = frozenset("ㅋㅎㅠㅜ")
"""Jamo of laughter and tears, frequent in chats."""

ENDINGS = frozenset("은는이가을를의에로으서다고하한며라지")
"""Syllables of particles and endings, about a third of the syllables of Korean prose."""

MIN_ENDINGS = 0.15
"""Share of Hangul syllables that must be in `ENDINGS` in text with many Hanja. Measured in the first 100 bytes to
64 KiB of texts, it is about 0.3 in such text, and at most 0.09 in Chinese and Japanese text that is read as CP949."""

MIN_SYLLABLES = 30
"""Number of Hangul syllables that this takes: with 20 of them, the share reaches 0.18 in Chinese text by chance."""

MAX_NULLS = 0.01
"""Share of null bytes that a text may contain, though never two in a row, as binary files have; cleaning removes
them."""


def lookup_codec(path: Path, encoding: str) -> str:
    """Python's name of an encoding that was given for a file. Raises UserError where there is none."""
    try:
        name = codecs.lookup(encoding).name
        # files that are called EUC-KR are in CP949, which includes it
        return "cp949" if name == "euc_kr" else name
    except LookupError:
        raise UserError(
            f"{path}: there is no encoding {encoding!r}; write for example utf-8, cp949 or utf-16"
        ) from None


def detect(head: bytes) -> str | None:
    """The encoding of a file that begins with `head`; None where no Korean encoding fits."""
    for mark, name in MARKS.items():
        if head.startswith(mark):
            return name
    if b"\x00" in head:  # as every ASCII character in UTF-16 has, but no character of UTF-8 or CP949 text
        utf16 = next((name for name in ("utf-16-le", "utf-16-be") if _is_usual(_decode_prefix(head, name))), None)
        if utf16 or b"\x00\x00" in head or head.count(b"\x00") > MAX_NULLS * len(head):
            return utf16
    # UTF-8 before CP949: text in CP949 is not valid UTF-8 by chance, but UTF-8 may well be valid CP949
    if _decode_prefix(head, "utf-8") is not None:
        return "utf-8"
    text = _decode_prefix(head, "cp949")
    if is_korean(text):
        return "cp949"
    # after the majority of the lines, since lines in UTF-8 may be valid CP949, too
    return _majority_encoding(head.split(b"\n")) or ("cp949" if _is_mixed_script(text) else None)


def _majority_encoding(lines: list[bytes]) -> str | None:
    """The encoding of most lines in a mixture of UTF-8 and CP949; None where too many are in neither."""
    encodings = [_line_encoding(line) for line in lines if not line.isascii()]
    if encodings.count("") > (1 - MIN_SHARE) * len(encodings):
        return None
    return "utf-8" if encodings.count("utf-8") >= encodings.count("cp949") else "cp949"


def _line_encoding(line: bytes) -> str:
    if _decode_prefix(line, "utf-8") is not None:
        return "utf-8"
    return "cp949" if is_korean(_decode_prefix(line, "cp949")) else ""


class Undecodable(str):
    """A line with bytes that are in no Korean encoding; each such byte became U+FFFD."""


def decode_line(line: bytes, codec: str) -> str:
    """A line of a file in UTF-8 or CP949 as text, without a byte order mark. A line in the other of the two is decoded
    as such; a line that is in neither becomes `Undecodable`."""
    # UTF-8 first, also in a file of CP949: short lines of UTF-8 are often valid CP949, as Hanja, while a line of CP949
    # that is valid UTF-8 is hardly ever Korean there
    for name in ("utf-8", "cp949"):
        try:
            text = line.decode(name)
        except UnicodeDecodeError:
            continue
        if name == codec or is_korean(text):
            return text.lstrip("\ufeff")
    return Undecodable(line.decode(codec, "replace"))


def is_korean(text: str | None) -> bool:
    """Whether the text has Hangul syllables, and nearly all its non-ASCII letters are Hangul syllables or `SLANG`."""
    letters = _letters(text)
    syllables = sum(map(_is_syllable, letters))
    # other jamo do not count: in CP949 they have the bytes that are hiragana in EUC-JP
    slang = sum(character in SLANG for character in letters)
    return syllables > 0 and syllables + slang >= MIN_SHARE * len(letters)


def _is_mixed_script(text: str | None) -> bool:
    """Whether the text is Korean with many Hanja: nearly all its non-ASCII letters are Hangul syllables or Hanja, and
    particles and endings are frequent among the syllables."""
    # Chinese and Japanese bytes that are valid CP949 give Hangul and Hanja, too, but few syllables of grammar
    letters = _letters(text)
    syllables = [character for character in letters if _is_syllable(character)]
    hanja = sum("\u4e00" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff" for character in letters)
    return (
        len(syllables) >= MIN_SYLLABLES
        and len(syllables) + hanja >= MIN_SHARE * len(letters)
        and sum(character in ENDINGS for character in syllables) >= MIN_ENDINGS * len(syllables)
    )


def _letters(text: str | None) -> list[str]:
    # punctuation, symbols and numbers (①, Ⅱ) are in every encoding, so they are no evidence
    return [
        character for character in text or "" if character > "\x7f" and unicodedata.category(character)[0] not in "NPS"
    ]


def _is_syllable(character: str) -> bool:
    return "\uac00" <= character <= "\ud7a3"


def _is_usual(text: str | None) -> bool:
    """Whether nearly all of a text is Hangul, printable ASCII or white space, unlike other bytes read as UTF-16."""
    usual = sum(_is_syllable(character) or " " <= character <= "~" or character in "\t\r\n" for character in text or "")
    return bool(text) and usual >= MIN_SHARE * len(text or "")


def _decode_prefix(head: bytes, codec: str) -> str | None:
    """`head` as text, without a last character that is incomplete; None where it is in another encoding."""
    # an incremental decoder waits for the rest of the last character, where bytes.decode would raise
    try:
        return codecs.getincrementaldecoder(codec)().decode(head)
    except UnicodeDecodeError:
        return None
