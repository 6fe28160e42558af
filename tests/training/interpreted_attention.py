"""`interpreted_attention.py` prints as JSON how far attention in tiles, with Triton's interpreter instead of a GPU, is
from attention in rectangles: values and gradients of each case."""

import json
import os
import sys
from dataclasses import replace
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import numpy as np
import torch
import triton.language as tl
from test_varlen import LENGTHS, MODELS, states_and_slopes
from triton.runtime.interpreter import InterpreterBuilder

from kobert_pipeline.training import triton_attention
from kobert_pipeline.training.attention import SequenceLayout, packed_attention

MIXED = [1, 22, 128, 5, 0, 60, 3]
CASES: dict[str, tuple[list[int], int, torch.dtype, bool, int | None]] = {
    "heads of 64": (MIXED, 64, torch.float32, False, None),
    "heads of 32, a window": (MIXED, 32, torch.float32, False, 6),
    "heads of 48, which are padded": (MIXED, 48, torch.float32, False, None),
    "heads of 7": ([5, 40], 7, torch.float32, False, None),
    "causal": (MIXED, 32, torch.float32, True, None),
    "causal, a window": (MIXED, 32, torch.float32, True, 4),
    "a window of a token": ([3, 17], 32, torch.float32, False, 1),
    "single tokens": ([1] * 130, 32, torch.float32, False, None),
    "one whole tile": ([128], 32, torch.float32, False, None),
    "bf16": (MIXED, 64, torch.bfloat16, False, 20),
    "fp16": (MIXED, 32, torch.float16, True, None),
}
"""Lengths, head size, type, whether causal, and window."""
Results = dict[str, torch.Tensor]


def attended(layout: SequenceLayout, width: int, dtype: torch.dtype, window: int | None) -> Results:
    """Values of random states, and the gradients of these."""
    generator = torch.Generator().manual_seed(1)
    tokens = len(layout.inverse if layout.tiles is None else layout.bounds[0])
    leaf = torch.randn(3, 1, 2, tokens, width, generator=generator).to(dtype).requires_grad_()
    weights = torch.randn(1, tokens, 2, width, generator=generator).to(dtype)
    if layout.tiles is None:  # plain PyTorch computes in fp32
        values, _ = packed_attention(torch.nn.Module(), *leaf.float(), None, layout, sliding_window=window)
    else:
        values, _ = packed_attention(torch.nn.Module(), *leaf, None, layout, sliding_window=window)
    (values * weights).sum().backward()
    return {"values": values.detach(), "gradients": leaf.grad}


def of_model(name: str, layout: SequenceLayout, is_autocast: bool) -> Results:
    """The last hidden states of a model, and the gradients of its weights."""
    with torch.autocast("cpu", torch.bfloat16, enabled=is_autocast):
        states, slopes = states_and_slopes(MODELS[name][0], layout)
    # the bias of keys has no gradient but for rounding
    return {"values": states, **{key: slope for key, slope in slopes.items() if not key.endswith("key.bias")}}


def dot(builder: Any, left: Any, right: Any, *more: Any) -> Any:
    """A product as the interpreter computes it, but for bf16, whose bits it multiplies as integers."""
    wide = [builder.cast_impl(part, tl.float32) if part.dtype.scalar == tl.bfloat16 else part for part in (left, right)]
    return its_dot(builder, *wide, *more)


def largest_difference(ours: Results, theirs: Results) -> float:
    """Of all results, each as a share of its largest number."""
    return max(
        float((ours[name].float() - exact.float()).abs().max() / exact.abs().max()) for name, exact in theirs.items()
    )


def layouts(lengths: list[int], causal: bool) -> list[SequenceLayout]:
    """In tiles, and in rectangles."""
    return [replace(SequenceLayout.of(np.array(lengths), tiled, tiled), causal=causal) for tiled in (True, False)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    its_dot, InterpreterBuilder.create_dot = InterpreterBuilder.create_dot, dot
    triton_attention.wrap_triton = lambda kernel: kernel  # which takes no interpreted kernels
    results: dict[str, Any] = {
        name: largest_difference(*(attended(layout, width, dtype, window) for layout in layouts(lengths, causal)))
        for name, (lengths, width, dtype, causal, window) in CASES.items()
    }
    for name, (_, causal) in MODELS.items():
        tiled, plain = layouts(LENGTHS, causal)
        exact = of_model(name, plain, False)
        results |= {name: largest_difference(of_model(name, tiled, False), exact)}
        results |= {f"{name} in bf16": largest_difference(of_model(name, tiled, True), exact)}
    results["kernel_error"] = triton_attention.kernel_error(torch.device("cpu"), 32, True)
    triton_attention.plain_attention = lambda leaf, *_: 2 * leaf[:, 0]
    results["kernel_error of another function"] = triton_attention.kernel_error(torch.device("cpu"), 32, False)
    json.dump(results, sys.stdout)
