"""`TensorBatch`: a `Batch` as tensors on a device, which is what models and losses work on."""

from dataclasses import dataclass

import numpy as np
import torch

from kobert_pipeline.pretrain.batch import Batch
from kobert_pipeline.training.attention import SequenceLayout
from kobert_pipeline.training.transfer import copy_to_device


@dataclass(frozen=True)
class TensorBatch:
    """n sequences with T tokens in total, of which K are to be predicted, as in `Batch`.

    `input_ids`, `token_type_ids`, `position_ids`: (T,). `lengths`, `starts`, `next_sentence_label`: (n,).
    `masked_positions`, `labels`: (K,). All of these are int64. `step_tokens`, `step_labels`, `step_pairs`: scalars, the
    denominators of the whole step. `layout`: which positions attend to each other.
    """

    input_ids: torch.Tensor
    token_type_ids: torch.Tensor
    position_ids: torch.Tensor
    lengths: torch.Tensor
    starts: torch.Tensor
    masked_positions: torch.Tensor
    labels: torch.Tensor
    next_sentence_label: torch.Tensor
    step_tokens: torch.Tensor
    step_labels: torch.Tensor
    step_pairs: torch.Tensor
    layout: SequenceLayout


def to_device(
    batch: Batch, device: torch.device | str = "cpu", varlen: bool = False, tiled: bool = False
) -> TensorBatch:
    """`batch` on a device. `varlen`: with the layout for PyTorch's kernel for packed sequences; `tiled`: for
    `triton_attention`, too."""

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array))

    def scalar(count: float) -> torch.Tensor:
        # a tensor, so that it travels in the one copy to the device
        return torch.tensor(float(count))

    in_host_memory = TensorBatch(
        input_ids=tensor(batch.input_ids),
        token_type_ids=tensor(batch.token_type_ids),
        position_ids=tensor(batch.position_ids),
        lengths=tensor(batch.lengths),
        starts=tensor(batch.starts),
        masked_positions=tensor(batch.masked_positions),
        labels=tensor(batch.labels),
        next_sentence_label=tensor(batch.next_sentence_label),
        step_tokens=scalar(batch.denominators.tokens),
        step_labels=scalar(batch.denominators.labels),
        step_pairs=scalar(batch.denominators.pairs),
        layout=SequenceLayout.of(batch.lengths, varlen=varlen, tiled=tiled),
    )
    return copy_to_device(in_host_memory, device)
