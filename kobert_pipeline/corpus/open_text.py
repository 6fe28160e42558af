"""Open files of any compression as text: strictly in the encoding they claim, or line by line in the one they are found
to have."""

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, AnyStr, cast

from kobert_pipeline.corpus.encoding import decode_line, detect
from kobert_pipeline.corpus.file_kind import detect_format
from kobert_pipeline.corpus.unfit import Unfit
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import parse_json

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""Ends of names of files that are decompressed on the way."""
ZSTD_WINDOW = 2**31
"""Long-distance zstd frames are read too."""
ZSTD_BLOCK = 2048
"""Bytes that are decompressed at once: four of them may stand for 128 KB of zeros, so this many give 64 MB at most."""
LONGEST_LINE = 100_000_000
"""Bytes (characters in UTF-16) of a line; what is longer is skipped."""
LARGEST_JSON = 2**30
"""Characters of a JSON file, which is in memory whole."""


def _open_decompressed(path: Path) -> IO[bytes]:
    match path.suffix:
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
    """The content of all frames; unlike zstandard's own reader this raises EOFError where the last one is cut off."""
    with path.open("rb") as file:
        frame = None
        while block := (frame.unused_data if frame and frame.eof else b"") or file.read(ZSTD_BLOCK):
            frame = frame if frame and not frame.eof else decompressor.decompressobj()
            yield frame.decompress(block)
        if frame and not frame.eof:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")


class _BlockFile(io.RawIOBase):
    """Blocks of bytes as a file."""

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
    """Stands for a line with more bytes than are read at once, of which it holds nothing."""


def bounded_lines(file: IO[AnyStr], longest: int) -> Iterator[AnyStr | TooLong]:
    """The lines of a file; those with more than `longest` bytes or characters are read past and given as `TooLong`."""
    while line := file.readline(longest):
        if len(line) < longest or _ends(line):
            yield line
            continue
        rest = file.readline(longest)
        if not rest:
            yield line
            return
        while rest and not _ends(rest):
            rest = file.readline(longest)
        yield TooLong("...")


def _ends(line: str | bytes) -> bool:
    return line.endswith("\n") if isinstance(line, str) else line.endswith(b"\n")


def refuse_too_long(path: Path, number: int, line: str) -> None:
    """Raise UserError for a `TooLong` line of a table, which is damaged rather than long."""
    if isinstance(line, TooLong):
        raise Unfit(
            "too_long",
            f"{path}, line {number}: it has more bytes than a line may have ({LONGEST_LINE:,}); is a line end missing?",
        )


@contextmanager
def open_text(path: Path, encoding: str = "utf-8") -> Iterator[IO[str]]:
    """Open `path` for reading text; a byte order mark is swallowed. Raises UserError for a missing, empty, binary,
    cut-off or otherwise encoded file, also when that shows only on reading."""
    with _translate_errors(path, encoding) as head:
        codec = codecs.lookup(encoding).name
        if b"\x00" in head and not codec.startswith(("utf-16", "utf-32")):
            raise Unfit("binary", f"{path} is a binary file (it holds null bytes), not text in {encoding}")
        with (
            _open_decompressed(path) as raw,
            io.TextIOWrapper(raw, encoding="utf-8-sig" if codec == "utf-8" else codec, newline="\n") as file,
        ):
            yield file


@contextmanager
def open_lines(path: Path, encoding: str | None = None, longest: int = LONGEST_LINE) -> Iterator[Iterator[str]]:
    """The lines of a file in a given or, by default, in its own encoding (UTF-8, CP949, UTF-16), with their ends. A
    line that does not fit the encoding found holds U+FFFD for what is lost; one that is longer than `longest` is
    `TooLong`. Raises UserError as `open_text`, and where no Korean encoding fits."""
    if encoding:
        with open_text(path, encoding) as file:
            yield bounded_lines(file, longest)
        return
    with _translate_errors(path, "text in UTF-8, CP949 or UTF-16") as head:
        found = detect(head)
        if found is None:
            wanted = "text in UTF-8, CP949 or UTF-16"
            what = (
                f"a binary file (it holds null bytes), {wanted} was expected"
                if b"\x00" in head
                else f"not {wanted}{_suggest_encoding(head)}"
            )
            reason = "binary" if b"\x00" in head else "encoding"
            raise Unfit(
                reason, f"{path} is {what}; of a source of the corpus, the option `encoding` may name another encoding"
            )
        with _open_decompressed(path) as raw:
            if found.startswith("utf-16") or found == "utf-32":
                yield bounded_lines(io.TextIOWrapper(raw, encoding=found, newline="\n"), longest)
            else:
                yield _decoded_lines(raw, found, longest)


def read_json_text(path: Path, lines: Iterable[str]) -> Any:
    """The value that the lines of `path` spell. Raises UserError where they are not JSON, nested too deep or too many
    for memory."""
    try:
        lines = _limited(path, lines)
        return parse_json("".join(lines))
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        raise Unfit("not_json", f"{path} is not a JSON file ({error})") from None


def _limited(path: Path, lines: Iterable[str]) -> Iterator[str]:
    """The lines. Raises UserError when together they are longer than `LARGEST_JSON`."""
    size = 0
    for line in lines:
        size += LARGEST_JSON if isinstance(line, TooLong) else len(line)
        if size >= LARGEST_JSON:
            raise Unfit(
                "too_large",
                f"{path} holds more than {LARGEST_JSON:,} characters, too many for a JSON file, which is read at once; "
                f"split it, or make it JSON Lines",
            )
        yield line


def _decoded_lines(raw: IO[bytes], codec: str, longest: int) -> Iterator[str]:
    """The lines of a file in UTF-8 or CP949. Raises UnicodeDecodeError where it ends inside a character: it was cut
    off."""
    for line in bounded_lines(raw, longest):
        if isinstance(line, str):
            yield line
            continue
        if not line.endswith(b"\n") and codec == "utf-8" and not line.isascii():
            try:
                line.decode(codec)
            except UnicodeDecodeError as error:
                if error.end == len(line) and "end of data" in error.reason:
                    raise
        yield decode_line(line, codec).removeprefix("\ufeff")


@contextmanager
def _translate_errors(path: Path, encoding: str) -> Iterator[bytes]:
    """Gives the file's first bytes; errors of decoding and decompression within become sentences."""
    head = b""
    if not path.is_file():
        raise UserError(f"{path} is not a file; check the path and data_dir")
    if path.stat().st_size == 0:
        raise Unfit("empty", f"{path} is empty; there is nothing to read in it")
    try:
        with _open_decompressed(path) as raw:
            head = raw.read(65536)
        if found := detect_format(head):
            raise Unfit(found[0], f"{path} is {found[1]}")
        yield head
    except LookupError:
        raise UserError(
            f"{path}: there is no encoding {encoding!r}; write for example utf-8, cp949 or utf-16"
        ) from None
    except UnicodeDecodeError as error:
        if "end of data" in error.reason:
            raise Unfit("damaged", f"{path} is cut off in the middle of a character; fetch it again") from None
        raise Unfit("encoding", f"{path} is not {encoding} ({error.reason}){_suggest_encoding(head)}") from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise Unfit("damaged", f"{path} is damaged ({error}); fetch it again") from None
    except Exception as error:
        # bz2 raises a bare OSError, without the number that errors of the system have
        if type(error).__name__ == "ZstdError" or (isinstance(error, OSError) and error.errno is None):
            raise Unfit("damaged", f"{path} is damaged ({error}); fetch it again") from None
        raise


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """The decompressed bytes of a file. Raises UserError for a missing, empty or cut-off one."""
    with _translate_errors(path, "bytes"), _open_decompressed(path) as file:
        yield file


def _suggest_encoding(head: bytes) -> str:
    from charset_normalizer import from_bytes

    found = from_bytes(head, cp_isolation=["cp949", "euc_kr", "utf_16", "johab"]).best()
    if found is None:
        return "; convert it to UTF-8"
    return f"; it looks like {found.encoding}: convert it (iconv -f {found.encoding} -t utf-8)"
