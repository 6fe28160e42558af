"""The training plan with the options that fine-tuning adds, and plans with lists of values, which form a grid search.

No torch here, because `kobert check` reads these options.
"""

from itertools import product
from typing import Any

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from kobert_pipeline.training.plan import Plan

EPOCHS, FEWEST_STEPS, MANY_EPOCHS = 2, 300, 10
"""Epochs where a plan names none, and the steps that they have at least. On 64 reviews a small encoder has 48 % after 2
epochs, 65 % after 60 steps and 75 % after 300 (docs/results/finetune)."""


class FinetunePlan(Plan):
    """A plan with the defaults and options of fine-tuning."""

    learning_rate: float = Field(1e-4, gt=0)
    """Peak learning rate."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's beta1 and beta2."""
    epochs: int | None = Field(None, ge=0)
    """Number of passes over the training set, as in `Plans`, without a list."""
    batch_size: int = Field(32, gt=0)
    """Examples per step; windows per step for tasks that split long texts into windows (answers, entities)."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout of hidden states, including the input of the task's head."""
    # these two are in the fingerprint only where they have an effect, so that runs from before they existed stay valid
    layerwise_lr_decay: float = Field(1.0, gt=0, le=1, exclude_if=lambda value: value == 1)
    """Factor between the learning rates of a layer and the layer above it; the head has the full rate. 1: all layers
    have the same rate."""
    early_stopping_patience: int | None = Field(None, gt=0, exclude_if=lambda value: value is None)
    """Stop after this many evaluations in a row without a better score on dev; null: never. The learning-rate schedule
    still covers all epochs."""

    @field_validator("fsdp", "fp32_residual_connection")
    @classmethod
    def _for_pretraining_only(cls, value: bool, option: ValidationInfo) -> bool:
        name = str(option.field_name)
        if value != Plan.model_fields[name].default:
            raise ValueError(f"{name} is for pretraining only; leave {name} out")
        return value


class Plans(FinetunePlan):
    """A plan in which some options may be lists: each combination is tried with the first seed, and the one with the
    best score on dev is used for all seeds."""

    learning_rate: float | tuple[float, ...] = 1e-4  # type: ignore[assignment]
    """Peak learning rate, or a list to select from on dev."""
    epochs: int | tuple[int, ...] | None = None  # type: ignore[assignment]
    """Number of passes over the training set, or a list to select from on dev; null: 2, or as many as make 300 steps,
    because a few steps teach an encoder nothing (Mosbach et al. 2021, "On the Stability of Fine-tuning BERT"). Where
    that is ten or more, dev is read once, after the last: so few examples cannot tell which step is best. With 0 a
    student learns soft labels alone."""

    @field_validator("learning_rate", "epochs", mode="before")
    @classmethod
    def _check_values(cls, option_value: Any, option: ValidationInfo) -> Any:
        """Validate each value as a plan without lists would."""
        name = str(option.field_name)
        candidates = option_value if isinstance(option_value, (list, tuple)) else [option_value]
        try:
            values = [getattr(FinetunePlan(**{name: value}), name) for value in candidates]
        except ValidationError as error:
            # not a ValueError, whose message pydantic would begin with "Value error, "
            raise PydanticCustomError("one_of_several", "{message}", {"message": error.errors()[0]["msg"]}) from None
        if not values:
            raise ValueError("needs at least one value")
        if len(set(values)) < len(values):
            raise ValueError(f"has a value twice in {option_value}; leave one out")
        return tuple(values) if len(values) > 1 else values[0]

    @property
    def varied(self) -> dict[str, tuple[Any, ...]]:
        """The options that are lists, with their values."""
        return {name: value for name in ("learning_rate", "epochs") if isinstance(value := getattr(self, name), tuple)}

    def settings(self) -> dict[str, FinetunePlan]:
        """A plan for each combination, in the order of the lists, under a name that serves as a folder name, such as
        `learning_rate=0.0001,epochs=2`. Without lists there is one, named ""."""
        plans = {}
        for values in product(*self.varied.values()):
            chosen = dict(zip(self.varied, values, strict=True))
            name = ",".join(f"{option}={value}" for option, value in chosen.items())
            plans[name] = FinetunePlan(**{**dict(self), **chosen})
        return plans


def length_of(plan: FinetunePlan, per_epoch: int) -> tuple[int, int]:
    """The epochs of a training and the steps from one evaluation to the next, by the steps `per_epoch`."""
    if plan.epochs is not None:
        return plan.epochs, plan.evaluate_every or per_epoch
    epochs = max(EPOCHS, -(-FEWEST_STEPS // per_epoch))
    chooses = epochs < MANY_EPOCHS or plan.early_stopping_patience is not None
    return epochs, plan.evaluate_every or (per_epoch if chooses else epochs * per_epoch)
