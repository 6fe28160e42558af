"""What a fine-tuning records of the test set, or of dev where there is none."""

from pathlib import Path
from typing import Any

from kobert_pipeline.features.task import Example, Task
from kobert_pipeline.files import write_json_lines

PREDICTIONS = "predictions.jsonl"


def rounded_scores(task: Task, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
    """The task's metrics as the manifest has them, in percent."""
    return {name: round(value, 4) for name, value in task.score(predictions, examples).items()}


def record_test(out: Path, task: Task, predictions: list[Any], examples: list[Example]) -> dict[str, Any]:
    """Write the predictions for the test set to `out`; return the counts for the manifest: the scores, and the report
    by class."""
    rows = zip(examples, predictions, strict=True)
    write_json_lines(out / PREDICTIONS, ({"id": example["id"], "prediction": value} for example, value in rows))
    return {"test": rounded_scores(task, predictions, examples)} | class_report(task, predictions, examples, "test")


def class_report(task: Task, predictions: list[Any], examples: list[Example], split: str) -> dict[str, Any]:
    """The count of the scores by class and of the confusion matrix on a split; {} for a task without classes."""
    report = task.classification_report(predictions, examples)
    return {f"{split}_classification_report": report} if report else {}
