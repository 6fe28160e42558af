"""Experiment trackers (TensorBoard, Weights & Biases, trackio), through accelerate. They get the fields of the log.

Trackers do not change a result and are no part of a fingerprint. No torch here at import, because `kobert check` reads
the option `report_to`.
"""

import importlib.util
import os
import secrets
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json

Tracker = Literal["tensorboard", "wandb", "trackio"]
"""Each is also the name of its library and of our extra that installs it."""
ID_FILE = "tracker.json"
"""The training's identity for trackers, in its folder of logs, so that a resumed run continues the same curve."""


@dataclass(frozen=True)
class Tracking:
    """What tracks a training, and under which names."""

    report_to: tuple[Tracker, ...] = ()
    project: str = "kobert"
    """The name of the run."""
    name: str = "train"
    """The name of the job."""
    folder: Path = Path()
    """The folder of the run, where trackers write that have no place of their own."""

    def refuse_missing_libraries(self) -> None:
        """Raise UserError unless the libraries of all trackers are installed."""
        for name in self.report_to:
            if importlib.util.find_spec(name) is None:
                raise UserError(
                    f"report_to: {name} is not installed here; pip install 'kobert-pipeline[{name}]', or leave it out"
                )

    def start(self, logs: Path, step: int) -> list[Any]:
        """The started trackers of a training whose log is in the folder `logs`, and which resumes after `step`. Raises
        UserError where one does not start."""
        if not self.report_to:
            return []
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        run_id = _run_id(logs / ID_FILE, f"{self.name.replace('/', '-')}")
        # read by trackio when it is imported; a folder that the user chose stays
        os.environ.setdefault("TRACKIO_DIR", str(self.folder / "trackio"))
        arguments: dict[str, dict[str, Any]] = {
            # hides what a killed run logged after its last checkpoint, since it is logged again
            "tensorboard": {"run_name": logs.name, "logging_dir": logs.parent, "purge_step": step + 1},
            "wandb": {"run_name": self.project, "name": self.name, "id": run_id, "resume": "allow"}
            | ({} if "WANDB_DIR" in os.environ else {"dir": str(self.folder)}),
            "trackio": {"run_name": self.project, "name": run_id, "resume": "allow"},
        }
        trackers = []
        for name in self.report_to:
            tracker = LOGGER_TYPE_TO_CLASS[name](**arguments[name])
            try:
                # trackers get no options of the recipe: TensorBoard's would be written to a folder that no record lists
                with redirect_stdout(sys.stderr):  # trackers greet, and standard output may be one JSON object
                    tracker.start()
            except Exception as error:
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                raise UserError(f"report_to: {name} does not start: {reason}; set it up, or leave it out") from error
            trackers.append(tracker)
        return trackers


def finish(trackers: list[Any]) -> None:
    """Let the trackers write what they have, and close them."""
    for tracker in trackers:
        with redirect_stdout(sys.stderr):
            tracker.finish()


def _run_id(path: Path, name: str) -> str:
    """The identity in the file, or a new one: a stage that was deleted by --redo begins another curve."""
    if not path.is_file():
        write_json(path, {"id": f"{name}-{secrets.token_hex(4)}"})
    return str(read_json(path)["id"])
