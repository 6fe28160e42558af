"""What a model cost: device hours per stage, from the manifests, and the CO2 equivalent if the user gives the power of
a device and the carbon intensity of the electricity."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from kobert_pipeline.config.options import Options


class EmissionsOptions(Options):
    """Two numbers that only you can know; without them the card does not mention CO2."""

    watts: float = Field(gt=0)
    """Power that one device draws in training, with its share of the host and the cooling, in watts."""
    grams_per_kwh: float = Field(ge=0)
    """CO2 equivalent of your electricity, in grams per kilowatt hour."""


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
    return list(_cost_per_title(manifests))


def _cost_per_title(manifests: dict[str, dict[str, Any]]) -> Iterator[Cost]:
    titles = {stage: "/".join(stage.split("/")[:2]) for stage in manifests}  # finetune/NAME/SEED -> finetune/NAME
    for title in dict.fromkeys(titles.values()):
        runs = [manifest for stage, manifest in manifests.items() if titles[stage] == title]
        devices = [run.get("device") or {"name": NOT_RECORDED, "count": 1} for run in runs]
        hours = sum(run["seconds"] / 3600 * device["count"] for run, device in zip(runs, devices, strict=True))
        yield Cost(
            f"{title} ({len(runs)} jobs)" if len(runs) > 1 else title,
            hours,
            ", ".join(sorted({_device_name(device) for device in devices})),
        )


def _device_name(device: dict[str, Any]) -> str:
    return f"{device['count']} x {device['name']}" if device["count"] > 1 else str(device["name"])


def grams(stages: list[Cost], emissions: EmissionsOptions) -> float:
    """CO2 equivalent in grams: hours x watts / 1000 x grams per kilowatt hour."""
    return sum(cost.hours for cost in stages) * emissions.watts / 1000 * emissions.grams_per_kwh
