"""What a model cost: device hours per stage, from the manifests."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """Device hours of a stage, and the device's name."""

    stage: str
    hours: float
    device: str


NOT_RECORDED = "not recorded"


def costs(manifests: dict[str, dict[str, Any]]) -> list[Cost]:
    """The cost of each stage, from manifests by stage. The jobs of one fine-tuning (its seeds, its soft labels and
    the trials of its grid) are added up; an hour counts once per device in use."""
    titles = {stage: "/".join(stage.split("/")[:2]) for stage in manifests}  # finetune/NAME/SEED -> finetune/NAME
    rows = []
    for title in dict.fromkeys(titles.values()):
        runs = [manifest for stage, manifest in manifests.items() if titles[stage] == title]
        devices = [run.get("device") or {"name": NOT_RECORDED, "count": 1} for run in runs]
        hours = sum(run["seconds"] / 3600 * device["count"] for run, device in zip(runs, devices, strict=True))
        names = {f"{device['count']} x " * (device["count"] > 1) + device["name"] for device in devices}
        job = f"{title} ({len(runs)} jobs)" if len(runs) > 1 else title
        rows.append(Cost(job, hours, ", ".join(sorted(names))))
    return rows
