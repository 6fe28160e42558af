"""Attention of packed short sequences on a GPU, with rotary positions inside: `kobert::short_attention`, in Triton.

A program computes one head of one tile: up to `TILE` neighbouring tokens that are whole sequences, such as five film
reviews of 22 tokens. It knows all keys of its queries and all queries of its keys, so softmax is computed at once, and
the backward pass needs no atomic additions: a training is the same bit for bit each time.

Why tiles of several sequences: in a tile of its own, as wide as its batch's longest, a sequence of 22 tokens would fill
3 % of the scores, and so small a program could not wait for its memory; tiles by length class need a launch for each
class, whose sizes differ from batch to batch. Shared tiles of such sequences are 86 % full of tokens. Their scores
between different sequences are computed in vain, which costs less than the memory traffic of the tokens.

This module is imported where Triton is installed. Softmax and gradients: Dao et al. 2022, "FlashAttention".
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton

from kobert_pipeline.training.attention import TILE, SequenceLayout
from kobert_pipeline.training.rope import their_rotary_positions
from kobert_pipeline.training.transfer import copy_to_device

WARPS = 8
"""Warps of a program; with fewer, registers spill in the backward pass (docs/results/engine)."""
LOG2_E = math.log2(math.e)
TOLERANCE = 0.02
"""Largest relative difference of norms for which a GPU's kernels are believed; in bf16 it is about 0.004."""


@triton.jit
def load_angles(cos, sin, rows, is_real, stride, width: tl.constexpr, columns: tl.constexpr):
    """The cosines and sines of these rows, (rows, columns) each in fp32."""
    column = tl.arange(0, columns)
    places, is_angle = rows[:, None] * stride + column, is_real[:, None] & (column < width // 2)
    cosines = tl.load(cos + places, mask=is_angle, other=0.0).to(tl.float32)
    sines = tl.load(sin + places, mask=is_angle, other=0.0).to(tl.float32)
    return cosines, sines


@triton.jit
def load_rotated(
    states, cos, sin, rows, is_real, stride, angle_stride, width: tl.constexpr, columns: tl.constexpr,
    rotary: tl.constexpr,
):  # fmt: skip
    """The halves of the heads of queries or keys, (rows, columns) each, rotated in fp32. `columns`: half of `width`,
    rounded up to a power of two."""
    half: tl.constexpr = (width + 1) // 2
    column = tl.arange(0, columns)
    places = states + rows[:, None] * stride + column
    first = tl.load(places, mask=is_real[:, None] & (column < half), other=0.0)
    second = tl.load(places + half, mask=is_real[:, None] & (column + half < width), other=0.0)
    if rotary:
        cosines, sines = load_angles(cos, sin, rows, is_real, angle_stride, width, columns)
        left, right = first.to(tl.float32), second.to(tl.float32)
        first = (left * cosines - right * sines).to(first.dtype)
        second = (right * cosines + left * sines).to(second.dtype)
    return first, second


@triton.jit
def store_rotated_back(
    states, first, second, cos, sin, rows, is_real, stride, angle_stride, width: tl.constexpr, columns: tl.constexpr,
    rotary: tl.constexpr,
):  # fmt: skip
    """Store the gradients of both halves. The angles are loaded again, since they would have taken registers all the
    while."""
    half: tl.constexpr = (width + 1) // 2
    column = tl.arange(0, columns)
    if rotary:
        cosines, sines = load_angles(cos, sin, rows, is_real, angle_stride, width, columns)
        first, second = first * cosines + second * sines, second * cosines - first * sines
    places = states + rows[:, None] * stride + column
    tl.store(places, first, mask=is_real[:, None] & (column < half))
    tl.store(places + half, second, mask=is_real[:, None] & (column + half < width))


@triton.jit
def visible_keys(bounds, start, rows, is_real, tokens, left, right):
    """The first and the last key of its tile that each row sees, (rows,) each; a row without a token sees itself."""
    first = tl.load(bounds + start + rows, mask=is_real, other=0) - start.to(tl.int32)
    last = tl.load(bounds + tokens + start + rows, mask=is_real, other=0) - start.to(tl.int32)
    first = tl.where(is_real, tl.maximum(first, rows - left), rows)
    last = tl.where(is_real, tl.minimum(last, rows + right), rows)
    return first, last


@triton.jit
def masked_scores(queries, more_queries, keys, more_keys, columns, first, last, scale):
    """The scores of queries for keys, (rows, columns), times log2(e), since a GPU has an instruction for exp2; -inf
    where a row does not see the key."""
    # "ieee", here and below, since by default Triton rounds fp32 factors to TF32
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee")
    scores = tl.dot(more_queries, tl.trans(more_keys), scores, input_precision="ieee")
    is_visible = (columns >= first[:, None]) & (columns <= last[:, None])
    return tl.where(is_visible, scores * scale, float("-inf"))


@triton.jit
def short_attention_forward(
    query, key, value, cos, sin, tiles, bounds, out, log_sum_exp, stride, head_stride, angle_stride, tokens, scale,
    left, right, width: tl.constexpr, columns: tl.constexpr, rotary: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """One head of one tile; grid: (heads, tiles)."""
    head, heads = tl.program_id(0), tl.num_programs(0)
    # 64 bits, because a position times its stride may exceed 2^31
    start = tl.load(tiles + tl.program_id(1)).to(tl.int64)
    length = (tl.load(tiles + tl.program_id(1) + 1) - start).to(tl.int32)
    # a grid has room for the most tiles that T tokens may need; those left over are empty
    if length > 0:
        rows, column = tl.arange(0, tile), tl.arange(0, 2 * columns)
        is_real = rows < length
        is_value = is_real[:, None] & (column < width)
        begin = start * stride + head * head_stride
        cos += start * angle_stride
        sin += start * angle_stride
        first, last = visible_keys(bounds, start, rows, is_real, tokens, left, right)
        queries, more_queries = load_rotated(
            query + begin, cos, sin, rows, is_real, stride, angle_stride, width, columns, rotary
        )
        keys, more_keys = load_rotated(
            key + begin, cos, sin, rows, is_real, stride, angle_stride, width, columns, rotary
        )
        scores = masked_scores(queries, more_queries, keys, more_keys, rows, first, last, scale)
        highest = tl.max(scores, 1)
        weights = tl.exp2(scores - highest[:, None])
        total = tl.sum(weights, 1)
        values = tl.load(value + begin + rows[:, None] * stride + column, mask=is_value, other=0.0)
        attended = tl.dot(weights.to(values.dtype), values, input_precision="ieee") / total[:, None]
        out_rows = rows[:, None] * (heads * width) + column
        tl.store(out + (start * heads + head) * width + out_rows, attended, mask=is_value)
        tl.store(log_sum_exp + head * tokens + start + rows, highest + tl.log2(total), mask=is_real)


@triton.jit
def short_attention_backward(
    query, key, value, cos, sin, tiles, bounds, log_sum_exp, out_grad, grad, stride, head_stride, part_stride,
    grad_stride, angle_stride, tokens, scale, score_scale, left, right, width: tl.constexpr, columns: tl.constexpr,
    rotary: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """The gradients of one head of one tile; grid: (heads, tiles). The gradients of queries, keys and values are
    `part_stride` apart in `grad`."""
    head, heads = tl.program_id(0), tl.num_programs(0)
    start = tl.load(tiles + tl.program_id(1)).to(tl.int64)
    length = (tl.load(tiles + tl.program_id(1) + 1) - start).to(tl.int32)
    if length > 0:
        rows, column = tl.arange(0, tile), tl.arange(0, 2 * columns)
        is_real = rows < length
        is_value = is_real[:, None] & (column < width)
        begin = start * stride + head * head_stride
        grad += start * grad_stride + head * width
        cos += start * angle_stride
        sin += start * angle_stride
        first, last = visible_keys(bounds, start, rows, is_real, tokens, left, right)
        queries, more_queries = load_rotated(
            query + begin, cos, sin, rows, is_real, stride, angle_stride, width, columns, rotary
        )
        keys, more_keys = load_rotated(
            key + begin, cos, sin, rows, is_real, stride, angle_stride, width, columns, rotary
        )
        scores = masked_scores(queries, more_queries, keys, more_keys, rows, first, last, score_scale)
        log_sums = tl.load(log_sum_exp + head * tokens + start + rows, mask=is_real, other=0.0)
        weights = tl.exp2(scores - log_sums[:, None])
        out_rows = (start * heads + head) * width + rows[:, None] * (heads * width) + column
        out_grads = tl.load(out_grad + out_rows, mask=is_value, other=0.0)
        value_grads = tl.dot(tl.trans(weights.to(out_grads.dtype)), out_grads, input_precision="ieee")
        value_rows = rows[:, None] * grad_stride + column
        tl.store(grad + 2 * part_stride + value_rows, value_grads, mask=is_value)
        values = tl.load(value + begin + rows[:, None] * stride + column, mask=is_value, other=0.0)
        weight_grads = tl.dot(out_grads, tl.trans(values), input_precision="ieee")
        # FlashAttention takes these sums from its output, because it never has all keys of a row at once
        mean_grads = tl.sum(weights * weight_grads, 1)
        # by the plain scale: log2(e) is in the scores for exp2 alone, and no factor of the gradient
        score_grads = (weights * (weight_grads - mean_grads[:, None]) * scale).to(values.dtype)
        query_grads = tl.dot(score_grads, keys, input_precision="ieee")
        more_query_grads = tl.dot(score_grads, more_keys, input_precision="ieee")
        store_rotated_back(
            grad, query_grads, more_query_grads, cos, sin, rows, is_real, grad_stride, angle_stride, width, columns,
            rotary,
        )  # fmt: skip
        key_grads = tl.dot(tl.trans(score_grads), queries, input_precision="ieee")
        more_key_grads = tl.dot(tl.trans(score_grads), more_queries, input_precision="ieee")
        store_rotated_back(
            grad + part_stride, key_grads, more_key_grads, cos, sin, rows, is_real, grad_stride, angle_stride, width,
            columns, rotary,
        )  # fmt: skip


@triton_op("kobert::short_attention", mutates_args={})
def short_attention(
    states: list[torch.Tensor], angles: list[torch.Tensor], tiles: torch.Tensor, bounds: torch.Tensor, scale: float,
    left: int, right: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The attended values (T, H, W) of packed sequences, and the logarithms (base 2) of the sums of softmax (H, T).

    `states`: queries, keys and values (T, H, W), or one tensor of all three (T, 3, H, W), so that their gradient is one
    tensor, too. `angles`: cosines and sines (T, W), whose halves are equal, or nothing. `tiles`, `bounds`: as in
    `SequenceLayout`. A token sees the tokens that are at most `left` before it and `right` after it.
    """
    query, key, value = split_states(states)
    tokens, heads, width = query.shape
    out = torch.empty((tokens, heads, width), dtype=query.dtype, device=query.device)
    log_sum_exp = torch.empty((heads, tokens), dtype=torch.float32, device=query.device)
    cos, sin = angles or (log_sum_exp, log_sum_exp)  # not read
    wrap_triton(short_attention_forward)[heads, len(tiles) - 1](
        query, key, value, cos, sin, tiles, bounds, out, log_sum_exp, query.stride(0), query.stride(1), cos.stride(0),
        tokens, scale * LOG2_E, left, right, width=width, columns=padded_half(width), rotary=len(angles) > 0, tile=TILE,
        num_warps=WARPS,
    )  # fmt: skip
    return out, log_sum_exp


@triton_op("kobert::short_attention_backward", mutates_args={})
def short_attention_gradient(
    out_grad: torch.Tensor, states: list[torch.Tensor], angles: list[torch.Tensor], tiles: torch.Tensor,
    bounds: torch.Tensor, log_sum_exp: torch.Tensor, scale: float, left: int, right: int,
) -> torch.Tensor:  # fmt: skip
    """The gradient of the one of `states`, (T, 3, H, W), or of the three, (3, T, H, W)."""
    query, key, value = split_states(states)
    tokens, heads, width = query.shape
    # written as a whole: torch.compile would copy views that are written, each with the whole buffer
    shape, part = ((tokens, 3, heads, width), 1) if len(states) == 1 else ((3, tokens, heads, width), 0)
    grad = torch.empty(shape, dtype=query.dtype, device=query.device)
    cos, sin = angles or (log_sum_exp, log_sum_exp)
    # `contiguous`, because the kernel expects `out_grad` to be laid out as `out` is
    wrap_triton(short_attention_backward)[heads, len(tiles) - 1](
        query, key, value, cos, sin, tiles, bounds, log_sum_exp, out_grad.contiguous(), grad, query.stride(0),
        query.stride(1), grad.stride(part), grad.stride(1 - part), cos.stride(0), tokens, scale, scale * LOG2_E, left,
        right, width=width, columns=padded_half(width), rotary=len(angles) > 0, tile=TILE, num_warps=WARPS,
    )  # fmt: skip
    return grad


def split_states(states: list[torch.Tensor]) -> list[torch.Tensor]:
    """Queries, keys and values (T, H, W), with the same strides and the last of them 1."""
    if len(states) == 1:
        return list(states[0].unbind(1))
    strides = {part.stride() for part in states}
    return states if len(strides) == 1 and states[0].stride(2) == 1 else [part.contiguous() for part in states]


def padded_half(width: int) -> int:
    """Half of a head, as wide as the kernels compute it: a power of two that tensor cores take."""
    return max(16, triton.next_power_of_2((width + 1) // 2))


def keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Save what the backward pass of `short_attention` needs."""
    states, angles, tiles, bounds, *ctx.numbers = inputs
    ctx.counts = len(states), len(angles)
    # not the weights, up to `TILE` numbers per token and head: the backward pass computes them again
    ctx.save_for_backward(*states, *angles, tiles, bounds, output[1])


def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor | None) -> tuple[Any, ...]:
    """The gradients of `short_attention`'s arguments."""
    states, angles = ctx.counts
    saved = list(ctx.saved_tensors)
    gradient = short_attention_gradient(
        grad, saved[:states], saved[states : states + angles], *saved[states + angles :], *ctx.numbers
    )
    return [gradient] if states == 1 else list(gradient.unbind(0)), [None] * angles, None, None, None, None, None


short_attention.register_autograd(backward, setup_context=keep_for_backward)


@lru_cache
def kernel_error(device: torch.device, width: int, is_rotary: bool) -> str | None:
    """Why the kernels can't be used for heads of this width on a GPU, found by computing a small batch in bf16 and
    comparing it with plain PyTorch in fp32; None where they are right."""
    generator = torch.Generator().manual_seed(0)
    # a single token, a full tile and lengths between; the window below is narrower than the long ones
    lengths = np.array([22, 1, 100, 5, 128, 60])
    layout: Any = copy_to_device(SequenceLayout.of(lengths, varlen=True, tiled=True), device)
    tokens, left, right = int(lengths.sum()), 40, 30
    states = torch.randn(tokens, 3, 2, width, generator=generator).to(device, torch.bfloat16)
    grad = torch.randn(tokens, 2, width, generator=generator).to(device, torch.bfloat16)
    turns = torch.randn(tokens, width // 2, generator=generator).repeat(1, 2).to(device)
    angles = [turns.cos(), turns.sin()] if is_rotary else []
    results = []
    try:
        for dtype in (torch.bfloat16, torch.float32):
            leaf = states.to(dtype, copy=True).requires_grad_()
            if dtype == torch.bfloat16:
                out = short_attention([leaf], angles, layout.tiles, layout.bounds, width**-0.5, left, right)[0]
            else:
                out = plain_attention(leaf, angles, layout.bounds, width**-0.5, left, right)
            out.backward(grad.to(dtype))
            gradient: Any = leaf.grad
            results.append([out.detach().float(), *gradient.float().unbind(1)])
        names = ("values", "gradients of queries", "gradients of keys", "gradients of values")
        for name, ours, exact in zip(names, *results, strict=True):
            difference = float((ours - exact).norm() / exact.norm())
            if not difference < TOLERANCE:  # nor NaN
                return f"{name} differ by {difference:.3g} of their norm from those of plain PyTorch"
    except Exception as error:  # Triton, its compilers and drivers raise all kinds
        return f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:200] if str(error).strip() else ''}"
    return None


def plain_attention(
    states: torch.Tensor, angles: list[torch.Tensor], bounds: torch.Tensor, scale: float, left: int, right: int
) -> torch.Tensor:
    """What `short_attention` gives for (T, 3, H, W), with a mask of (T, T)."""
    query, key, value = states.transpose(0, 2).unbind(1)  # (H, T, W) each
    if angles:
        cos, sin = (turns[None] for turns in angles)
        query, key = (part[0] for part in their_rotary_positions(query[None], key[None], cos, sin))
    position = torch.arange(len(states), device=states.device)
    distance = position[:, None] - position
    is_visible = (bounds[0][:, None] == bounds[0]) & (distance <= left) & (-distance <= right)
    attended = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=is_visible, scale=scale)
    return attended.transpose(0, 1)
