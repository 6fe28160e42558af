"""Open text files of any compression, strictly in the encoding they claim: mojibake is never passed on."""

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from kobert_pipeline.errors import UserError

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

            return cast(IO[bytes], zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).stream_reader(path.open("rb"), closefd=True))
        case _:
            return path.open("rb")


@contextmanager
def open_text(path: Path, encoding: str = "utf-8") -> Iterator[IO[str]]:
    """Open `path` for reading text; a byte order mark is swallowed. Raises UserError for a missing, empty, binary, cut-off or
    otherwise encoded file, also when that shows only on reading."""
    if not path.is_file():
        raise UserError(f"{path} is not a file; check the path and data_dir")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; there is nothing to read in it")
    try:
        with _binary(path) as raw:
            head = raw.read(65536)
        if b"\x00" in head and not encoding.startswith("utf-16"):
            raise UserError(f"{path} is a binary file (it holds null bytes), not text in {encoding}")
        with _binary(path) as raw, io.TextIOWrapper(raw, encoding=encoding.replace("utf-8", "utf-8-sig"), newline="\n") as file:
            yield file
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not {encoding} ({error.reason}){_guess(head)}") from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise UserError(f"{path} is damaged ({error}); fetch it again") from None
    except Exception as error:
        if type(error).__name__ == "ZstdError":
            raise UserError(f"{path} is damaged ({error}); fetch it again") from None
        raise


def _guess(head: bytes) -> str:
    from charset_normalizer import from_bytes

    found = from_bytes(head, cp_isolation=["cp949", "euc_kr", "utf_16", "johab"]).best()
    if found is None:
        return "; give its encoding, for example encoding: cp949"
    return f"; it looks like {found.encoding}: say encoding: {found.encoding}, or convert it to UTF-8"
