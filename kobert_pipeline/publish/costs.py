"""What a model cost: device hours of its stages, from their manifests, and the CO2 of those if its maker tells the
power and the mains."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from kobert_pipeline.config.options import Options


class EmissionsOptions(Options):
    """Two numbers that only you can know; without them the card says nothing of CO2."""

    watts: float = Field(gt=0)
    """Power that one device and what it needs draw while they train, in watts."""
    grams_per_kwh: float = Field(ge=0)
    """CO2 equivalent of your electricity, in grams per kilowatt hour."""


@dataclass(frozen=True)
class Cost:
    """Device hours of a stage, and the device's name."""

    stage: str
    hours: float
    device: str


NOT_RECORDED = "not recorded"


def costs(made: dict[str, dict[str, Any]]) -> list[Cost]:
    """The costs of manifests by stage. Several doings of one (the seeds and trials of a fine-tuning) are added up, a
    device's hours counted for each device that worked along."""
    return list(_added(made))


def _added(made: dict[str, dict[str, Any]]) -> Iterator[Cost]:
    titles = {stage: "/".join(stage.split("/")[:2]) for stage in made}  # finetune/NAME/SEED
    for title in dict.fromkeys(titles.values()):
        of = [one for stage, one in made.items() if titles[stage] == title]
        used = [one.get("device") or {"name": NOT_RECORDED, "count": 1} for one in of]
        hours = sum(one["seconds"] / 3600 * device["count"] for one, device in zip(of, used, strict=True))
        yield Cost(
            f"{title} ({len(of)} runs)" if len(of) > 1 else title,
            hours,
            ", ".join(sorted({_named(one) for one in used})),
        )


def _named(device: dict[str, Any]) -> str:
    return f"{device['count']} x {device['name']}" if device["count"] > 1 else str(device["name"])


def grams(found: list[Cost], emissions: EmissionsOptions) -> float:
    """Hours x watts / 1000 x grams per kilowatt hour."""
    return sum(cost.hours for cost in found) * emissions.watts / 1000 * emissions.grams_per_kwh
