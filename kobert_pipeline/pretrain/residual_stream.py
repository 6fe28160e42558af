"""A residual stream in 16 bits, as in Megatron-LM without `--fp32-residual-connection`.

Under autocast the embeddings are fp32, and so is what layer norms give. Added to them, the 16-bit outputs of attention
and feed-forward layers become fp32, too: every layer saves its norms' inputs in fp32, and each of its matrices makes a
16-bit copy of what it multiplies. Where embeddings and norms give 16 bits, everything between them has 16 bits.
"""

from functools import partial
from typing import Any

import torch


def autocast_dtype(tensor: torch.Tensor) -> torch.dtype:
    """The type in which autocast multiplies `tensor` with a matrix: its own where autocast is off."""
    device_type = tensor.device.type
    return torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else tensor.dtype


def use_16_bit_residuals(model: torch.nn.Module) -> None:
    """Let all embeddings and layer norms of `model` give autocast's type. Weights stay fp32, and without autocast
    nothing changes."""
    for part in model.modules():
        if isinstance(part, torch.nn.Embedding):
            part.register_forward_hook(in_autocast_dtype)
        elif isinstance(part, torch.nn.LayerNorm):
            part.forward = partial(layer_norm, part)  # type: ignore[method-assign]


def in_autocast_dtype(module: torch.nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    """A forward hook that casts the output."""
    return output.to(autocast_dtype(output))


def layer_norm(norm: torch.nn.LayerNorm, states: torch.Tensor) -> torch.Tensor:
    """What `norm` gives for `states`, (..., H), computed in fp32 inside the kernel, in autocast's type."""
    dtype = autocast_dtype(states)
    # a CPU keeps mean and deviation in fp32 only beside fp32 weights; CUDA always does, and takes one type only
    of_weights = torch.float32 if states.device.type == "cpu" else dtype
    weight, bias = (tensor if tensor is None else tensor.to(of_weights) for tensor in (norm.weight, norm.bias))
    with torch.autocast(states.device.type, enabled=False):  # else CUDA would copy the states to fp32
        return torch.nn.functional.layer_norm(states.to(dtype), norm.normalized_shape, weight, bias, norm.eps)
