"""The results of the evaluations during a training, by step, kept on disk so that a resumed run still has them."""

from pathlib import Path

from kobert_pipeline.distributed import is_main_process
from kobert_pipeline.errors import Damaged
from kobert_pipeline.files import files_below, read_json_with_digest, sha256, write_json_with_digest

DECIMALS = 6
EVALUATIONS = "evaluations.json"
"""Name of the file, in the folder of a fine-tuning or pretraining."""


def rounded(values: dict[str, float]) -> dict[str, float]:
    """`values` as they are stored. Round before comparing with stored ones, or equal scores would differ."""
    return {name: round(value, DECIMALS) for name, value in values.items()}


def read_evaluations(path: Path) -> dict[int, dict[str, float]]:
    """{step: {name: value}} of a training, {} before its first evaluation. Raises Damaged for a file that has changed
    since it was written."""
    if not path.exists():
        return {}
    return {int(step): values for step, values in read_json_with_digest(path)["values"].items()}


class Evaluations:
    """{step: {name: value}} in a JSON file, with the best step so far and the SHA-256 of its model's files.

    A resumed run evaluates some steps again, which overwrites them: on the same machine with the same numbers. On
    another one they may differ, so the best step keeps its values as long as the files of its model are kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values = read_evaluations(path)
        stored = read_json_with_digest(path) if path.exists() else {}
        self.best_files: dict[str, str] = stored.get("kept", {})
        self.best_step: int | None = stored.get("kept_step")

    def __contains__(self, step: int) -> bool:
        return step in self.values

    def __getitem__(self, step: int) -> dict[str, float]:
        return self.values[step]

    def add(
        self, step: int, values: dict[str, float], is_best: bool = False, best_folder: Path | None = None
    ) -> dict[str, float]:
        """Record the values of `step`, and return them rounded. `best_folder`: where its model was saved, if it is the
        best so far."""
        # on every rank, because each decides from these values whether to stop early
        if is_best or step != self.best_step:
            self.values[step] = rounded(values)
        self.best_step = step if is_best else self.best_step
        if is_main_process():
            if best_folder:
                self.best_files = {name: sha256(best_folder / name) for name in files_below(best_folder)}
            ordered = {str(step): self.values[step] for step in sorted(self.values)}
            write_json_with_digest(self.path, {"values": ordered, "kept": self.best_files, "kept_step": self.best_step})
        return self.values[step]

    def verify_best(self, folder: Path) -> None:
        """Raise Damaged unless `folder` holds the best model unchanged. A training may be resumed days after that model
        was saved."""
        for name, expected in self.best_files.items():
            path = folder / name
            if not path.is_file() or sha256(path) != expected:
                problem = "has changed since it was written" if path.is_file() else "is missing"
                raise Damaged(f"{path}, part of the model of the best step, {problem}; run the stage again with --redo")
