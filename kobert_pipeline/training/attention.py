"""Attention that stays inside each of several sequences packed one after another without padding.

In its bidirectional models `transformers` v5 ignores packed `position_ids`, so packed sequences would silently attend
to each other. This module registers an attention function named "packed" that keeps them apart. All other layers work
on single positions and need neither padding nor a mask.
"""

import inspect
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface
from transformers.models.modernbert import modeling_modernbert

from kobert_pipeline.training.rope import rotary_positions

varlen_attn: Any = None
with suppress(ImportError):  # PyTorch before 2.10
    from torch.nn.attention.varlen import varlen_attn

LENGTH_MULTIPLE = 16
"""Sequences whose lengths round up to the same multiple of this share a rectangle, so that there are few rectangles."""


@dataclass(frozen=True)
class SequenceLayout:
    """Where each of n sequences is among T packed positions, in one of two forms.

    For plain PyTorch, `rectangles`: sequences of about equal length, each group as (n, L, mask (n, 1, 1, L) or None);
    `index` (C,): the position that each cell of all rectangles reads; and `inverse` (T,): the cell of each position.
    For PyTorch's variable-length kernel, `cu_seqlens` (n + 1,) int32: the cumulated lengths, and `max_seqlen`: an upper
    bound of the lengths. `causal`: no position attends to later ones.
    """

    rectangles: list[tuple[int, int, torch.Tensor | None]]
    index: torch.Tensor | None = None
    inverse: torch.Tensor | None = None
    cu_seqlens: torch.Tensor | None = None
    max_seqlen: int = 0
    causal: bool = False

    @classmethod
    def of(cls, lengths: np.ndarray, causal: bool = False, varlen: bool = False) -> "SequenceLayout":
        """The layout of sequences of these `lengths`, (n,), packed in order, in host memory; with `varlen` for
        PyTorch's kernel (CUDA, 16-bit types)."""
        if varlen:
            cu_seqlens = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
            max_seqlen = -(-int(lengths.max()) // 128) * 128  # rounded up: few different values from batch to batch
            return cls([], cu_seqlens=cu_seqlens, max_seqlen=max_seqlen, causal=causal)
        begins = np.cumsum(lengths) - lengths
        rounded = -(-lengths // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
        inverse = np.empty(int(lengths.sum()), np.int64)
        rectangles, indexes, cells = [], [], 0
        # sequences of length 0, which `Batch.pad_to` adds, need no rectangle
        for width in np.unique(rounded[rounded > 0]):
            rows = np.flatnonzero(rounded == width)
            longest = int(lengths[rows].max())
            column = np.arange(longest)
            real = column < lengths[rows, None]  # (n, L)
            # padding cells read the sequence's first token: any valid index will do, since the mask hides them
            index = np.where(real, begins[rows, None] + column, begins[rows, None])
            inverse[index[real]] = cells + np.flatnonzero(real)
            mask = None if real.all() else torch.from_numpy(real[:, None, None, :])
            rectangles.append((len(rows), longest, mask))
            indexes.append(index.reshape(-1))
            cells += real.size
        return cls(rectangles, torch.from_numpy(np.concatenate(indexes)), torch.from_numpy(inverse), causal=causal)


def has_varlen() -> bool:
    """Whether this PyTorch has the kernel for packed sequences (2.10 and later) with sliding windows."""
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
    """An attention function as `transformers` calls it, for one row of packed sequences.

    `query`, `key`, `value`: (1, H, T, W); returns (1, T, H, W). `packing` is the keyword argument that the model was
    called with. With `sliding_window` only positions less than this far apart attend to each other. Raises ValueError
    for attention dropout with the variable-length kernel.
    """
    scale = scaling or query.shape[3] ** -0.5
    if packing.cu_seqlens is None:
        return _in_rectangles(query, key, value, packing, scale, dropout, sliding_window), None
    if dropout:
        raise ValueError(
            "the kernel for packed sequences supports no dropout; set the architecture's attention dropout to 0"
        )
    head_size = query.shape[3]
    q, k, v = (_for_kernel(states) for states in (query, key, value))
    # the kernel counts visible neighbours on each side, -1 for all of them; the window counts the position itself, too
    reach = -1 if sliding_window is None else sliding_window - 1
    window = (reach, 0 if packing.causal else reach)
    cu_seqlens, max_seqlen = packing.cu_seqlens, packing.max_seqlen
    attended = varlen_attn(q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, scale=scale, window_size=window)
    if attended.shape[2] > head_size:
        attended = attended[..., :head_size]
    return attended.unsqueeze(0), None


def _for_kernel(states: torch.Tensor) -> torch.Tensor:
    """(1, H, T, W) -> (T, H, W), with W padded to a multiple of 8, which the kernel requires; zeros change no dot
    product."""
    # not `[0]`, whose backward pass fills a tensor with zeros; and `pad` copies even where it adds nothing
    states = states.squeeze(0).transpose(0, 1)
    if missing := -states.shape[-1] % 8:
        states = torch.nn.functional.pad(states, (0, missing))
    return states.contiguous()


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
    """(1, H, T, W) -> (1, T, H, W). Not compiled: the rectangles' shapes differ from batch to batch, so every batch
    would be compiled again."""
    heads, head_size = query.shape[1], query.shape[3]
    index: Any = packing.index
    inverse: Any = packing.inverse
    # 3 x (1, H, T, W) -> (T, 3, H, W), so that one gather fetches all three, for all rectangles: the backward pass of
    # each gather fills a tensor as large as all positions, and adds to it
    states = torch.stack([part.squeeze(0).transpose(0, 1) for part in (query, key, value)], 1)
    cells = states.index_select(0, index).split([rows * longest for rows, longest, _ in packing.rectangles])
    attended = []
    for (rows, longest, mask), of_rectangle in zip(packing.rectangles, cells, strict=True):
        # (n * L, 3, H, W) -split-> (n, L, 3, H, W) -trans-> 3 x (n, H, L, W)
        q, k, v = of_rectangle.unflatten(0, (rows, longest)).permute(2, 0, 3, 1, 4).unbind(0)
        visible = _visible(longest, packing.causal, sliding_window, mask, query.device)
        out = _attend(q, k, v, visible, dropout, scale)
        attended.append(out.transpose(1, 2).reshape(rows * longest, heads, head_size))
    return torch.cat(attended).index_select(0, inverse)[None]


def _visible(
    length: int, causal: bool, sliding_window: int | None, mask: torch.Tensor | None, device: torch.device
) -> torch.Tensor | None:
    """The mask of which position attends to which: (n, 1, L, L), (L, L), or None where all attend to all. `mask`
    (n, 1, 1, L) marks the cells that are no padding."""
    reach = length if sliding_window is None else min(sliding_window, length)
    if not causal and reach == length:
        return mask
    positions = torch.arange(length, device=device)
    distance = positions[:, None] - positions  # (L, L): query position minus key position
    visible = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    visible &= distance.abs() < reach
    return visible if mask is None else visible & mask


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    scaling: float,
) -> torch.Tensor:
    """Scaled dot-product attention, (n, H, L, W) -> (n, H, L, W)."""
    # the plain products below have no dropout
    if query.device.type != "cpu" or query.dtype != torch.bfloat16 or dropout:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling
        )
    # in bf16 on CPU plain products are 3 to 9 times faster than the fused kernel, whose backward pass is slow there
    # for sequences up to 128 and no better at 512
    scores = query @ key.transpose(-1, -2) * scaling  # (n, H, L, W) @ (n, H, W, L) -> (n, H, L, L)
    if mask is not None:
        # not -inf: a padding cell far from the last token sees nothing in a narrow window, and would get NaN gradients
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1, dtype=torch.float32).to(value.dtype) @ value


AttentionInterface.register("packed", packed_attention)
# for every ModernBERT of this process, padded ones too: its layers call the function by this name
modeling_modernbert.apply_rotary_pos_emb = rotary_positions
