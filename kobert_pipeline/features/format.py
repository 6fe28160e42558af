"""`Features`: the arrays of one split of a fine-tuning set, with the examples they were made from.

Arrays are flat, without padding. For n windows: `windows` (n + 1,) int64, the index of each window's first token, and
arrays (n,) that the task adds. For all tokens: `input_ids`, `token_type_ids`, and arrays that the task adds.

A row of a batch is one window or, for multiple choice, `choices` () windows in a row, the choices of one example.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.files import read_json_lines, write_array, write_json_lines

SPLITS = ("train", "dev", "test")
"""The folders of the splits; dev and test may be missing."""
EXAMPLES = "examples.jsonl"
"""The file with the examples of a split."""


@dataclass(frozen=True)
class Features:
    """`arrays` as described above; `examples` are JSON objects in file order."""

    arrays: dict[str, np.ndarray]
    examples: list[dict[str, Any]]

    def __len__(self) -> int:
        """Number of rows."""
        return (len(self.arrays["windows"]) - 1) // self.choices

    @property
    def choices(self) -> int:
        """Windows per row: 1, or the number of choices of an example."""
        return int(self.arrays.get("choices", 1))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of the longest window of each row, (rows,)."""
        # (n,) windows -> (rows, choices) -> (rows,): the windows of a row are padded to the same length
        lengths: np.ndarray = np.diff(self.arrays["windows"]).reshape(-1, self.choices).max(1)
        return lengths

    def save(self, folder: Path) -> None:
        """Write one .npy file per array, and the examples."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in self.arrays.items():
            write_array(folder / f"{name}.npy", array)
        write_json_lines(folder / EXAMPLES, iter(self.examples))

    @classmethod
    def load(cls, folder: Path) -> "Features":
        """Load what `save` wrote."""
        # memory-mapped, so that only what batches use is read
        arrays = {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}
        return cls(arrays, read_json_lines(folder / EXAMPLES))


def flatten(rows: list[list[int]], kind: Any) -> np.ndarray:
    """Rows of different lengths, concatenated: (sum of lengths,)."""
    # the empty array gives no rows a type, too
    return np.concatenate([np.empty(0, kind), *(np.array(row, kind) for row in rows)]).astype(kind)


def features_of_ids(rows: list[list[int]]) -> Features:
    """The features of single texts that are given as the ids of their tokens, without examples or labels."""
    tokens = flatten(rows, np.int32)
    arrays = {"windows": row_starts(rows), "input_ids": tokens, "token_type_ids": np.zeros(len(tokens), np.uint8)}
    return Features(arrays, [{}] * len(rows))


def concatenate(parts: list[dict[str, np.ndarray]], sizes: list[int]) -> dict[str, np.ndarray]:
    """The arrays of `Features` for all examples, from the arrays of parts that have `sizes` examples each. Tokens and
    examples are then numbered from the start of the first part."""
    # a number such as `choices` is the same in every part
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if parts[0][name].ndim}
    lengths = np.concatenate([np.diff(part["windows"]) for part in parts])
    joined["windows"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if "example" in joined:
        firsts = np.cumsum([0, *sizes[:-1]])
        joined["example"] = np.concatenate([part["example"] + first for part, first in zip(parts, firsts, strict=True)])
    return parts[0] | joined


def row_starts(rows: list[list[int]]) -> np.ndarray:
    """The index of each row's first element in `flatten(rows)`, and the end: (n + 1,)."""
    return np.cumsum([0] + [len(row) for row in rows], dtype=np.int64)
