"""What a fine-tuning records of the test set, or of dev where there is none."""

from pathlib import Path
from typing import Any

from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.files import write_json_lines
from kobert_pipeline.finetune.prior_ablation import prior_ablation

PREDICTIONS = "predictions.jsonl"


def rounded_scores(predicted: Predicted) -> dict[str, float]:
    """The task's metrics as the manifest has them, in percent."""
    return _rounded(predicted.scores)


def record_test(out: Path, predicted: Predicted) -> dict[str, Any]:
    """Write the predictions for the test set to `out`; return the count of their scores for the manifest."""
    rows = zip(predicted.features.examples, predicted.predictions, strict=True)
    write_json_lines(out / PREDICTIONS, ({"id": example["id"], "prediction": value} for example, value in rows))
    return {"test": rounded_scores(predicted)}


def split_details(predicted: Predicted, split: str) -> dict[str, Any]:
    """The counts for the manifest that say what is in the scores on a split: by class and in a confusion matrix for a
    task with classes, with and without priors for a task that has these."""
    details = {
        f"{split}_classification_report": predicted.classification_report,
        f"{split}_prior_ablation": rounded_ablation(predicted),
    }
    return {name: value for name, value in details.items() if value}


def rounded_ablation(predicted: Predicted) -> dict[str, dict[str, float]]:
    """`prior_ablation` as a manifest has it."""
    return {name: _rounded(scores) for name, scores in prior_ablation(predicted).items()}


def _rounded(scores: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in scores.items()}
