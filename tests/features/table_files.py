"""Tables of labelled texts, written as each kind of file."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet


def write_table(path: Path, *records: dict[str, Any]) -> Path:
    """The records as JSON, JSON Lines, Parquet, TSV or CSV, by the suffix; returns the path."""
    if path.suffix == ".json":
        path.write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(records)), path)
    else:
        separator = {".tsv": "\t", ".csv": ","}[path.suffix]
        lines = [list(records[0]), *(list(record.values()) for record in records)]
        path.write_text("".join(separator.join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return path
