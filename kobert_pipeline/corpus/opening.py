"""Open files of any compression as text: strictly in the encoding they claim, or line by line in the one they are found to have."""

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from kobert_pipeline.corpus.encoding import decoded, detect
from kobert_pipeline.corpus.file_kind import other_format
from kobert_pipeline.corpus.unfit import Unfit
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import parse_json

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""Ends of names of files that are decompressed on the way."""
ZSTD_WINDOW = 2**31
"""Long-distance zstd frames are read too."""


def _binary(path: Path) -> IO[bytes]:
    match path.suffix:
        case ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        case ".bz2":
            return cast(IO[bytes], bz2.open(path, "rb"))
        case ".xz":
            return cast(IO[bytes], lzma.open(path, "rb"))
        case ".zst":
            import zstandard

            return io.BufferedReader(_Blocks(_frames(path, zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW))))
        case _:
            return path.open("rb")


def _frames(path: Path, decompressor: Any) -> Iterator[bytes]:
    """The content of all frames; unlike zstandard's own reader this raises EOFError where the last one is cut off."""
    with path.open("rb") as file:
        frame = None
        while block := (frame.unused_data if frame and frame.eof else b"") or file.read(2**17):
            frame = frame if frame and not frame.eof else decompressor.decompressobj()
            yield frame.decompress(block)
        if frame and not frame.eof:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.blocks, self.rest = blocks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.rest:
            block = next(self.blocks, None)
            if block is None:
                return 0
            self.rest = block
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count


@contextmanager
def open_text(path: Path, encoding: str = "utf-8") -> Iterator[IO[str]]:
    """Open `path` for reading text; a byte order mark is swallowed. Raises UserError for a missing, empty, binary, cut-off or
    otherwise encoded file, also when that shows only on reading."""
    with _refusing(path, encoding) as head:
        codec = codecs.lookup(encoding).name
        if b"\x00" in head and not codec.startswith(("utf-16", "utf-32")):
            raise Unfit("binary", f"{path} is a binary file (it holds null bytes), not text in {encoding}")
        with _binary(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig" if codec == "utf-8" else codec, newline="\n") as file:
            yield file


@contextmanager
def open_lines(path: Path, encoding: str | None = None) -> Iterator[Iterator[str]]:
    """The lines of a file in a given or, by default, in its own encoding (UTF-8, CP949, UTF-16), with their ends. A line that does not
    fit the encoding found holds U+FFFD for what is lost. Raises UserError as `open_text`, and where no Korean encoding fits."""
    if encoding:
        with open_text(path, encoding) as file:
            yield iter(file)
        return
    with _refusing(path, "text in UTF-8, CP949 or UTF-16") as head:
        found = detect(head)
        if found is None:
            wanted = "text in UTF-8, CP949 or UTF-16"
            what = f"a binary file (it holds null bytes), {wanted} was expected" if b"\x00" in head else f"not {wanted}{_guess(head)}"
            reason = "binary" if b"\x00" in head else "encoding"
            raise Unfit(reason, f"{path} is {what}; of a source of the corpus, the option `encoding` may name another encoding")
        with _binary(path) as raw:
            if found.startswith("utf-16") or found == "utf-32":
                yield iter(io.TextIOWrapper(raw, encoding=found, newline="\n"))
            else:
                yield _lines(raw, found)


def read_json_text(path: Path, lines: Iterable[str]) -> Any:
    """The value that the lines of `path` spell. Raises UserError where they are not JSON, or nested too deep."""
    try:
        return parse_json("".join(lines))
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        raise Unfit("not_json", f"{path} is not a JSON file ({error})") from None


def _lines(raw: IO[bytes], codec: str) -> Iterator[str]:
    """The lines of a file in UTF-8 or CP949. Raises UnicodeDecodeError where it ends inside a character: it was cut off."""
    for line in raw:
        if not line.endswith(b"\n") and codec == "utf-8" and not line.isascii():
            try:
                line.decode(codec)
            except UnicodeDecodeError as error:
                if error.end == len(line) and "end of data" in error.reason:
                    raise
        yield decoded(line, codec).removeprefix("\ufeff")


@contextmanager
def _refusing(path: Path, encoding: str) -> Iterator[bytes]:
    """Gives the file's first bytes; errors of decoding and decompression within become sentences."""
    head = b""
    if not path.is_file():
        raise UserError(f"{path} is not a file; check the path and data_dir")
    if path.stat().st_size == 0:
        raise Unfit("empty", f"{path} is empty; there is nothing to read in it")
    try:
        with _binary(path) as raw:
            head = raw.read(65536)
        if found := other_format(head):
            raise Unfit(found[0], f"{path} is {found[1]}")
        yield head
    except LookupError:
        raise UserError(f"{path}: there is no encoding {encoding!r}; write for example utf-8, cp949 or utf-16") from None
    except UnicodeDecodeError as error:
        if "end of data" in error.reason:
            raise Unfit("damaged", f"{path} is cut off in the middle of a character; fetch it again") from None
        raise Unfit("encoding", f"{path} is not {encoding} ({error.reason}){_guess(head)}") from None
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
    with _refusing(path, "bytes"), _binary(path) as file:
        yield file


def _guess(head: bytes) -> str:
    from charset_normalizer import from_bytes

    found = from_bytes(head, cp_isolation=["cp949", "euc_kr", "utf_16", "johab"]).best()
    if found is None:
        return "; convert it to UTF-8"
    return f"; it looks like {found.encoding}: convert it (iconv -f {found.encoding} -t utf-8)"
