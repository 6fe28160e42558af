"""Vectors in files: JSON Lines, Parquet and NumPy, written in parts and joined at the end.

While a command runs, its parts are in the folder OUT.parts, which is deleted when OUT is complete. An interrupted
command finds them there and computes only the others, so it writes the same file as one that was not interrupted.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import (
    SURROGATES,
    atomic_write,
    digest,
    finish_part,
    finished_part,
    locked,
    read_json_with_digest,
    refuse_unwritable,
    remove_if_empty,
    remove_tree,
    write_array,
    write_json_lines,
    write_json_with_digest,
)
from kobert_pipeline.progress import report

Columns = dict[str, Any]
"""Lists of one length by name, and `embedding`, the array (n, d) float32 of their vectors."""
Embed = Callable[[list[str], int], tuple[Columns, dict[str, int]]]
"""A function of some texts and the number of the first one; it gives their columns, and whatever is counted."""
RECORD, LOCK = "started.json", ".lock"


def json_rows(columns: Columns) -> Iterator[dict[str, Any]]:
    """One JSON object per row. Numbers are the shortest decimals that give the same float32."""
    others = {name: values for name, values in columns.items() if name != "embedding"}
    for index, vector in enumerate(columns["embedding"]):
        row = {name: values[index] for name, values in others.items()}
        row["embedding"] = short_floats(vector)
        yield row


def short_floats(vector: np.ndarray) -> list[float]:
    """The numbers of a float32 vector; as they are, Python would print them with twice the digits."""
    numbers: list[float] = vector.astype(str).astype(float).tolist()
    return numbers


def _join_json_lines(parts: list[Path], path: Path) -> None:
    with path.open("wb") as file:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, file)


def _write_parquet(path: Path, columns: Columns) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    vectors = columns["embedding"]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), pa.float32()), vectors.shape[1])
    kinds = {"index": pa.int64(), "start": pa.int32(), "end": pa.int32()}
    # types are stated, since all values of a part may be null
    arrays = {
        # Parquet holds no half characters, which JSON may hold
        name: pa.array(values, kinds[name]) if name in kinds
        else pa.array([value and SURROGATES.sub("\ufffd", value) for value in values], pa.string())
        for name, values in columns.items() if name != "embedding"
    }  # fmt: skip
    with atomic_write(path) as part:
        parquet.write_table(pa.table(arrays | {"embedding": lists}), part)


def _join_parquet(parts: list[Path], path: Path) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(path, parquet.read_schema(parts[0])) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part))


def _write_npy(path: Path, columns: Columns) -> None:
    write_array(path, columns["embedding"])


def _join_npy(parts: list[Path], path: Path) -> None:
    arrays = [np.load(part, mmap_mode="r") for part in parts]
    shape = (sum(map(len, arrays)), arrays[0].shape[1])
    # from file to file, so that memory does not grow with the number of texts
    joined = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    first = 0
    for array in arrays:
        joined[first : first + len(array)] = array
        first += len(array)
    joined.flush()


@dataclass(frozen=True)
class Format:
    """How a part is written, and how parts become one file."""

    write: Callable[[Path, Columns], None]
    join: Callable[[list[Path], Path], None]


FORMATS = {
    ".jsonl": Format(lambda path, columns: write_json_lines(path, json_rows(columns)), _join_json_lines),
    ".parquet": Format(_write_parquet, _join_parquet),
    ".npy": Format(_write_npy, _join_npy),
}
"""{suffix of a file: its format}."""


def write_vectors(
    out: Path,
    record: dict[str, Any],
    chunks: Iterable[list[str]],
    embed: Embed,
    total: int | None,
    parts_in: Path | None = None,
) -> dict[str, int]:
    """Write the vectors of all texts to `out`, and return the sums of what was counted.

    Args:
        record: all that the vectors depend on besides the texts; a command that resumes must have the same.
        chunks: the texts, at least one; a chunk's texts become a part.
        total: the number of texts, for the progress; None where nobody knows.
        parts_in: the folder of the parts; None: `out` with `.parts` added.

    Raises UserError where `out` exists, or where parts are of another record or of other texts.
    """
    refuse_unwritable(out, "--out", FORMATS)
    remaining = iter(chunks)
    first = next(remaining)  # input that cannot be read is refused before there is anything to resume
    folder = parts_in or out.with_name(out.name + ".parts")
    # hidden files do not count: the lock file is made before the record, and a kill may come in between
    if os.path.lexists(folder) and not (folder / RECORD).is_file() and any(folder.glob("[!.]*")):
        raise UserError(f"{folder} holds files that kobert did not write; choose another --out")
    with locked(folder):
        _check_record(folder, record)
        parts, counts = _write_parts(folder, out.suffix, chain([first], remaining), embed, total)
        # in the folder of the parts, so that a kill leaves nothing half-written next to `out`
        joined = folder / f"joined{out.suffix}"
        with atomic_write(joined) as path:
            FORMATS[out.suffix].join(parts, path)
        refuse_unwritable(out, "--out", FORMATS)  # it may have appeared meanwhile
        joined.replace(out)
        remove_tree(folder, [f"[0-9]*{out.suffix}", RECORD, LOCK])
    remove_if_empty(folder)
    return counts


def _write_parts(
    folder: Path, suffix: str, chunks: Iterable[list[str]], embed: Embed, total: int | None
) -> tuple[list[Path], dict[str, int]]:
    """The parts of all chunks, in order, and the sums of what was counted."""
    parts, counts, done = [], dict[str, int](), 0
    report("embedding", done, total, "texts")
    for part_index, texts in enumerate(chunks):
        parts.append(folder / f"{part_index:06d}{suffix}")
        for name, count in _part_counts(parts[-1], texts, done, embed).items():
            counts[name] = counts.get(name, 0) + count
        done += len(texts)
        report("embedding", done, total, "texts")
    return parts, counts


def _part_counts(path: Path, texts: list[str], first: int, embed: Embed) -> dict[str, int]:
    """The counts of a part, which is written unless it is there already."""
    record = finished_part(path)
    if record is None:
        columns, counted = embed(texts, first)
        FORMATS[path.suffix].write(path, columns)
        record = {"texts": digest(texts), "counts": counted}
        finish_part(path, record)
    elif record["texts"] != digest(texts):
        raise UserError(
            f"{path} is of an interrupted run on other texts; give it the same texts, choose another --out, or delete "
            f"{path.parent}"
        )
    counts: dict[str, int] = record["counts"]
    return counts


def _check_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the record, or compare it with the record of the run that is resumed."""
    if not (folder / RECORD).is_file():
        write_json_with_digest(folder / RECORD, record)
        return
    before = read_json_with_digest(folder / RECORD)
    # through JSON, where tuples are lists
    now = json.loads(json.dumps(record))
    if changed := [name for name in record if before.get(name) != now[name]]:
        raise UserError(
            f"{folder} holds an interrupted run with another {', '.join(changed)}; repeat its command, choose another "
            f"--out, or delete {folder}"
        )
