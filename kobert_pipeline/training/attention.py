"""Attention inside each of several sequences packed behind one another, without padding.

`transformers` v5 ignores packed `position_ids` in bidirectional models: packed sequences would silently see each other.
So attention is restricted here, by an attention function of our own under the name "packed": sequences of about equal
length are gathered into rectangles, attended, and laid back. Everything else in the model works on positions alone and
needs no padding at all.
"""

import inspect
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface

varlen_attn: Any = None
with suppress(ImportError):  # PyTorch before 2.10
    from torch.nn.attention.varlen import varlen_attn

ROUND = 16
"""Lengths are rounded up to a multiple of this, so that few rectangles are needed."""


@dataclass(frozen=True)
class SequenceLayout:
    """How T packed positions are laid out: in rectangles, or (`bounds`) as they lie, for a kernel that knows where
    sequences end.

    `rectangles`: (index (n * L,), n, L, mask (n, 1, 1, L) or None); `inverse` (T,): where each position went among all
    cells of all rectangles; `bounds` (n + 1,) int32: where sequences begin and end; `longest`: the most positions of
    one, as far as a kernel needs to know; `causal`: nobody sees what comes after."""

    rectangles: list[tuple[torch.Tensor, int, int, torch.Tensor | None]]
    inverse: torch.Tensor | None = None
    bounds: torch.Tensor | None = None
    longest: int = 0
    causal: bool = False

    @classmethod
    def of(
        cls, lengths: np.ndarray, device: torch.device | str = "cpu", causal: bool = False, varlen: bool = False
    ) -> "SequenceLayout":
        """The layout for sequences of these lengths, (n,), packed in order. `varlen`: for PyTorch's kernel (CUDA, 16
        bits)."""
        if varlen:
            bounds = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)).to(device)
            return cls([], bounds=bounds, longest=-(-int(lengths.max()) // 128) * 128, causal=causal)
        begins = np.cumsum(lengths) - lengths
        rounded = -(-lengths // ROUND) * ROUND
        inverse = np.empty(int(lengths.sum()), np.int64)
        rectangles, cells = [], 0
        for width in np.unique(rounded[rounded > 0]):
            rows = np.flatnonzero(rounded == width)
            longest = int(lengths[rows].max())
            column = np.arange(longest)
            real = column < lengths[rows, None]  # (n, L)
            index = np.where(real, begins[rows, None] + column, begins[rows, None])
            inverse[index[real]] = cells + np.flatnonzero(real)
            mask = None if real.all() else torch.from_numpy(real[:, None, None, :]).to(device)
            rectangles.append((torch.from_numpy(index.reshape(-1)).to(device), len(rows), longest, mask))
            cells += real.size
        return cls(rectangles, torch.from_numpy(inverse).to(device), causal=causal)


def has_varlen() -> bool:
    """Whether PyTorch brings its kernel for packed sequences (2.10 and later) with what is needed here."""
    return varlen_attn is not None and "window_size" in inspect.signature(varlen_attn).parameters


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    packing: SequenceLayout,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """`query`, `key`, `value`: (1, H, T, W). Returns (1, T, H, W), as `transformers` attention functions do.
    `sliding_window`: only positions less than this apart see each other."""
    scale = scaling or query.shape[3] ** -0.5
    if packing.bounds is None:
        return _in_rectangles(query, key, value, packing, scale, dropout, sliding_window), None
    if dropout:
        raise ValueError(
            "the kernel for packed sequences knows no dropout; set the architecture's attention dropout to 0"
        )
    width = query.shape[3]
    q, k, v = (_wide(part[0].transpose(0, 1)) for part in (query, key, value))  # (1, H, T, W) -> (T, H, W)
    reach = -1 if sliding_window is None else sliding_window - 1
    window = (reach, 0 if packing.causal else reach)
    bounds, longest = packing.bounds, packing.longest
    return varlen_attn(q, k, v, bounds, bounds, longest, longest, scale=scale, window_size=window)[
        None, ..., :width
    ], None


def _wide(part: torch.Tensor) -> torch.Tensor:
    """(T, H, W), W filled up with zeros to a multiple of 8, as the kernel wants it: zeros add nothing to any
    product."""
    return torch.nn.functional.pad(part, (0, -part.shape[-1] % 8)).contiguous()


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _in_rectangles(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    packing: SequenceLayout,
    scale: float,
    dropout: float,
    sliding_window: int | None,
) -> torch.Tensor:
    """(1, H, T, W) -> (1, T, H, W). The shapes differ from batch to batch, so there is nothing to compile."""
    heads, width = query.shape[1], query.shape[3]
    stacked = torch.stack([query[0], key[0], value[0]]).permute(2, 0, 1, 3)  # 3 x (H, T, W) -> (T, 3, H, W)
    attended = []
    for index, rows, longest, mask in packing.rectangles:
        cells = stacked.index_select(0, index).view(rows, longest, 3, heads, width)
        q, k, v = cells.permute(2, 0, 3, 1, 4).unbind(0)  # (n, L, 3, H, W) -trans-> 3 x (n, H, L, W)
        out = _attend(q, k, v, _seen(longest, packing.causal, sliding_window, mask, query.device), dropout, scale)
        attended.append(out.transpose(1, 2).reshape(rows * longest, heads, width))
    inverse: Any = packing.inverse
    return torch.cat(attended).index_select(0, inverse)[None]


def _seen(
    length: int, causal: bool, sliding_window: int | None, mask: torch.Tensor | None, device: torch.device
) -> torch.Tensor | None:
    """`mask` (n, 1, 1, L), narrowed to what each position may see: (n, 1, L, L), (L, L), or None where all see all."""
    reach = length if sliding_window is None else min(sliding_window, length)
    if not causal and reach == length:
        return mask
    place = torch.arange(length, device=device)
    apart = place[:, None] - place  # (L, L): how far behind the one that looks
    seen = apart >= 0 if causal else torch.ones_like(apart, dtype=torch.bool)
    seen &= apart.abs() < reach
    return seen if mask is None else seen & mask


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    scaling: float,
) -> torch.Tensor:
    """(n, H, L, W) -> (n, H, L, W). In bf16 on CPU plain products are 3 to 9 times faster than PyTorch's fused kernel,
    whose backward pass is slow there for sequences up to 128 and no better at 512."""
    if query.device.type != "cpu" or query.dtype != torch.bfloat16 or dropout:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling
        )
    scores = query @ key.transpose(-1, -2) * scaling  # (n, H, L, W) @ (n, H, W, L) -> (n, H, L, L)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1, dtype=torch.float32).to(value.dtype) @ value


AttentionInterface.register("packed", packed_attention)
