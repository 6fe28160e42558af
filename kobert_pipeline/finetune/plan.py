"""The plan of a training with what fine-tuning adds. No torch here."""

from pydantic import Field, field_validator

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
    """Windows in a step."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout of hidden states."""

    @field_validator("fsdp")
    @classmethod
    def _whole(cls, value: bool) -> bool:
        if value:
            raise ValueError("fine-tuning keeps the whole model in every process; leave fsdp out here (pretraining has it)")
        return value
