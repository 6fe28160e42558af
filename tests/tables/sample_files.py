"""Files of every format and compression, for the tests of this room."""

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import zstandard

COMPRESSIONS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,  # as the zstd command writes it
}


def write(path: Path, content: str | bytes, encoding: str = "utf-8") -> Path:
    """The path of a new file with this content."""
    path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
    return path


def parquet(path: Path, columns: dict[str, Any]) -> Path:
    """The path of a new Parquet file with these columns."""
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def squad(*questions: Any, context: Any = "민수가 갔다") -> str:
    """The text of a file in SQuAD form with one context."""
    return json.dumps({"data": [{"title": "글", "paragraphs": [{"context": context, "qas": list(questions)}]}]})
