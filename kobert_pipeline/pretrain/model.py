"""The objective's loss as a module, batches on a device, and the held-out loss. The torch side of pretraining."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.objective import Objective
from kobert_pipeline.training.attention import Packing

TensorBatch = tuple[dict[str, torch.Tensor], Packing]


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
            values["pieces"] = torch.tensor(float(len(tensors["input_ids"])))
        return loss, values


def to_device(batch: Batch, device: str) -> TensorBatch:
    """The arrays as tensors, and the layout of attention."""
    arrays = {**vars(batch), "starts": batch.starts}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)).to(device) for name, array in arrays.items()}
    return tensors, Packing.of(batch.lengths, device)


@torch.no_grad()
def evaluate(module: LossModule, held_out: Loader, batches: int, device: str) -> dict[str, float]:
    """Means over the first held-out batches, always the same ones, with the same random numbers; those of the training are left as they
    were."""
    module.eval()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return _evaluated(module, held_out, batches, device)


def _evaluated(module: LossModule, held_out: Loader, batches: int, device: str) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for step in range(min(batches, held_out.steps_per_epoch())):
        loss, values = module(to_device(held_out.batch(step), device))
        for name, value in {"loss": loss, **values}.items():
            sums.setdefault(name, []).append(float(value))
    return {name: float(np.mean(values)) for name, values in sums.items()}
