"""A kernel on the CPU for PyTorch's operator for packed sequences, which has one for CUDA alone."""

from itertools import pairwise
from typing import Any

import torch
from torch.nn.attention import varlen

Window = tuple[int, int]
"""How far a position attends to the left and to the right; -1: to the end."""


def visible(length: int, window: Window) -> torch.Tensor:
    """(L, L): which position (row) attends to which (column)."""
    distance = torch.arange(length)[:, None] - torch.arange(length)
    left, right = (length if reach < 0 else reach for reach in window)
    return (distance <= left) & (-distance <= right)


def probabilities(query: torch.Tensor, key: torch.Tensor, scale: float, window: Window) -> torch.Tensor:
    """(H, L, W) twice -> (H, L, L)."""
    scores = query @ key.transpose(1, 2) * scale
    return scores.masked_fill(~visible(query.shape[1], window), -torch.inf).softmax(-1)


def sequences(cu_seqlens: torch.Tensor, *tensors: torch.Tensor) -> Any:
    """For each sequence its slice, and its part of each (T, H, W) tensor as (H, L, W) in fp32."""
    bounds = cu_seqlens.tolist()
    for start, end in pairwise(bounds):
        yield slice(start, end), *(tensor[start:end].transpose(0, 1).float() for tensor in tensors)


def forward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cu_seq_q: torch.Tensor, cu_seq_k: torch.Tensor,
    max_q: int, max_k: int, is_causal: bool = False, scale: float = 1.0, window_size: Window = (-1, -1), **more: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """The attended values, and two outputs that only the CUDA kernels read."""
    out = torch.empty_like(query)
    for place, q, k, v in sequences(cu_seq_q, query, key, value):
        out[place] = (probabilities(q, k, scale, window_size) @ v).transpose(0, 1).to(out.dtype)
    return out, torch.zeros(query.shape[1], query.shape[0]), torch.zeros(2, dtype=torch.uint64)


def backward(
    grad_out: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, cu_seq_q: torch.Tensor, cu_seq_k: torch.Tensor, max_q: int, max_k: int, is_causal: bool,
    rng_state: torch.Tensor, scale: float = 1.0, window_size: Window = (-1, -1), **more: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """The gradients of query, key and value."""
    found = tuple(torch.empty_like(tensor) for tensor in (query, key, value))
    for place, q, k, v, o, g in sequences(cu_seq_q, query, key, value, out, grad_out):
        p = probabilities(q, k, scale, window_size)
        of_scores = p * (g @ v.transpose(1, 2) - (g * o).sum(-1, keepdim=True)) * scale
        slopes = (of_scores @ k, of_scores.transpose(1, 2) @ q, p.transpose(1, 2) @ g)
        for tensor, slope in zip(found, slopes, strict=True):
            tensor[place] = slope.transpose(0, 1).to(tensor.dtype)
    return found


def register() -> None:
    """Give the operator these kernels in this process."""
    varlen._varlen_attn.register_kernel("cpu")(forward)
    varlen._varlen_attn_backward.register_kernel("cpu")(backward)
