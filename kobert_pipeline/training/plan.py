"""The training plan: everything about a training except the model, such as steps, learning rate and checkpoints.

No torch here, because `kobert check` reads these options. Options that cannot change the result have `exclude=True`:
they are not part of the fingerprint of a run and may change when it is resumed.
"""

from typing import Literal

from pydantic import Field, model_validator

from kobert_pipeline.config.options import Options, Seed

CHECKPOINT_FILES = ("model.safetensors", "optimizer.safetensors", "random.safetensors", "checkpoint.json")
STEP = f"step-{'[0-9]' * 8}"
"""Pattern of a checkpoint's folder; step-00000500-best, for example, is somebody's copy."""
COMPILED_CODE = "checkpoints/compiled-code"
"""What torch_compile made in the last call: code that a training with the same software and GPU starts with."""
TRAINING_WRITES = (
    *(f"checkpoints/{folder}/{name}" for folder in (STEP, f".{STEP}") for name in CHECKPOINT_FILES), COMPILED_CODE,
    "evaluations.json", "logs/log.jsonl", "logs/tracker.json",
    "logs/events.out.tfevents.*",
)  # fmt: skip
"""Patterns of all files that a training writes besides its model."""


class Plan(Options):
    """Options of the training loop. Every schedule is a function of the step alone, which makes runs resumable."""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """AdamW, or Muon for the matrices of hidden layers with AdamW for all other parameters."""
    learning_rate: float = Field(5e-4, gt=0)
    """Peak learning rate."""
    warmup: float = Field(0.1, ge=0, le=1)
    """Share of the steps in which the learning rate rises linearly to its peak."""
    schedule: Literal["linear", "cosine", "constant", "wsd"] = "linear"
    """How the learning rate falls after warm-up: linearly to 0, as a half cosine, not at all, or (wsd,
    warmup-stable-decay) linearly over the last `decay` share of the steps."""
    decay: float = Field(0.2, gt=0, le=1)
    """Share of the steps in which the learning rate of the schedule `wsd` falls."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay; biases and norms are not decayed."""
    # RoBERTa's (Liu et al. 2019); fine-tuning has the usual 0.999
    adam_betas: tuple[float, float] = (0.9, 0.98)
    """AdamW's beta1 and beta2."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are clipped to this norm."""
    mixed_precision: Literal["no", "bf16"] = "no"
    """Autocast type of the forward pass; with `no`, GPUs multiply matrices in TF32. Weights and optimizer states stay
    fp32, and fine-tuning always evaluates without autocast. A CPU without instructions for bf16 computes fp32."""
    # in the fingerprint only where it has an effect, so that runs from before it existed stay valid
    fp32_residual_connection: bool = Field(True, exclude_if=lambda value: value)
    """Whether residuals are fp32 under bf16 autocast. With false, they are bf16, and so are embeddings and what layer
    norms read and give (they compute in fp32); this takes less memory, and is for pretraining only."""
    max_tokens_per_device: int | None = Field(None, gt=0, exclude=True)
    """Largest number of tokens that a device computes at once; a larger batch is split into as few parts as possible,
    computed one after another (gradient accumulation). Sequences are not split, so a part may exceed it by up to one
    sequence. The task contrastive compares the texts of a whole batch and uses gradient caching instead. null: each
    device computes its batch at once. Results change by rounding only."""
    torch_compile: bool = Field(False, exclude=True)
    """Whether to compile the model with torch.compile. Results change by rounding only."""
    use_regional_compilation: bool = Field(False, exclude=True)
    """Whether torch_compile compiles layers, embeddings, heads and loss one by one instead of the whole model. The
    layers share their graphs, so that training starts several times sooner. Results change by rounding only."""
    compile_timeout: float | None = Field(300, gt=0, exclude=True)
    """Seconds after which a training gives up torch_compile and goes on uncompiled; null: never. Results change by
    rounding only."""
    fsdp: bool = Field(False, exclude=True)
    """Whether to shard weights, gradients and optimizer states over the ranks (FSDP), for models that do not fit on one
    GPU; pretraining only. Results change by rounding only."""
    dataloader_num_workers: int = Field(0, ge=0, exclude=True)
    """Threads that build batches ahead of time; 0: each batch is built when it is needed."""
    seed: Seed = 1
    """Random seed of initial weights, data order, masks and dropout."""
    log_every: int = Field(50, gt=0, exclude=True)
    """Steps between two log lines."""
    evaluate_every: int | None = Field(None, gt=0)
    """Steps between two evaluations; default: ten evaluations in a pretraining, of a short one every 50 steps; one per
    epoch in a fine-tuning."""
    checkpoint_every: int = Field(500, gt=0, exclude=True)
    """Steps between two checkpoints."""
    checkpoint_minutes: float | None = Field(None, gt=0, exclude=True)
    """Also save a checkpoint when the last one is this many minutes old; useful where batches grow, so that a fixed
    number of steps takes longer and longer."""
    keep_checkpoints: int = Field(2, gt=0, exclude=True)
    """Number of checkpoints to keep, the newest ones."""
    max_minutes: float | None = Field(None, gt=0, exclude=True)
    """Save a checkpoint and stop after this many minutes; the same command resumes. Schedules do not change."""

    @model_validator(mode="after")
    def _check_residuals(self) -> "Plan":
        if not self.fp32_residual_connection and self.mixed_precision == "no":
            raise ValueError(
                "fp32_residual_connection: false keeps residuals in bf16, but mixed_precision is no; set "
                "mixed_precision to bf16, or leave fp32_residual_connection out"
            )
        return self

    @model_validator(mode="after")
    def _check_fsdp(self) -> "Plan":
        if self.fsdp and self.optimizer == "muon":
            raise ValueError(
                "fsdp shards every matrix, but optimizer: muon needs whole ones; choose adamw, or leave fsdp out"
            )
        if self.fsdp and self.torch_compile:
            raise ValueError("fsdp and torch_compile cannot be combined; leave out one of them")
        if self.use_regional_compilation and not self.torch_compile:
            raise ValueError("use_regional_compilation compiles nothing without torch_compile: true; set that too")
        return self
