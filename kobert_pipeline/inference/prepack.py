"""Linear layers with their weights in oneDNN's own memory layout, for faster predictions on a CPU.

PyTorch reorders the weights of such a layer in every call. Done once, it saves up to a fifth of the layer's time
(docs/results/serving.md), and costs the memory of its weights once more.
"""

from functools import partial
from typing import Any

import torch

from kobert_pipeline.training.device import device_for

SMALLEST = 16
"""Inputs and outputs of the smallest layer for which this is worthwhile; heads for a few labels are smaller."""


def prepack(model: Any) -> int:
    """Let the linear layers of a float32 model on a CPU compute with prepacked weights, which must not change any more;
    return how many do. The class, the weights and their names stay as they are, and results are the same up to
    rounding. Does nothing where the model will be on a GPU, or where this build of PyTorch cannot."""
    # the operation that torch.compile uses; it is not documented, so another version may lack it
    able = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if not able or device_for(model).type != "cpu":
        return 0
    # the output layer over the vocabulary shares its weights, which are too large to have twice
    embeddings = {part.weight for part in model.modules() if isinstance(part, torch.nn.Embedding)}
    linears = [part for part in model.modules() if isinstance(part, torch.nn.Linear) and part.weight not in embeddings]
    packed: list[Any] = [
        layer for layer in linears if layer.weight.dtype == torch.float32 and min(layer.weight.shape) >= SMALLEST
    ]
    for layer in packed:
        weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
        # on the layer and not as a class of its own, so that the model can be saved and named as before
        layer.forward = partial(prepacked_linear, layer, weight)
    return len(packed)


def prepacked_linear(layer: torch.nn.Linear, weight: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """`layer(states)`, (..., inputs) -> (..., outputs), with its prepacked `weight` where that fits the states."""
    if states.dtype != torch.float32 or states.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return torch.nn.functional.linear(states, layer.weight, layer.bias)
    # "none": no activation function is computed along with it
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, layer.bias, "none", [], "")
    return product
