"""Rotary positions (Su et al. 2021, "RoFormer") of ModernBERT as one function with a backward pass of its own.

`transformers` copies queries and keys to fp32, negates, joins and multiplies them as whole tensors, and in the backward
pass fills whole tensors with zeros for each half: a third of the bytes of a training step.
"""

from typing import Any

import torch
from transformers.models.modernbert import modeling_modernbert

their_rotary_positions = modeling_modernbert.apply_rotary_pos_emb


class _Rotation(torch.autograd.Function):
    """The gradient of a rotation is rotated back."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotate(states, cos, sin, 1)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _rotate(gradient, cos, sin, -1), None, None


def _rotate(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, direction: int) -> torch.Tensor:
    """Each pair of numbers half a head apart, rotated by its angle: (B, H, L, W) with cosines (B, 1, L, W) and sines
    (B, 1, L, W / 2), computed in fp32. `direction` is -1 to rotate back."""
    half, on_cpu = states.shape[-1] // 2, states.device.type == "cpu"
    # a CPU would copy to fp32 in each of three operators; a GPU does so inside its kernels
    factors = states.float() if on_cpu else states
    products = factors * cos
    # in place is safe on a CPU: what a half needs of the other half is read from `factors`, which stays
    rotated = products if on_cpu else torch.empty_like(states)
    for ours, other, sign in (
        (slice(half), slice(half, None), -direction),
        (slice(half, None), slice(half), direction),
    ):
        torch.addcmul(products[..., ours], factors[..., other], sin, value=sign, out=rotated[..., ours])
    return rotated.to(states.dtype)


def rotary_positions(
    query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys with their positions, as `apply_rotary_pos_emb` of `transformers` gives them up to rounding:
    (B, H, L, W) each, and cosines and sines (B, L, W), whose halves are equal."""
    if torch.compiler.is_compiling():  # a compiler fuses theirs by itself, and ONNX knows its operators
        theirs: tuple[torch.Tensor, torch.Tensor] = their_rotary_positions(query, key, cos, sin, unsqueeze_dim)
        return theirs
    cos, sin = cos.unsqueeze(unsqueeze_dim).float(), sin.unsqueeze(unsqueeze_dim)
    sin = sin[..., : sin.shape[-1] // 2].float()
    return _Rotation.apply(query, cos, sin), _Rotation.apply(key, cos, sin)


def rotate_pairs(states: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Queries, keys or values of a RoFormer, (B, H, L, W), with each pair of neighbouring numbers rotated. `angles` are
    (B, 1, L, W), sines and then cosines."""
    sin, cos = angles.chunk(2, dim=-1)  # (B, 1, L, W / 2) each, in fp32
    first, second = states[..., ::2], states[..., 1::2]
    rotated = torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return rotated.flatten(-2).to(states.dtype)
