"""The objective's loss as a module, and batches on a device: the torch side of pretraining."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.batch import IGNORE_INDEX, Batch
from kobert_pipeline.pretrain.objective import Objective
from kobert_pipeline.pretrain.phases import PhaseSchedule
from kobert_pipeline.tokenizer.special_tokens import PAD_ID
from kobert_pipeline.training.attention import SequenceLayout, has_varlen
from kobert_pipeline.training.device import device
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.prefetch import BatchAt

TensorBatch = tuple[dict[str, torch.Tensor], SequenceLayout]


class LossModule(torch.nn.Module):
    """`forward(batch)` is the objective's loss of `model`, with attention kept inside each packed sequence."""

    def __init__(self, model: Any, objective: Objective, architecture: Architecture) -> None:
        super().__init__()
        for part in model.modules():  # ELECTRA's generator is a model inside the model
            if isinstance(part, PreTrainedModel):
                part.set_attn_implementation("packed")
        self.model, self.objective, self.architecture = model, objective, architecture

    def forward(self, batch: TensorBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(loss, scalars to log)."""
        tensors, packing = batch
        if self.objective.causal:
            packing = replace(packing, causal=True)
        loss, values = self.objective.loss(self.architecture, self.model, tensors, packing)
        if self.training:
            is_real = tensors["step_tokens"].isfinite()  # a placeholder part does not count as work
            values["tokens"] = (tensors["input_ids"] != PAD_ID).sum() * is_real
            values["flops"] = self.flops(tensors, values["tokens"]) * is_real
        return loss, values

    def flops(self, tensors: dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
        """The floating-point operations of forward and backward pass without padding: six per token and weight (Kaplan
        et al. 2020), and those of attention."""
        sizes, kind = self.architecture, self.objective.head
        head = sizes.head_weights(self.model.config.vocab_size, kind) * (tensors["labels"] != IGNORE_INDEX).sum()
        real = tensors["input_ids"][tensors["starts"]] != PAD_ID  # sequences added by `pad_to` are not counted
        squares = (tensors["lengths"].square() * real).sum()
        return 6.0 * (sizes.encoder_weights(kind) * tokens + head + 2 * sizes.attention_width(kind) * squares)


def to_device(batch: Batch, place: torch.device | str = "cpu", varlen: bool = False) -> TensorBatch:
    """The arrays as tensors, the denominators of the step, and the layout for attention."""
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)).to(place) for name, array in batch.arrays().items()}
    tensors |= {
        f"step_{name}": torch.tensor(float(count), device=place) for name, count in batch.denominators._asdict().items()
    }
    return tensors, SequenceLayout.of(batch.lengths, place, varlen=varlen)


def uses_varlen(place: torch.device, plan: Plan) -> bool:
    """Whether PyTorch's kernel for packed sequences can be used: it requires a 16-bit type and an Ampere GPU or
    newer."""
    return (
        plan.mixed_precision == "bf16"
        and place.type == "cuda"
        and has_varlen()
        and torch.cuda.get_device_capability(place) >= (8, 0)
    )


def batches(schedule: PhaseSchedule, plan: Plan) -> BatchAt:
    """The batches of a schedule by step and part, on this rank's device."""
    place = device()
    varlen = uses_varlen(place, plan)

    def batch_at(step: int, part: int, parts: int) -> TensorBatch:
        batch, loader = schedule.batch(step), schedule.loader_at(step)
        batch = batch.part(part, parts) if parts > 1 else batch
        if plan.torch_compile:
            # parts hold whole sequences, so some exceed their share of the tokens by up to max_length
            batch = batch.pad_to(loader.batch_tokens // parts + 2 * loader.max_length, loader.max_length)
        return to_device(batch, place, varlen)

    return batch_at
