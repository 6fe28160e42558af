"""The texts whose predicted label is not the file's: as rows of the results, and as a table to look through."""

import csv
from pathlib import Path
from typing import Any

from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.sequence import SequenceTask
from kobert_pipeline.files import atomic_write


def wrong_labels(predicted: Predicted) -> list[dict[str, Any]]:
    """The examples whose label was not predicted, the most confident predictions first: `id`, texts, and what the task
    says of the mistake (`label`, `predicted`, `probability`)."""
    task = predicted.task
    assert isinstance(task, SequenceTask)
    rows: list[dict[str, Any]] = []
    triples = zip(predicted.features.examples, predicted.predictions, predicted.results, strict=True)
    for example, prediction, result in triples:
        if prediction != example["label"]:
            texts: dict[str, Any] = {name: result[name] for name in ("text", "text_pair") if name in result}
            rows.append({"id": example["id"], **texts, **task.mistake(prediction, example, result)})
    return sorted(rows, key=lambda row: -row["probability"])


def write_csv(path: Path, rows: list[dict[str, Any]], paired: bool) -> None:
    """Write the rows, each of two texts where `paired`, as CSV; the header also where there are none."""
    header = ["id", "text", *(["text_pair"] if paired else []), "label", "predicted", "probability"]
    # with a byte order mark, without which Excel takes Korean for another encoding; UTF-8 has no lone surrogates
    with atomic_write(path) as part, part.open("w", encoding="utf-8-sig", errors="replace", newline="") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(rows)
