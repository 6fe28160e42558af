"""What was measured during a training, by step, kept on disk so that a resumed run still knows it."""

from pathlib import Path

from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.processes import leads

DECIMALS = 6
EVALUATIONS = "evaluations.json"
"""The file of a fine-tuning's or pretraining's evaluations."""


def rounded(values: dict[str, float]) -> dict[str, float]:
    """As they are kept: whoever compares them with kept ones rounds first, or equals differ."""
    return {name: round(value, DECIMALS) for name, value in values.items()}


class Evaluations:
    """{step: {name: value}} in a JSON file; measuring a step again puts the same numbers there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[int, dict[str, float]] = {}
        if path.exists():
            self.values = {int(step): values for step, values in read_json(path).items()}

    def __contains__(self, step: int) -> bool:
        return step in self.values

    def __getitem__(self, step: int) -> dict[str, float]:
        return self.values[step]

    def add(self, step: int, values: dict[str, float]) -> dict[str, float]:
        """Keep the values of `step`, rounded to `DECIMALS`; returns them."""
        self.values[step] = rounded(values)
        if leads():
            write_json(self.path, {str(step): self.values[step] for step in sorted(self.values)})
        return self.values[step]
