"""What a training does besides the model: how long, how fast, how often it saves. No torch here: `kobert check` reads
it.

Options that cannot change the result (`exclude=True`) are not in a fingerprint: they may differ when a run goes on.
"""

from typing import Literal

from pydantic import Field, model_validator

from kobert_pipeline.config.options import Options, Seed

CHECKPOINT_FILES = ("model.safetensors", "optimizer.safetensors", "random.safetensors", "checkpoint.json")
TRAINING_WRITES = (
    *(f"checkpoints/{folder}/{name}" for folder in ("step-*", ".step-*") for name in CHECKPOINT_FILES),
    "evaluations.json", "logs/log.jsonl", "logs/events.out.tfevents.*", "logs/not-finite-step-*.safetensors",
)  # fmt: skip
"""Patterns of every file that a training writes besides its model."""


class Plan(Options):
    """Options of the loop. Every schedule is a function of the step alone."""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """AdamW, or Muon for the matrices of hidden layers and AdamW for the rest."""
    learning_rate: float = Field(5e-4, gt=0)
    """Peak learning rate."""
    warmup: float = Field(0.1, ge=0, le=1)
    """Share of the steps in which the learning rate rises."""
    schedule: Literal["linear", "cosine", "constant", "wsd"] = "linear"
    """How it falls after that: linearly, as a half cosine, not at all, or (warmup-stable-decay) linearly in the last
    `decay` of steps."""
    decay: float = Field(0.2, gt=0, le=1)
    """Share of the steps in which the learning rate of `wsd` falls."""
    weight_decay: float = Field(0.01, ge=0)
    """AdamW's decoupled decay; biases and norms are spared."""
    adam_betas: tuple[float, float] = (0.9, 0.98)
    """AdamW's moments."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are clipped to this norm."""
    mixed_precision: Literal["no", "bf16"] = "no"
    """Autocast type of the forward pass; weights and optimizer stay fp32, and so does whatever a fine-tuning
    measures."""
    gradient_accumulation_steps: int = Field(1, gt=0, exclude=True)
    """Parts that a step's batch is taken in, one after the other, where it does not fit in memory at once. Changes
    nothing but rounding."""
    torch_compile: bool = Field(False, exclude=True)
    """Whether the model is compiled. Changes nothing but rounding."""
    fsdp: bool = Field(False, exclude=True)
    """Whether processes that pretrain together share the model out (FSDP), each keeping a part of weights, gradients
    and moments, where one GPU cannot keep them whole. Changes nothing but rounding."""
    dataloader_num_workers: int = Field(0, ge=0, exclude=True)
    """Threads that make batches ahead of time; 0: none, each is made when it is needed."""
    seed: Seed = 1
    """Seed of weights, order, masks and dropout."""
    log_every: int = Field(50, gt=0, exclude=True)
    """Steps between two lines of the log."""
    evaluate_every: int | None = Field(None, gt=0)
    """Steps between two evaluations; default: ten in all when pretraining, one an epoch when fine-tuning."""
    checkpoint_every: int = Field(500, gt=0, exclude=True)
    """Steps between two checkpoints."""
    checkpoint_minutes: float | None = Field(None, gt=0, exclude=True)
    """A checkpoint, too, when the last is this old: where batches grow, a fixed number of steps is soon too many or too
    few."""
    keep_checkpoints: int = Field(2, gt=0, exclude=True)
    """The newest that are kept."""
    max_minutes: float | None = Field(None, gt=0, exclude=True)
    """Stop cleanly after this long; the same command goes on. Bends no schedule."""

    @model_validator(mode="after")
    def _shared_out(self) -> "Plan":
        if self.fsdp and self.optimizer == "muon":
            raise ValueError(
                "fsdp leaves no process a whole matrix, which optimizer: muon needs; take adamw, or leave fsdp out"
            )
        if self.fsdp and self.torch_compile:
            raise ValueError("a model that fsdp shares out is not compiled; leave out fsdp or torch_compile")
        return self
