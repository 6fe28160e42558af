"""Files of every format and compression, for the tests of this room."""

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import openpyxl
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


def xlsx(path: Path, rows: list[list[Any]], title: str = "표") -> Path:
    """The path of a new Excel file with these rows, whose texts are no formulas, however they begin."""
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = title
    for number, row in enumerate(rows, 1):
        for column, value in enumerate(row, 1):
            cell = sheet.cell(number, column, value)
            if isinstance(value, str):
                cell.data_type = "s"
    workbook.save(path)
    return path
