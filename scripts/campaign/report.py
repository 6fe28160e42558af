"""What came back from a campaign, as docs/results has it: JSON, Markdown and the curve of the loss. Every number is
read from the manifests and logs in the archive."""

import importlib.util
import json
import statistics
import tarfile
import tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from packs import RUN, Refused
from slices import LOG, MACHINE, PROGRESS, RESULTS

SCRIPTS = Path(__file__).resolve().parents[1]
STEPS = {
    "prepare": "scripts/gpu_campaign prepare DATA WORK",
    "unpack": "scripts/gpu_campaign unpack PACKS WORK",
    "train": "scripts/gpu_campaign train WORK OUT",
}


def collect(out: Path, results: Path, name: str, hardware: str | None) -> None:
    """Write NAME.json, NAME.svg and NAME.md to `results`. Raises Refused where nothing was trained."""
    archives = sorted(out.rglob(RESULTS), key=lambda path: path.stat().st_mtime)
    if not archives:
        raise Refused(f"{out} holds no {RESULTS}; `scripts/gpu_campaign train` writes it")
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archives[-1]) as tar:
        tar.extractall(folder, filter="data")
        found, text = told(Path(folder), name, hardware)
        draw(found["curve"], results / f"{name}.svg")
    steps = next(iter(sorted(out.rglob("step.json"))), None)
    if steps:
        found["step"] = json.loads(steps.read_text(encoding="utf-8"))
    (results / f"{name}.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (results / f"{name}.md").write_text(text, encoding="utf-8")
    print(f"{results / name}.json, .md and .svg written")


def told(back: Path, name: str, hardware: str | None) -> tuple[dict[str, Any], str]:
    """The report, and the same as Markdown."""
    run, machine = back / RUN, json.loads((back / MACHINE).read_text(encoding="utf-8"))
    rows = json.loads((back / PROGRESS).read_text(encoding="utf-8"))
    hardware = hardware or f"{', '.join(machine.get('gpus', [])) or 'no GPU'}, {machine.get('cores', '?')} cores"
    curve, speed = curve_of(run / "pretrain")
    found: dict[str, Any] = {}
    text = (
        f"# Results of recipe `{name}`\n\nPretraining is not finished; what there is of it stands below. {hardware}.\n"
    )
    if (run / "pretrain" / "manifest.json").is_file():
        module = shipped_results()
        found = module.collected(run, "; ".join(STEPS.values()), hardware)
        for stage, of_stage in found["stages"].items():
            if stage in ("pretrain", *(one for one in found["stages"] if one.startswith("finetune"))):
                of_stage["parts"] = starts_of(stage, back / LOG)
        text = module.markdown(name, found)
    found |= {"machine": machine, "jobs": rows, "speed": speed, "curve": curve}
    return found, "\n".join([text, *_chapters(found, name)])


def _chapters(found: dict[str, Any], name: str) -> list[str]:
    from kobert_pipeline.publish.model_card import table

    chapters = ["## Speed of pretraining\n"]
    if found["speed"]:
        chapters += [
            "Tokens per second between two lines of the log; evaluating, saving and compiling make a line slower.\n",
            table(
                ["median", "slowest tenth", "fastest tenth", "lines"],
                [[f"{value:,}" for value in found["speed"].values()]],
            ),
        ]
    seeds = [
        [row["finetune"], metric, f"{value['mean']:.2f}", f"{value['max'] - value['min']:.2f}", str(row["seeds"])]
        for row in found.get("scores", [])
        for metric, value in row["scores"].items()
    ]
    if seeds:
        chapters += [
            "\n## Spread over seeds\n",
            table(["fine-tuning", "metric", "mean", "spread (largest less smallest)", "seeds"], seeds),
        ]
    chapters += ["\n## Loss\n", f"![training and held-out loss by step]({name}.svg)", "\n## Done and left\n"]
    chapters += [table(["job", "status"], [[row["job"], row["status"]] for row in found["jobs"]]), ""]
    return chapters


def shipped_results() -> Any:
    """`scripts/results` as a module."""
    loader = SourceFileLoader("results", str(SCRIPTS / "results"))
    spec = importlib.util.spec_from_loader("results", loader)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


def log_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of a training's log in the order they were written."""
    path = folder / "logs" / "log.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def starts_of(stage: str, log: Path) -> int:
    """In how many parts `pretrain` or `finetune/NAME/SEED` was done, by the log of the slices."""
    return log.read_text(encoding="utf-8", errors="replace").count(f"running  {stage.replace('/', ' ', 1)}\n")


def curve_of(folder: Path) -> tuple[dict[str, list[list[float]]], dict[str, int]]:
    """[step, loss] of training and held-out text, a step that was done again once; and what is to be said of tokens a
    second."""
    rows = log_of(folder)
    trained = {row["step"]: row["loss"] for row in rows if "loss" in row}
    held_out = {row["step"]: row["evaluation_loss"] for row in rows if "evaluation_loss" in row}
    if (folder / "evaluations.json").is_file():
        content = json.loads((folder / "evaluations.json").read_text(encoding="utf-8"))
        held_out = {int(step): values["loss"] for step, values in content["values"].items()}
    speeds = sorted(row["tokens_per_second"] for row in rows if "tokens_per_second" in row)
    tenth = len(speeds) // 10
    speed = (
        {
            "median": round(statistics.median(speeds)),
            "slowest": round(speeds[tenth]),
            "fastest": round(speeds[-1 - tenth]),
        }
        if speeds
        else {}
    )
    curve = {
        "train": [[*one] for one in sorted(trained.items())],
        "held_out": [[*one] for one in sorted(held_out.items())],
    }
    return curve, speed | {"lines": len(speeds)} if speeds else {}


def draw(curve: dict[str, list[list[float]]], path: Path) -> None:
    """The curve as a small picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for label, marker in (("train", ""), ("held_out", "o")):
        points = curve[label]
        axes.plot(
            [step for step, _ in points],
            [loss for _, loss in points],
            marker=marker,
            markersize=3,
            linewidth=1,
            label=label,
        )
    axes.set(xlabel="step", ylabel="loss")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
