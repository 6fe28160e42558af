"""Exports of Label Studio: tasks with `data` and the `annotations` of people (JSON), or a column for each control
(JSON_MIN, CSV)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.tables.unreadable import Row

OWN_COLUMNS = ("annotation_id", "annotator", "completed_by", "lead_time")
"""Columns that are about an annotation."""


def is_export(row: Row) -> bool:
    """Whether a row is of an export in any of the forms."""
    return "annotation_id" in row.cells or has_annotations(row)


def has_annotations(row: Row) -> bool:
    """Whether a row is of an export in JSON."""
    return isinstance(row.cells.get("annotations"), list) and isinstance(row.cells.get("data"), dict)


def only_results(annotations: list[Any]) -> list[dict[str, Any]]:
    """The results of the annotation that a task has, without cancelled ones. Raises UserError unless it is one."""
    if not annotations:
        raise UserError("it has no annotations, so nobody has labelled it; label it, or delete it")
    results = [item["result"] for item in annotations if isinstance(item, dict) and _is_valid(item)]
    if len(results) != 1:
        raise UserError(f"it has {len(results)} annotations, but one was expected; keep the right one")
    return [item for item in results[0] if isinstance(item, dict)]


def _is_valid(annotation: dict[str, Any]) -> bool:
    return isinstance(annotation.get("result"), list) and not annotation.get("was_cancelled")


def with_choices(first: Row) -> Callable[[Row], Row]:
    """A function that makes of a task of an export in JSON what JSON_MIN has: its data, and a column of what was chosen
    for each control about the whole text (choices, a rating, a number), also as `label` where the file has one control;
    other rows stay as they are. It raises UserError as `only_results` does."""
    controls = set[str]()

    def with_chosen(row: Row) -> Row:
        if not has_annotations(row):
            return row
        results = only_results(row.cells["annotations"])
        chosen = _chosen(results)
        controls.update(chosen)
        # a label among the data was there before anybody chose one; where only parts of texts are marked, nobody does
        is_marked = bool(results) and not controls
        data = {
            name: value for name, value in row.cells["data"].items() if is_marked or name not in ("label", "labels")
        }
        label = {"label": next(iter(chosen.values()))} if len(chosen) == len(controls) == 1 else {}
        return replace(row, cells=data | label | {"id": row.cells.get("id", row.index)} | chosen)

    return with_chosen


def _chosen(results: list[dict[str, Any]]) -> dict[str, Any]:
    """What was chosen for each control about the whole text."""
    return {
        str(result.get("from_name")): value[str(result["type"])]
        for result in results
        if isinstance(value := result.get("value"), dict) and str(result.get("type")) in value and "start" not in value
    }
