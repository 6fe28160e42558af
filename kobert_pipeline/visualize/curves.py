"""Learning curves: the numbers that trainings wrote to their logs, of several runs in one picture."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.visualize import figures

LOG = "logs/log.jsonl"
NOT_METRICS = {"step", "seconds", "minutes_left"}
PANEL = (5.0, 3.2)
"""Width and height of a panel in inches."""


@dataclass(frozen=True)
class Curve:
    """One metric of one training: the value at each logged step, in order. `training` is the folder below the run,
    without the seed of a fine-tuning, so that seeds share a panel."""

    run: str
    training: str
    metric: str
    values: dict[int, float]


def curves(run_dirs: Sequence[Path], metrics: Sequence[str] = ()) -> list[Curve]:
    """The curves of the `metrics` in all logs of runs; by default the training loss and the first metric of the
    evaluations, which selects the checkpoint. Raises UserError for a run without a log, or a metric that no log
    has."""
    names = [run_dir.name for run_dir in run_dirs]
    all_curves, logged = [], set[str]()
    for run_dir, name in zip(run_dirs, names, strict=True):
        title = name if names.count(name) == 1 and name else str(run_dir)
        folders = [path.parent.parent for path in sorted(run_dir.rglob(LOG))]
        logs = [(folder, read_log(folder / LOG)) for folder in folders if not _is_trial(run_dir, folder)]
        if not any(rows for _, rows in logs):
            raise UserError(f"{run_dir} has no {LOG} of a training in it or below; name the folder of a run")
        for folder, rows in logs:
            logged |= {key for row in rows for key in row} - NOT_METRICS
            training = _training(run_dir, folder)
            all_curves += [
                Curve(title, training, metric, _values(rows, metric)) for metric in metrics or _default(rows)
            ]
    if unknown := [metric for metric in metrics if metric not in logged]:
        raise UserError(f"--metric {unknown[0]!r:.60} is in no log{did_you_mean(unknown[0], logged)}")
    return [curve for curve in all_curves if curve.values]


def read_log(path: Path) -> list[dict[str, float]]:
    """The rows of a log. A last line that a kill has cut off is left out. Raises UserError for another line that is no
    JSON object with a step."""
    # with line ends: only a line without one may be what a kill has cut off
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    rows = []
    for line_number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append({key: value for key, value in row.items() if isinstance(value, int | float)})
        elif line.endswith("\n"):
            raise UserError(f"{path}, line {line_number} is no JSON object with a step; the log was damaged or edited")
    return rows


def _values(rows: Iterable[dict[str, float]], metric: str) -> dict[int, float]:
    """The value at each step. Of a step that was logged again after a training was resumed, the last one."""
    values = {int(row["step"]): row[metric] for row in rows if metric in row}
    return dict(sorted(values.items()))


def _default(rows: Iterable[dict[str, float]]) -> list[str]:
    evaluation = next((key for row in rows for key in row if key.startswith("evaluation_")), None)
    return ["loss"] if evaluation is None else ["loss", evaluation]


def _is_trial(run_dir: Path, folder: Path) -> bool:
    """Whether a folder is of a trial of a grid: finetune/NAME/grid/TRIAL."""
    return "grid" in folder.relative_to(run_dir).parts


def _training(run_dir: Path, folder: Path) -> str:
    parts = folder.relative_to(run_dir).parts or (folder.absolute().name,)
    return "/".join(parts[:-1] if parts[0] == "finetune" and len(parts) > 2 else parts)


def draw(path: Path, all_curves: Sequence[Curve]) -> None:
    """Write a picture, PNG or SVG: a row of panels for each training, and a panel for each of its metrics. A run has
    one colour."""
    trainings: dict[str, list[str]] = {}
    # pretraining first, though its folder is after those of fine-tunings; sorted() keeps the order of the rest
    for curve in sorted(all_curves, key=lambda curve: curve.training.startswith("finetune")):
        metrics = trainings.setdefault(curve.training, [])
        if curve.metric not in metrics:
            metrics.append(curve.metric)
    runs = list(dict.fromkeys(curve.run for curve in all_curves))
    columns = max(map(len, trainings.values()))
    size = (PANEL[0] * columns, PANEL[1] * len(trainings) + 0.4)
    with figures.new_figure(path, [*runs, *trainings], size=size) as figure:
        panels = figure.subplots(len(trainings), columns, squeeze=False)
        for row, (training, metrics) in zip(panels, trainings.items(), strict=True):
            for axes, metric in zip(row, metrics, strict=False):
                _panel(
                    axes, [curve for curve in all_curves if (curve.training, curve.metric) == (training, metric)], runs
                )
            for axes in row[len(metrics) :]:
                axes.set_axis_off()
        handles = [line for axes in panels.flat for line in axes.lines if not line.get_label().startswith("_")]
        lines = {line.get_label(): line for line in handles}
        figure.legend(lines.values(), lines, loc="outside upper center", ncols=4, fontsize="small")


def _panel(axes: Any, of_panel: Sequence[Curve], runs: Sequence[str]) -> None:
    for curve in of_panel:
        steps, values = list(curve.values), list(curve.values.values())
        # a label per run, not per seed: matplotlib leaves names that begin with _ out of the legend
        first = not any(line.get_label() == curve.run for line in axes.lines)
        axes.plot(
            steps, values, color=f"C{runs.index(curve.run)}", label=curve.run if first else "_",
            marker="." if len(steps) < 20 else None, alpha=0.8,
        )  # fmt: skip
    axes.set_title(f"{of_panel[0].training}: {of_panel[0].metric}", fontsize="small")
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)
