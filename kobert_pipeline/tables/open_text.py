"""Open plain or compressed files as lines of text, in a given encoding or the detected one, or as bytes."""

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, AnyStr, cast

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import parse_json
from kobert_pipeline.tables.encoding import Undecodable, decode_line, detect, lookup_codec
from kobert_pipeline.tables.file_type import detect_format
from kobert_pipeline.tables.unreadable import Location, UnreadableInput

HEAD = 2**16
"""Bytes of the beginning of a file by which its encoding and its line ends are detected."""
ZSTD_WINDOW = 2**31
"""Bytes; large enough for frames that `zstd --long` wrote."""
ZSTD_BLOCK = 2048
"""Bytes that are decompressed at once: four bytes may stand for 128 KB of zeros, so this many give 64 MB at most."""
LONGEST_LINE = 100_000_000
"""Bytes (characters in UTF-16) of a line; longer lines are skipped."""
LARGEST_JSON = 2**30
"""The most characters of a JSON file, which is in memory as a whole."""
# jq indents what is inside an object, so a } at the beginning of a line ends one
BETWEEN_OBJECTS = re.compile(r"(?<=^\})\s*\n(?=\{)", re.MULTILINE)
INCOMPLETE = ("unexpected end of data", "incomplete multibyte sequence")
"""What Python says of UTF-8 and of CP949 that end inside a character."""
DETECTED = "text in UTF-8, CP949 or UTF-16"


def _open_decompressed(path: Path) -> IO[bytes]:
    match path.suffix.lower():
        case ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        case ".bz2":
            return cast(IO[bytes], bz2.open(path, "rb"))
        case ".xz":
            return cast(IO[bytes], lzma.open(path, "rb"))
        case ".zst":
            import zstandard

            return io.BufferedReader(
                _BlockFile(_decompress_frames(path, zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW))), 2**18
            )
        case _:
            return path.open("rb")


def _decompress_frames(path: Path, decompressor: Any) -> Iterator[bytes]:
    """The content of all frames of a file. Unlike zstandard's own reader it raises EOFError where the last frame is
    truncated."""
    with path.open("rb") as file:
        frame = None
        # a file may hold several frames: what is left after the end of one begins the next
        while block := (frame.unused_data if frame and frame.eof else b"") or file.read(ZSTD_BLOCK):
            frame = frame if frame and not frame.eof else decompressor.decompressobj()
            yield frame.decompress(block)
        if frame and not frame.eof:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")


class _BlockFile(io.RawIOBase):
    """A file object over blocks of bytes."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.blocks, self.rest = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.rest:
            block = next(self.blocks, None)
            if block is None:
                return 0
            self.rest = memoryview(block)
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count


class TooLong(str):
    """Placeholder for a line that is longer than allowed; it does not contain the line's text."""


def bounded_lines(file: IO[AnyStr], longest: int) -> Iterator[AnyStr | TooLong]:
    """The lines of a file; lines of more than `longest` bytes or characters are skipped and given as `TooLong`."""
    while line := file.readline(longest):
        if len(line) < longest or _ends(line):
            yield line
            continue
        rest = file.readline(longest)
        # `longest` characters without a line end: too long, unless the file ends here
        if not rest:  # the last line, which has no line end and exactly the allowed length
            yield line
            return
        while rest and not _ends(rest):
            rest = file.readline(longest)
        yield TooLong("...")


def _ends(line: str | bytes) -> bool:
    return line.endswith("\n") if isinstance(line, str) else line.endswith(b"\n")


def unreadable_line(line: str, location: Location, lossy: bool = False) -> UnreadableInput | None:
    """The error for a line of a table that is `TooLong`, which means damage there, or `Undecodable`, unless that may be
    (`lossy`): the corpus drops paragraphs with U+FFFD."""
    if isinstance(line, TooLong):
        problem = f"it has more bytes than a line may have ({LONGEST_LINE:,}); is a line end missing?"
        return UnreadableInput("too_long", problem, location)
    if isinstance(line, Undecodable) and not lossy:
        return UnreadableInput("encoding", "it has bytes that are neither UTF-8 nor CP949; correct them", location)
    return None


@contextmanager
def open_lines(path: Path, encoding: str | None = None, longest: int = LONGEST_LINE) -> Iterator[Iterator[str]]:
    """The lines of a file, with their line ends and without a byte order mark, in `encoding` or by default the detected
    one (UTF-8, CP949, UTF-16). Lines longer than `longest` are `TooLong`; lines of no detected encoding are
    `Undecodable`. Raises UserError for a missing, empty, binary or truncated file and for another encoding, also while
    the file is read."""
    with _translate_errors(path, encoding or DETECTED) as head:
        codec = lookup_codec(path, encoding) if encoding else detect(head)
        if codec is None:
            raise _undetected(path, head)
        is_utf16 = codec.startswith(("utf-16", "utf-32"))
        if encoding and b"\x00" in head and not is_utf16:
            raise UnreadableInput("binary", f"{path} is a binary file (it holds null bytes), not text in {encoding}")
        with _open_decompressed(path) as raw:
            ends_by_cr = has_mac_line_ends(head)
            if encoding or is_utf16:
                codec = "utf-8-sig" if codec == "utf-8" else codec  # drops a byte order mark
                # "\n": lines end there alone and stay as they are, as below; None: also at a lone \r
                yield bounded_lines(io.TextIOWrapper(raw, codec, newline=None if ends_by_cr else "\n"), longest)
            else:  # bytes, since lines of a mixture are decoded one by one
                blocks = (block.replace(b"\r", b"\n") for block in iter(lambda: raw.read(HEAD), b""))
                lines = io.BufferedReader(_BlockFile(blocks)) if ends_by_cr else raw
                yield _decoded_lines(lines, codec, longest)


def has_mac_line_ends(head: bytes) -> bool:
    """Whether the beginning of a file has the line ends of old Macs and their programs, a lone \\r. Where there is any
    \\n, a lone \\r is left to cleaning and is not the end of a row."""
    return b"\r" in head and b"\n" not in head


def _undetected(path: Path, head: bytes) -> UnreadableInput:
    if b"\x00" in head:
        reason, problem = "binary", f"{path} is a binary file (it holds null bytes), {DETECTED} was expected"
    else:
        reason, problem = "encoding", f"{path} is not {DETECTED}{_suggest_encoding(head)}"
    advice = "; of a source of the corpus, the option `encoding` may name another encoding"
    return UnreadableInput(reason, f"{problem}{advice}")


def read_json_file(path: Path, encoding: str | None = None, lossy: bool = False) -> Any:
    """The value of a JSON file; of several objects below each other, as jq prints them, a list. Raises UserError where
    it is not JSON, nested too deeply, longer than `LARGEST_JSON`,
    or has `Undecodable` lines, unless these may be (`lossy`)."""
    with open_lines(path, encoding, LARGEST_JSON) as lines:
        text = "".join(_limited(path, lines, lossy))  # what it raises, `_translate_errors` words
        try:
            return parse_json(text)
        except ValueError as error:
            objects = BETWEEN_OBJECTS.split(text)
            with suppress(ValueError):
                if len(objects) > 1:
                    return [parse_json(value) for value in objects]
            raise UnreadableInput("not_json", f"{path} is not a JSON file ({error})") from None


def _limited(path: Path, lines: Iterator[str], lossy: bool) -> Iterator[str]:
    """The lines. Raises UnreadableInput when they have more than `LARGEST_JSON` characters in total."""
    size = 0
    for line_number, line in enumerate(lines, 1):
        size += LARGEST_JSON if isinstance(line, TooLong) else len(line)
        if size >= LARGEST_JSON:
            raise UnreadableInput(
                "too_large",
                f"{path} holds more than {LARGEST_JSON:,} characters, too many for a JSON file, which is read at once; "
                "split it, or convert it to JSON Lines",
            )
        if problem := unreadable_line(line, Location(path, "line", line_number), lossy):
            raise problem
        yield line


def _decoded_lines(raw: IO[bytes], codec: str, longest: int) -> Iterator[str]:
    """The lines of a file in UTF-8 or CP949. Raises UnicodeDecodeError where the file is truncated inside a
    character."""
    for line in bounded_lines(raw, longest):
        if isinstance(line, str):
            yield line
            continue
        # only a last line has no line end, and only there an incomplete character means a truncated file; in a file of
        # CP949 it may be a line of UTF-8 that has an odd number of bytes
        text = decode_line(line, codec)
        may_be_cut = codec == "utf-8" or isinstance(text, Undecodable)
        if not line.endswith(b"\n") and may_be_cut and not line.isascii():
            try:
                line.decode(codec)
            except UnicodeDecodeError as error:
                if error.end == len(line) and error.reason in INCOMPLETE:
                    raise
        yield text


@contextmanager
def _translate_errors(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield the file's first bytes, and turn errors of decoding and decompression in the block into UnreadableInput or
    UserError."""
    head = b""
    if not path.is_file():
        raise UserError(f"{path} is not a file; check the path and data_dir")
    if path.stat().st_size == 0:
        raise UnreadableInput("empty", f"{path} is empty; there is nothing to read in it")
    try:
        with _open_decompressed(path) as raw:
            head = raw.read(HEAD)
        if other_format := detect_format(head):
            reason, description = other_format
            raise UnreadableInput(reason, f"{path} is {description}")
        yield head
    except UnicodeDecodeError as error:
        if error.reason in INCOMPLETE:
            raise _damaged(f"{path} is truncated in the middle of a character") from None
        advice = _suggest_encoding(head)
        if encoding != DETECTED and detect(head) == lookup_codec(path, encoding):
            advice = "; some of its bytes are damaged: without the option encoding only their lines are left out"
        sentence = f"{path} is not {encoding} ({error.reason}){advice}"
        raise UnreadableInput("encoding", sentence) from None
    except Exception as error:
        # bz2 raises an OSError without errno, which errors of the system have; ZstdError is not imported here,
        # since zstandard is loaded for .zst files only
        if isinstance(error, (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)) or (
            type(error).__name__ == "ZstdError" or (isinstance(error, OSError) and error.errno is None)
        ):
            raise _damaged(f"{path} is damaged ({error})") from None
        raise


def _damaged(problem: str) -> UnreadableInput:
    return UnreadableInput("damaged", f"{problem}; fetch it again")


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open the decompressed bytes of a file. Raises UserError for a missing, empty or truncated one, and where what is
    done with them finds that they are not UTF-8."""
    with _translate_errors(path, "UTF-8"), _open_decompressed(path) as file:
        yield file


def _suggest_encoding(head: bytes) -> str:
    from charset_normalizer import from_bytes

    encoding = detect(head)
    if encoding is None:
        guess = from_bytes(head, cp_isolation=["cp949", "euc_kr", "utf_16", "johab"]).best()
        encoding = guess.encoding.replace("_", "-") if guess else None
        if encoding in ("cp949", "euc-kr"):  # its bytes fit, but its letters do not
            return "; it may be CP949 with hardly any Korean words, or Chinese or Japanese: convert it to UTF-8"
    if encoding in (None, "utf-8"):  # UTF-8 at first, but not further down
        return "; convert it to UTF-8"
    return f"; it looks like {encoding}: convert it (iconv -f {encoding} -t utf-8)"
