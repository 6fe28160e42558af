"""The texts whose predicted label is not that of the file: as rows of the results, and as a table to look through."""

import csv
from pathlib import Path
from typing import Any

from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import atomic_write
from kobert_pipeline.finetune.model import Predicted
from kobert_pipeline.inference.predict import format_label


def has_labels(task: Task) -> bool:
    """Whether a task gives each text or pair one of several labels."""
    return isinstance(task, SequenceTask) and bool(task.classes())


def wrong_labels(predicted: Predicted) -> list[dict[str, Any]]:
    """The examples whose label was not predicted, the most confident predictions first: `id`, texts, `label` (that of
    the file), `predicted`, and the `probability` of the predicted label."""
    task = predicted.task
    assert isinstance(task, SequenceTask)
    names, rows = task.classes(), []
    triples = zip(predicted.features.examples, predicted.predictions, predicted.logits["logits"], strict=True)
    for example, prediction, logits in triples:
        if prediction != example["label"]:
            found = format_label(task, example, prediction, logits)
            label, scores = found.pop("label"), found.pop("scores")
            row = {"id": example["id"], **found, "label": names[example["label"]]}
            rows.append(row | {"predicted": label, "probability": scores[label]})
    return sorted(rows, key=lambda row: -row["probability"])


def write_csv(path: Path, rows: list[dict[str, Any]], paired: bool) -> None:
    """Write the rows, each of two texts where `paired`, as CSV; the header also where there are none."""
    header = ["id", "text", *(["text_pair"] if paired else []), "label", "predicted", "probability"]
    # with a byte order mark, without which Excel takes Korean for another encoding; UTF-8 has no lone surrogates
    with atomic_write(path) as part, part.open("w", encoding="utf-8-sig", errors="replace", newline="") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(rows)
