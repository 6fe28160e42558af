"""The plan of a training with what fine-tuning adds, and plans with lists, of which each setting is tried. No torch
here."""

from itertools import product
from typing import Any

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from kobert_pipeline.training.plan import Plan


class FinetunePlan(Plan):
    """The plan with fine-tuning's usual values."""

    learning_rate: float = Field(1e-4, gt=0)
    """Peak learning rate."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's moments."""
    epochs: int = Field(2, gt=0)
    """Times that every training example is seen."""
    batch_size: int = Field(32, gt=0)
    """Examples in a step; of texts that are read in several windows (answers, entities), windows."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout of hidden states, those that the task's head reads included."""
    # not in the fingerprint where they do nothing: runs from before they were there are still the same
    layerwise_lr_decay: float = Field(1.0, gt=0, le=1, exclude_if=lambda value: value == 1)
    """Each layer learns at this share of the rate of the layer above it, the head at the full one; 1: all learn
    alike."""
    early_stopping_patience: int | None = Field(None, gt=0, exclude_if=lambda value: value is None)
    """Evaluations in a row without a better score on dev after which the training ends; null: never. The schedule is
    that of all epochs."""

    @field_validator("fsdp")
    @classmethod
    def _whole(cls, value: bool) -> bool:
        if value:
            raise ValueError(
                "fine-tuning keeps the whole model in every process; leave fsdp out here (pretraining has it)"
            )
        return value


class Plans(FinetunePlan):
    """A plan in which some options may be lists. Each combination is tried with the first seed, and the one that is
    best on dev is used."""

    learning_rate: float | tuple[float, ...] = 1e-4  # type: ignore[assignment]
    """Peak learning rate, or a list of which the best on dev is taken."""
    epochs: int | tuple[int, ...] = 2  # type: ignore[assignment]
    """Times that every training example is seen, or a list of which the best on dev is taken."""

    @field_validator("learning_rate", "epochs", mode="before")
    @classmethod
    def _one_or_several(cls, given: Any, option: ValidationInfo) -> Any:
        """Every value by the rules of a plan without lists."""
        name = str(option.field_name)
        try:
            values = [
                getattr(FinetunePlan(**{name: value}), name)
                for value in (given if isinstance(given, (list, tuple)) else [given])
            ]
        except ValidationError as error:
            raise PydanticCustomError("one_of_several", "{message}", {"message": error.errors()[0]["msg"]}) from None
        if not values:
            raise ValueError("needs at least one value")
        if len(set(values)) < len(values):
            raise ValueError(f"has a value twice in {given}; leave one out")
        return tuple(values) if len(values) > 1 else values[0]

    @property
    def varied(self) -> dict[str, tuple[Any, ...]]:
        """The options that are lists, with their values."""
        return {name: value for name in ("learning_rate", "epochs") if isinstance(value := getattr(self, name), tuple)}

    def settings(self) -> dict[str, FinetunePlan]:
        """Every combination by a name that can be a folder's, in the order of the lists; one called "" where there are
        none."""
        found = {}
        for values in product(*self.varied.values()):
            chosen = dict(zip(self.varied, values, strict=True))
            found[",".join(f"{name}={value}" for name, value in chosen.items())] = FinetunePlan(
                **{**dict(self), **chosen}
            )
        return found
