"""The noun of fine-tuning: `Features`, the arrays of one split, with the examples they were made from.

Arrays are flat. Per window (n windows): `windows` (n + 1,) int64, where each begins among the tokens; whatever the task
adds, (n,). Per token: `input_ids`, `token_type_ids`, and what the task adds.

A model takes rows: a window each or, where `choices` () says how many, that many windows behind one another, the
choices of one example.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.files import read_json_lines, write_array, write_json_lines


@dataclass(frozen=True)
class Features:
    """`arrays` as above; `examples` are JSON objects in the order of the file."""

    arrays: dict[str, np.ndarray]
    examples: list[dict[str, Any]]

    def __len__(self) -> int:
        """Rows."""
        return (len(self.arrays["windows"]) - 1) // self.choices

    @property
    def choices(self) -> int:
        """Windows in a row: 1, or as many as an example has choices."""
        return int(self.arrays.get("choices", 1))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens per row, those of its longest window, (rows,)."""
        lengths: np.ndarray = np.diff(self.arrays["windows"]).reshape(-1, self.choices).max(1)
        return lengths

    def save(self, folder: Path) -> None:
        """Write an .npy file per array and examples.jsonl."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in self.arrays.items():
            write_array(folder / f"{name}.npy", array)
        write_json_lines(folder / "examples.jsonl", iter(self.examples))

    @classmethod
    def load(cls, folder: Path) -> "Features":
        """What `save` wrote."""
        arrays = {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}
        return cls(arrays, read_json_lines(folder / "examples.jsonl"))


def flatten(rows: list[list[int]], kind: Any) -> np.ndarray:
    """Rows of different length behind one another."""
    return np.concatenate([np.empty(0, kind), *(np.array(row, kind) for row in rows)]).astype(kind)


def row_starts(rows: list[list[int]]) -> np.ndarray:
    """Where each row of `flat` begins, and the end: (n + 1,)."""
    return np.cumsum([0] + [len(row) for row in rows], dtype=np.int64)
