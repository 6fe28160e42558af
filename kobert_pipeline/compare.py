"""`kobert compare`: finished runs side by side, every number from their manifests."""

from pathlib import Path
from typing import Any

from kobert_pipeline import manifest
from kobert_pipeline.errors import UserError
from kobert_pipeline.publish.model_card import mean, table


def compared(run_dirs: list[Path]) -> list[dict[str, Any]]:
    """A row per fine-tuning of each run: scores over the seeds, and what the model was made from."""
    rows: list[dict[str, Any]] = []
    for run_dir in run_dirs:
        if not manifest.is_finished(run_dir / "pretrain"):
            raise UserError(f"{run_dir} is not a finished run: it has no {run_dir / 'pretrain' / manifest.FINISHED}")
        made = {stage: manifest.read(run_dir / stage) for stage in ("tokenizer", "pretrain")}
        base = {
            "run": run_dir.name,
            "vocab_size": made["tokenizer"]["counts"]["vocab_size"],
            "pieces_seen": made["pretrain"]["counts"]["pieces_seen"],
            "held_out_loss": round(made["pretrain"]["counts"]["held_out_after"]["loss"], 4),
            "pretrain_seconds": made["pretrain"]["seconds"],
        }
        tuned = sorted(path for path in (run_dir / "finetune").glob("*") if path.is_dir())
        rows += [base | _scores(folder) for folder in tuned] or [base | {"finetune": "", "seeds": 0, "scores": {}}]
    return rows


def _scores(folder: Path) -> dict[str, Any]:
    runs = [manifest.read(path.parent) for path in sorted(folder.glob(f"*/{manifest.FINISHED}"))]
    split = "test" if runs and "test" in runs[0]["counts"] else "dev"
    names = runs[0]["counts"][split] if runs else {}
    scores = {name: [run["counts"][split][name] for run in runs] for name in names}
    summary = {name: {"mean": round(mean(v), 2), "min": round(min(v), 2), "max": round(max(v), 2)} for name, v in scores.items()}
    return {"finetune": folder.name, "split": split, "seeds": len(runs), "scores": summary}


def markdown(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    header = ["run", "vocabulary", "pieces seen", "held-out loss", "fine-tuning", "split", "seeds", "scores: mean (range)"]
    lines = []
    for row in rows:
        scores = ", ".join(f"{name} {v['mean']:.2f} ({v['min']:.2f} to {v['max']:.2f})" for name, v in row["scores"].items())
        lines.append(
            [row["run"], f"{row['vocab_size']:,}", f"{row['pieces_seen']:,}", f"{row['held_out_loss']:.3f}", row["finetune"],
             row.get("split", ""), str(row["seeds"]), scores]
        )  # fmt: skip
    return table(header, lines)
