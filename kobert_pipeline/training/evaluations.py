"""What was measured during a training, by step, kept on disk so that a resumed run still knows it."""

from pathlib import Path

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import Damaged
from kobert_pipeline.files import files_below, read_json_with_digest, sha256, write_json_with_digest

DECIMALS = 6
EVALUATIONS = "evaluations.json"
"""The file of a fine-tuning's or pretraining's evaluations."""


def rounded(values: dict[str, float]) -> dict[str, float]:
    """As they are kept: whoever compares them with kept ones rounds first, or equals differ."""
    return {name: round(value, DECIMALS) for name, value in values.items()}


def read_evaluations(path: Path) -> dict[int, dict[str, float]]:
    """{step: {name: value}} of a training, {} where nothing was measured yet. Raises Damaged for a file that was
    changed."""
    return (
        {int(step): values for step, values in read_json_with_digest(path)["values"].items()} if path.exists() else {}
    )


class Evaluations:
    """{step: {name: value}} in a JSON file, with the SHA-256 of the model that was the best so far; measuring a step
    again writes the same numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values = read_evaluations(path)
        self.kept: dict[str, str] = read_json_with_digest(path)["kept"] if path.exists() else {}

    def __contains__(self, step: int) -> bool:
        return step in self.values

    def __getitem__(self, step: int) -> dict[str, float]:
        return self.values[step]

    def add(self, step: int, values: dict[str, float], kept: Path | None = None) -> dict[str, float]:
        """Note the values of `step`, rounded to `DECIMALS`; returns them. `kept` is the folder of its model, if it is
        the best so far."""
        self.values[step] = rounded(values)
        if is_main_process():
            if kept:
                self.kept = {name: sha256(kept / name) for name in files_below(kept)}
            ordered = {str(step): self.values[step] for step in sorted(self.values)}
            write_json_with_digest(self.path, {"values": ordered, "kept": self.kept})
        return self.values[step]

    def verify_kept(self, folder: Path) -> None:
        """Raise Damaged unless the folder holds the model that was the best, unchanged: a training may have been
        stopped meanwhile."""
        for name, expected in self.kept.items():
            if not (folder / name).is_file() or sha256(folder / name) != expected:
                said = "has changed since it was written" if (folder / name).is_file() else "is missing"
                raise Damaged(
                    f"{folder / name}, of the model of the best step, {said}; make the stage again with --redo"
                )
