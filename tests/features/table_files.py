"""Tables of labelled texts, written as each kind of file."""

import json
from pathlib import Path
from typing import Any


def write_table(path: Path, *records: dict[str, Any]) -> Path:
    """The records as JSON Lines, TSV or CSV, by the suffix; returns the path."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    else:
        separator = {".tsv": "\t", ".csv": ","}[path.suffix]
        lines = [list(records[0]), *(list(record.values()) for record in records)]
        path.write_text("".join(separator.join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return path
