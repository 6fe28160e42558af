"""Which seeds of a fine-tuning belong together: a run's folder may also hold seeds from before its options changed."""

from pathlib import Path
from typing import Any

from kobert_pipeline.runs import manifest
from kobert_pipeline.runs.content_hash import input_hash
from kobert_pipeline.runs.manifest import Record
from kobert_pipeline.runs.stage_folder import FINISHED

Manifest = dict[str, Any]
SOFT_LABELS = "soft-labels"
"""The job of a distillation that labels texts; it is not a seed."""


def current_seeds(folder: Path) -> tuple[list[Manifest], dict[str, str]]:
    """The manifests of the seeds in `folder` (`RUN/finetune/NAME`) that were trained with the same options and inputs
    as the seed finished last, and with the run's present inputs; and {seed: why it is left out} for the others."""
    manifests = {path.parent.name: manifest.read(path.parent) for path in sorted(folder.glob(f"*/{FINISHED}"))}
    # without the soft labels of a distillation
    records = {seed: record for seed, record in manifests.items() if "seed" in record["options"]}
    if not records:
        return [], {}
    # times in UTC and in one format sort as text
    latest = max(records.values(), key=lambda record: record["finished"])
    left_out = {}
    for seed, record in records.items():
        expected = _as_if_trained_like(latest, record, folder)
        if (record["options"], record["inputs"]) != (expected.options, expected.inputs):
            left_out[seed] = manifest.difference(record, expected, f"finetune.{folder.name}")
    return [record for seed, record in records.items() if seed not in left_out], left_out


def features_folder(folder: Path, trained: Manifest) -> Path:
    """The folder of the features of the fine-tuning in `folder`, by the manifest of one of its seeds."""
    return folder.parent.parent / "features" / (trained["options"].get("features") or folder.name)


def _as_if_trained_like(latest: Manifest, record: Manifest, folder: Path) -> Record:
    """The record of `record`'s seed with the options and inputs of `latest`, the inputs as they are in the run now."""
    # an input with a slash is another fine-tuning's model of the same seed, so every seed has its own
    inputs = {label: value for label, value in latest["inputs"].items() if "/" not in label}
    inputs |= {label: value for label, value in record["inputs"].items() if "/" in label}
    # every other label is the path of its job in the run
    folders = {"features": features_folder(folder, latest), SOFT_LABELS: folder / SOFT_LABELS}
    for label in inputs:
        input_folder = folders.get(label, folder.parent.parent / label)
        if manifest.is_finished(input_folder):
            inputs[label] = input_hash(manifest.read(input_folder), record["inputs"].get(label))
    seed_options = {"seed": record["options"]["seed"]}
    return Record(record["stage"], latest["version"], latest["options"] | seed_options, inputs)
