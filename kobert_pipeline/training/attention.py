"""Attention that stays inside each of several sequences packed one after another without padding.

In its bidirectional models `transformers` v5 ignores packed `position_ids`, so packed sequences would silently attend
to each other. This module registers an attention function named "packed" that keeps them apart. All other layers work
on single positions and need neither padding nor a mask.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask
from transformers.models.modernbert import modeling_modernbert
from transformers.models.roformer import modeling_roformer

from kobert_pipeline.training.rope import rotary_positions, rotate_pairs

# kept, because the end of this file replaces them, and still called for all that is not in tiles, or neither packed nor
# trained in bf16
their_attention: Any = modeling_modernbert.ModernBertAttention.forward
their_roformer_attention: Any = modeling_roformer.RoFormerSelfAttention.forward

LENGTH_MULTIPLE = 16
"""Sequences whose lengths round up to the same multiple of this share a rectangle, so that there are few rectangles."""
TILE = 128
"""Tokens that a program of `triton_attention` has room for, and so the length of the longest sequence that it takes."""


@dataclass(frozen=True)
class SequenceLayout:
    """Where each of n sequences is among T packed positions, in one of three forms.

    For plain PyTorch, `rectangles`: sequences of about equal length, each group as (n, L, mask (n, 1, 1, L) or None);
    `index` (C,): the position that each cell of all rectangles reads; and `inverse` (T,): the cell of each position.
    For PyTorch's variable-length kernel, `cu_seqlens` (n + 1,) int32: the cumulated lengths, and `max_seqlen`: an upper
    bound of the lengths. For `triton_attention` `cu_seqlens` and `max_seqlen`, too; `tiles` (m + 1,) int32: where runs
    of whole sequences begin that have at most `TILE` tokens, m being the same for every batch of T; and `bounds` (2, T)
    int32: the first and the last position of each position's sequence. `causal`: no position attends to later ones.
    """

    rectangles: list[tuple[int, int, torch.Tensor | None]]
    index: torch.Tensor | None = None
    inverse: torch.Tensor | None = None
    cu_seqlens: torch.Tensor | None = None
    max_seqlen: int = 0
    tiles: torch.Tensor | None = None
    bounds: torch.Tensor | None = None
    causal: bool = False

    @classmethod
    def of(cls, lengths: np.ndarray, varlen: bool = False, tiled: bool = False) -> "SequenceLayout":
        """The layout of sequences of these `lengths`, (n,), packed in order, in host memory; with `varlen` for
        PyTorch's kernel (CUDA, 16-bit types), and with `tiled`, too, for `triton_attention` unless one is too long."""
        if varlen:
            cu_seqlens = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            max_seqlen = -(-int(lengths.max()) // 128) * 128  # rounded up: few different values from batch to batch
            tiles = bounds = None
            if tiled and lengths.max() <= TILE:
                tiles = torch.from_numpy(_tile_starts(cu_seqlens))
                bounds = torch.from_numpy(np.stack([cu_seqlens[:-1], cu_seqlens[1:] - 1]).repeat(lengths, 1))
            return cls([], cu_seqlens=torch.from_numpy(cu_seqlens), max_seqlen=max_seqlen, tiles=tiles, bounds=bounds)
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
        return cls(rectangles, torch.from_numpy(np.concatenate(indexes)), torch.from_numpy(inverse))


def _tile_starts(cu_seqlens: np.ndarray) -> np.ndarray:
    """(m + 1,) int32: where tiles begin that each take as many of the next sequences as have at most `TILE` tokens, and
    T for the tiles that are left over."""
    # for all sequences at once, so that the loop below only jumps from tile to tile
    last, tokens = np.searchsorted(cu_seqlens, cu_seqlens + TILE, "right") - 1, int(cu_seqlens[-1])
    # any two neighbours have more than TILE tokens together
    starts = np.full(2 * (tokens // (TILE + 1)) + 2, tokens, np.int32)
    index = sequence = 0
    # every round advances, since no sequence has more than TILE tokens
    while cu_seqlens[sequence] < tokens:
        starts[index] = cu_seqlens[sequence]
        index, sequence = index + 1, int(last[sequence])
    return starts


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
    for attention dropout with the kernels of a GPU.
    """
    scale = scaling or query.shape[3] ** -0.5
    if packing.cu_seqlens is None:
        return _in_rectangles(query, key, value, packing, scale, dropout, sliding_window), None
    if dropout:
        raise ValueError(
            "the kernel for packed sequences supports no dropout; set the architecture's attention dropout to 0"
        )
    if packing.tiles is not None:
        # (1, H, T, W) -> (T, H, W)
        states = [part.squeeze(0).transpose(0, 1) for part in (query, key, value)]
        return _in_tiles(states, [], packing, scale, sliding_window), None
    head_size = query.shape[3]
    q, k, v = (_for_kernel(states) for states in (query, key, value))
    # the kernel counts visible neighbours on each side, -1 for all of them; the window counts the position itself, too
    reach = -1 if sliding_window is None else sliding_window - 1
    window = (reach, 0 if packing.causal else reach)
    cu_seqlens, max_seqlen = packing.cu_seqlens, packing.max_seqlen
    lengths = (cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    attended: Any = varlen_attn(q, k, v, *lengths, scale=scale, window_size=window)
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


def _in_tiles(
    states: list[torch.Tensor], angles: list[torch.Tensor], layout: SequenceLayout, scale: float, window: int | None
) -> torch.Tensor:
    """The attended values (1, T, H, W), by `short_attention` of triton_attention.py, which says what `states` and
    `angles` are."""
    # no two tokens of a tile are further apart, so this reach hides nothing
    reach = TILE if window is None else window - 1
    reach_ahead = 0 if layout.causal else reach
    # by its name, because that module imports Triton
    attended: torch.Tensor = torch.ops.kobert.short_attention(
        states, angles, layout.tiles, layout.bounds, scale, reach, reach_ahead
    )[0]
    return attended.unsqueeze(0)


def modernbert_attention(
    module: Any, hidden_states: torch.Tensor, position_embeddings: Any = None, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """ModernBERT's attention, (1, T, H) -> (1, T, H). In tiles, rotary positions are a part of the kernel, and queries,
    keys and values stay the one tensor that a matrix product made."""
    layout = kwargs.get("packing")
    # with dropout, too: the kernel has none, and `packed_attention`, which their code calls, raises an error for it
    if layout is None or layout.tiles is None or (module.training and module.attention_dropout):
        return their_attention(module, hidden_states, position_embeddings, *args, **kwargs)
    qkv = module.Wqkv(hidden_states).view(hidden_states.shape[1], 3, -1, module.head_dim)
    angles = [turns.squeeze(0) for turns in position_embeddings]
    values = _in_tiles([qkv], angles, layout, module.head_dim**-0.5, module.sliding_window)
    return module.out_drop(module.Wo(values.flatten(2))), None


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
    # (cells, H, W) -> (1, T, H, W): in packed order again, without the cells of padding
    return torch.cat(attended).index_select(0, inverse)[None]


def _visible(
    length: int, causal: bool, sliding_window: int | None, mask: torch.Tensor | None, device: torch.device
) -> torch.Tensor | None:
    """The mask that says which position attends to which others: (n, 1, L, L), (L, L), or None where all attend to all.
    `mask` (n, 1, 1, L) marks the cells that are no padding."""
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
    with torch.autocast("cpu", enabled=False):  # which would copy all scores to fp32, and softmax adds in fp32 anyway
        scores = query * scaling @ key.transpose(-1, -2)  # (n, H, L, W) @ (n, H, W, L) -> (n, H, L, L)
        if mask is not None:
            # not -inf: a padding cell far from the last token sees nothing in a narrow window, and would get NaN
            # gradients
            lowest = torch.finfo(scores.dtype).min
            scores += torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, lowest)
        return scores.softmax(-1) @ value


def roformer_attention(
    module: Any, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None,
    sinusoidal_pos: torch.Tensor | None = None, **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:  # fmt: skip
    """RoFormer's attention, (B, L, H) -> (B, L, H): that of packed sequences, in a training in bf16 on a CPU
    `padded_attention`, else their own, which asks for no function by its name."""
    layout = kwargs.get("packing")
    on_cpu = module.training and hidden_states.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    if sinusoidal_pos is None or (layout is None and not on_cpu):
        return their_roformer_attention(module, hidden_states, attention_mask, sinusoidal_pos, **kwargs)
    # (B, L, H) -split-> (B, L, A, W) -trans-> (B, A, L, W)
    query, key, value = (
        part(hidden_states).unflatten(-1, (-1, module.attention_head_size)).transpose(1, 2)
        for part in (module.query, module.key, module.value)
    )
    query, key = (rotate_pairs(states, sinusoidal_pos) for states in (query, key))
    if module.rotary_value:
        value = rotate_pairs(value, sinusoidal_pos)
    dropout = module.dropout.p if module.training else 0.0
    if layout is not None:
        attended, _ = packed_attention(module, query, key, value, None, layout, dropout=dropout)
    else:
        # their mask is added to the scores: 0 where a position is attended to
        visible = None if attention_mask is None else attention_mask == 0
        attended, _ = padded_attention(module, query, key, value, visible, dropout=dropout)
    return attended.flatten(2), None


def use_attention(model: Any, name: str) -> None:
    """Let a model of `transformers` attend by the function with this name. RoFormer's choose theirs by themselves."""
    if model.config.model_type != "roformer":
        model.set_attn_implementation(name)


def freeze_angles(model: torch.nn.Module) -> None:
    """Let no training expect gradients of the angles of a RoFormer's positions: loading makes weights of them."""
    for part in model.modules():
        if isinstance(part, modeling_roformer.RoFormerSinusoidalPositionalEmbedding):
            part.requires_grad_(False)


def padded_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function as `transformers` calls it, for padded sequences and as many heads of keys as of queries:
    (n, H, L, W) -> (n, L, H, W). Where `attention_mask` (n, 1, L, L) is False a position is not attended to."""
    attended = _attend(query, key, value, attention_mask, dropout, scaling or query.shape[3] ** -0.5)
    return attended.transpose(1, 2).contiguous(), None


AttentionInterface.register("packed", packed_attention)
AttentionInterface.register("padded", padded_attention)
AttentionMaskInterface.register("padded", sdpa_mask)
# for every ModernBERT of this process, padded ones too: its layers call the functions by these names
modeling_modernbert.apply_rotary_pos_emb = rotary_positions
modeling_modernbert.ModernBertAttention.forward = modernbert_attention  # type: ignore[method-assign, assignment]
modeling_roformer.RoFormerSelfAttention.forward = roformer_attention  # type: ignore[method-assign, assignment]
