"""The objective's loss as a module, and batches on a device. The torch side of pretraining."""

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
    """`forward(batch)` is the objective's loss of `model`, whose attention stays inside each packed sequence."""

    def __init__(self, model: Any, objective: Objective, architecture: Architecture) -> None:
        super().__init__()
        for part in model.modules():  # a generator is a model within the model
            if isinstance(part, PreTrainedModel):
                part.set_attn_implementation("packed")
        self.model, self.objective, self.architecture = model, objective, architecture

    def forward(self, batch: TensorBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(loss, numbers to log)."""
        tensors, packing = batch
        if self.objective.causal:
            packing = replace(packing, causal=True)
        loss, values = self.objective.loss(self.architecture, self.model, tensors, packing)
        if self.training:
            counts = tensors["step_tokens"].isfinite()  # what stands in for nothing is no work
            values["tokens"] = (tensors["input_ids"] != PAD_ID).sum() * counts
            values["flops"] = self.flops(tensors, values["tokens"]) * counts
        return loss, values

    def flops(self, tensors: dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
        """What the batch costs forward and backward where nothing is padded: six operations a token and weight (Kaplan
        et al. 2020), and attention."""
        sizes, kind = self.architecture, self.objective.head
        head = sizes.head_matrices(self.model.config.vocab_size, kind) * (tensors["labels"] != IGNORE_INDEX).sum()
        real = tensors["input_ids"][tensors["starts"]] != PAD_ID  # sequences that fill a batch up are no work
        squares = (tensors["lengths"].square() * real).sum()
        return 6.0 * (sizes.matrices(kind) * tokens + head + 2 * sizes.attended(kind) * squares)


def to_device(batch: Batch, place: torch.device | str = "cpu", varlen: bool = False) -> TensorBatch:
    """The arrays as tensors, the counts of the step, and the layout of attention."""
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)).to(place) for name, array in batch.arrays().items()}
    tensors |= {
        f"step_{name}": torch.tensor(float(count), device=place) for name, count in batch.counts._asdict().items()
    }
    return tensors, SequenceLayout.of(batch.lengths, place, varlen=varlen)


def takes_varlen(place: torch.device, plan: Plan) -> bool:
    """Whether PyTorch's kernel for packed sequences serves: it wants 16 bits, and Ampere or newer."""
    return (
        plan.mixed_precision == "bf16"
        and place.type == "cuda"
        and has_varlen()
        and torch.cuda.get_device_capability(place) >= (8, 0)
    )


def batches(course: PhaseSchedule, plan: Plan) -> BatchAt:
    """The batches of a course by step and part, on this process's device, in one shape where the model is compiled for
    it."""
    place = device()
    varlen = takes_varlen(place, plan)

    def batch_at(step: int, part: int, parts: int) -> TensorBatch:
        batch, phase = course.batch(step), course.loader_at(step)
        batch = batch.part(part, parts) if parts > 1 else batch
        if plan.torch_compile:
            batch = batch.pad_to(phase.batch_tokens // parts + 2 * phase.max_length, phase.max_length)
        return to_device(batch, place, varlen)

    return batch_at
