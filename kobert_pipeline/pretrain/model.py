"""The objective's loss as a module, and batches on a device: the torch side of pretraining."""

import math
import warnings
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from transformers import PreTrainedModel

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.linear_cross_entropy import LogitsGradient
from kobert_pipeline.pretrain.objective import Objective
from kobert_pipeline.pretrain.phases import PhaseSchedule
from kobert_pipeline.pretrain.residual_stream import use_16_bit_residuals
from kobert_pipeline.pretrain.tensor_batch import TensorBatch, to_device
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX, PAD_ID
from kobert_pipeline.training.attention import TILE, freeze_angles, use_attention
from kobert_pipeline.training.device import device
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.prefetch import BatchAt

LABELS_SPREAD = 8.0
"""How many times the square root of their expected number is added to the labels of a compiled part: some five standard
deviations, because whole morphemes or eojeols are masked."""
FULL_SEQUENCES = 1 / 8
"""Compiled parts have room for sequences of this mean share of `max_length`, such as film reviews of 20 tokens at a
length of 128. The places of sequences that are not there cost the attention kernel little, a second shape another
compilation."""
CPU_MULTIPLE = 64
"""On a CPU in bf16, numbers of tokens, labels and sequences are rounded up to a multiple of this."""


class LossModule(torch.nn.Module):
    """`forward(batch)` is the objective's loss of `model`, with attention kept inside each packed sequence."""

    def __init__(
        self, model: Any, objective: Objective, architecture: Architecture, fp32_residual_connection: bool = True
    ) -> None:
        super().__init__()
        for part in model.modules():  # ELECTRA's generator is a model inside the model
            if isinstance(part, PreTrainedModel):
                # `transformers`' own attention would let the sequences of a batch see each other
                use_attention(part, "packed")
                part.logits_gradient = LogitsGradient()  # for `token_loss`; compiled with the model's modules
        freeze_angles(model)
        if not fp32_residual_connection:
            use_16_bit_residuals(model)
        self.model, self.objective, self.architecture = model, objective, architecture
        # the config of a checkpoint may name no padding, as GPT-2's own does not
        self.pad_id = PAD_ID if model.config.pad_token_id is None else model.config.pad_token_id

    def forward(self, batch: TensorBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(loss, scalars to log)."""
        if self.objective.causal:
            # here, because batches are put on the device without knowing the objective
            batch = replace(batch, layout=replace(batch.layout, causal=True))
        loss, values = self.objective.loss(self.architecture, self.model, batch)
        if self.training:
            is_real = batch.step_tokens.isfinite()  # a placeholder part does not count as work
            values["tokens"] = (batch.input_ids != self.pad_id).sum() * is_real
            values["flops"] = self.flops(batch, values["tokens"]) * is_real
        return loss, values

    def flops(self, batch: TensorBatch, tokens: torch.Tensor) -> torch.Tensor:
        """The floating-point operations of forward and backward pass without padding: six per token and weight (Kaplan
        et al. 2020), and attention's."""
        sizes, kind = self.architecture, self.objective.head
        head = sizes.head_weights(self.model.config.vocab_size, kind) * (batch.labels != IGNORE_INDEX).sum()
        real = batch.input_ids[batch.starts] != self.pad_id  # sequences added by `pad_to` are not counted
        squares = (batch.lengths.square() * real).sum()
        # squares twice: attention multiplies queries with keys, and its weights with values
        return 6.0 * (sizes.encoder_weights(kind) * tokens + head + 2 * sizes.attention_width(kind) * squares)


def uses_varlen(target_device: torch.device, plan: Plan) -> bool:
    """Whether PyTorch's kernel for packed sequences can be used: it requires a 16-bit type and an Ampere GPU or
    newer."""
    return (
        plan.mixed_precision == "bf16"
        and target_device.type == "cuda"
        and torch.cuda.get_device_capability(target_device) >= (8, 0)
    )


def triton_error(target_device: torch.device, module: LossModule | None) -> str | None:
    """Why `triton_attention` can't be used for the model, found by trying it; empty where there is nothing to try, None
    where it can be used."""
    if module is None or target_device.type != "cuda" or find_spec("triton") is None:
        return ""
    from kobert_pipeline.training.triton_attention import kernel_error

    configs = [part.config for part in module.modules() if isinstance(part, PreTrainedModel)]
    heads = {
        (config.hidden_size // config.num_attention_heads, config.model_type == "modernbert") for config in configs
    }
    return next(
        filter(None, (kernel_error(target_device, width, is_rotary) for width, is_rotary in sorted(heads))), None
    )


def attention_kernel(target_device: torch.device, plan: Plan, module: LossModule | None = None) -> str:
    """The name of the kernel that packed sequences are attended with in `batches`. Warns where a GPU could have had a
    faster one."""
    if uses_varlen(target_device, plan):
        error = triton_error(target_device, module)
        if error is None:
            return f"Triton up to {TILE} tokens, varlen_attn beyond"
        if not error:
            return "varlen_attn"
        warnings.warn(
            f"pretraining is slower than it could be: Triton's attention for short sequences is not used on "
            f"{torch.cuda.get_device_name(target_device)} with torch {torch.__version__}: {error}",
            stacklevel=2,
        )
        return f"varlen_attn, since Triton's failed: {error}"
    if target_device.type == "cuda" and plan.mixed_precision == "bf16":
        warnings.warn(
            f"pretraining is slower than it could be: torch {torch.__version__} on "
            f"{torch.cuda.get_device_name(target_device)} has no kernel for packed sequences; it takes an Ampere GPU "
            "or newer",
            stacklevel=2,
        )
    return "scaled_dot_product_attention"


def most_labels(tokens: int, objective: Objective) -> int:
    """More labels than a part of a batch with so many tokens is likely to have."""
    expected = objective.predicted_share * tokens
    most = 64 * math.ceil((expected + LABELS_SPREAD * math.sqrt(expected)) / 64)  # a size that matrix products like
    return min(tokens, most)


def shape_to_compile(tokens: int, max_length: int, objective: Objective) -> tuple[int, int, int, int]:
    """What `Batch.pad_to` pads parts of about `tokens` tokens to, so that all of them have one shape."""
    most = tokens + max_length  # a part holds whole sequences, so it exceeds its share by less than one of them
    return most, max_length, most_labels(most, objective), math.ceil(most / max_length / FULL_SEQUENCES)


def batches(schedule: PhaseSchedule, plan: Plan, module: LossModule | None = None) -> BatchAt:
    """The batches of a schedule by step and part, on this rank's device, for the fastest kernels that compute attention
    of `module` there."""
    target_device = device()
    varlen = uses_varlen(target_device, plan)
    tiled = varlen and triton_error(target_device, module) is None

    def batch_at(step: int, part: int, parts: int) -> TensorBatch:
        batch, loader = schedule.batch(step), schedule.loader_at(step)
        batch = batch.part(part, parts) if parts > 1 else batch
        if plan.torch_compile:
            shape = shape_to_compile(math.ceil(loader.batch_tokens / parts), loader.max_length, loader.objective)
        elif target_device.type == "cpu" and plan.mixed_precision == "bf16":
            # oneDNN makes and keeps a kernel for every shape that it meets: 240 MiB more in a short training without
            # these multiples (docs/results/engine)
            shape = (CPU_MULTIPLE, loader.max_length, CPU_MULTIPLE, CPU_MULTIPLE)
        else:
            return to_device(batch, target_device, varlen, tiled)
        return to_device(batch.pad_to(*shape, pad_id=loader.shards.special.pad), target_device, varlen, tiled)

    return batch_at
