"""Attention in tiles, computed by Triton's interpreter, is that of plain PyTorch; and it is used where it is right."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_varlen import LENGTHS, MODELS, VOCAB_SIZE, modernbert

from kobert_pipeline.pretrain import model as pretraining
from kobert_pipeline.pretrain.architectures.modernbert import ModernBert
from kobert_pipeline.pretrain.model import LossModule, attention_kernel, triton_error
from kobert_pipeline.pretrain.objectives.mlm import Mlm
from kobert_pipeline.training.attention import TILE, SequenceLayout
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.transfer import tensors_of

CUDA, BF16 = torch.device("cuda", 0), Plan(mixed_precision="bf16")
CASES = {
    **dict.fromkeys(
        [
            "heads of 64", "heads of 32, a window", "heads of 48, which are padded", "heads of 7", "causal",
            "causal, a window", "a window of a token", "single tokens", "one whole tile", *MODELS,
        ],
        5e-6,
    ),
    "fp16": 2e-3,
    **dict.fromkeys(["bf16", *(f"{name} in bf16" for name in MODELS)], 0.03),
}  # fmt: skip
"""Those of interpreted_attention.py, and the largest difference that rounding makes."""


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    """What interpreted_attention.py prints, in a process of its own, because Triton is imported for its interpreter or
    for a GPU."""
    pytest.importorskip("triton", reason="Triton is not installed")
    here = Path(__file__).parent
    path = os.pathsep.join([str(here.parents[1]), str(here.parent), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, here / "interpreted_attention.py"], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_rectangles(case: str, interpreted: dict[str, Any]) -> None:
    assert interpreted[case] < CASES[case]


def test_no_case_is_left_out(interpreted: dict[str, Any]) -> None:
    assert {name for name in interpreted if "kernel_error" not in name} == set(CASES)


def test_kernels_are_believed_where_they_compute_what_pytorch_does(interpreted: dict[str, Any]) -> None:
    assert interpreted["kernel_error"] is None
    assert interpreted["kernel_error of another function"].startswith("values differ by 1.0")


@given(st.lists(st.integers(0, TILE), min_size=1, max_size=60).filter(any))
def test_tiles_hold_whole_sequences(lengths: list[int]) -> None:
    layout = SequenceLayout.of(np.array(lengths), varlen=True, tiled=True)
    starts, tokens = layout.tiles.numpy(), sum(lengths)
    assert starts[0] == 0 and starts[-1] == tokens
    assert np.diff(starts).min() >= 0 and np.diff(starts).max() <= TILE
    assert set(starts) <= {*layout.cu_seqlens.tolist()}
    assert len(starts) == 2 * (tokens // (TILE + 1)) + 2, "as many for every batch of so many tokens"
    ends = np.cumsum(lengths)
    assert layout.bounds.tolist() == [
        [start for start, length in zip(ends - lengths, lengths, strict=True) for _ in range(length)],
        [end - 1 for end, length in zip(ends, lengths, strict=True) for _ in range(length)],
    ]
    assert {tensor.dtype for tensor in tensors_of(layout)} == {torch.int32}


def test_tiles_are_nearly_full_of_short_reviews() -> None:
    lengths = np.random.default_rng(0).geometric(1 / 22, 1500).clip(3, TILE)
    starts = SequenceLayout.of(lengths, varlen=True, tiled=True).tiles
    assert lengths.sum() > 0.85 * TILE * np.count_nonzero(np.diff(starts))


@pytest.mark.parametrize(
    ("lengths", "way"), [([3, TILE], {}), ([3, TILE + 1], {"varlen": True, "tiled": True}), ([3], {"varlen": True})]
)
def test_other_layouts_have_no_tiles(lengths: list[int], way: dict[str, bool]) -> None:
    assert SequenceLayout.of(np.array(lengths), **way).tiles is None


def test_torch_compile_sees_one_graph_with_the_operator_of_each_layer() -> None:
    pytest.importorskip("kobert_pipeline.training.triton_attention", reason="Triton is not installed")
    model, graphs = modernbert(), list[torch.fx.GraphModule]()
    model.set_attn_implementation("packed")
    layout = SequenceLayout.of(np.array(LENGTHS), varlen=True, tiled=True)
    ids = torch.zeros(1, sum(LENGTHS), dtype=torch.long)

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        raise NotImplementedError("the graph is all that is asked for")

    torch.compiler.reset()
    with pytest.raises(Exception, match="all that is asked for"):
        torch.compile(model, backend=backend, fullgraph=True)(input_ids=ids, position_ids=ids, packing=layout)
    (graph,) = graphs
    calls = [node for node in graph.graph.nodes if "short_attention" in str(node.target)]
    assert len(calls) == model.config.num_hidden_layers
    joined = [node for node in graph.graph.nodes if node.target is torch.cat]
    assert len(joined) == 2, "the angles of two kinds of layers, but no rotated halves"


def loss_module() -> LossModule:
    sizes = ModernBert(hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    return LossModule(sizes.model(sizes.config(VOCAB_SIZE), "masked"), Mlm(), sizes)


def test_nothing_is_tried_where_triton_or_a_gpu_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert triton_error(torch.device("cpu"), loss_module()) == ""
    monkeypatch.setattr(pretraining, "find_spec", lambda name: None)
    assert triton_error(CUDA, loss_module()) == ""


def test_the_heads_of_the_model_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("kobert_pipeline.training.triton_attention", reason="Triton is not installed")
    tried = []
    monkeypatch.setattr(module, "kernel_error", lambda *heads: tried.append(heads))
    assert triton_error(CUDA, loss_module()) is None
    assert tried == [(CUDA, 16, True)]


def test_an_error_of_triton_is_told() -> None:
    module = pytest.importorskip("kobert_pipeline.training.triton_attention", reason="Triton is not installed")
    assert module.kernel_error(torch.device("cpu"), 16, False).startswith(("RuntimeError: ", "ValueError: "))


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (None, "Triton up to 128 tokens, varlen_attn beyond"),
        ("", "varlen_attn"),
        ("values differ", "varlen_attn, since Triton's failed: values differ"),
    ],
)
def test_the_manifest_names_the_kernel_and_a_failure_warns(
    error: str | None, name: str, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(pretraining, "uses_varlen", lambda place, plan: True)
    monkeypatch.setattr(pretraining, "triton_error", lambda place, module: error)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: "NVIDIA H100")
    assert attention_kernel(CUDA, BF16) == name
    warned = [str(warning.message) for warning in recwarn if "slower than it could be" in str(warning.message)]
    assert len(warned) == bool(error)
    assert all(told.endswith(": values differ") and "NVIDIA H100" in told for told in warned)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("is_rotary", [False, True])
@pytest.mark.parametrize("width", [32, 48, 64])
def test_the_kernels_are_right_on_a_gpu(width: int, is_rotary: bool) -> None:
    module = pytest.importorskip("kobert_pipeline.training.triton_attention", reason="Triton is not installed")
    assert module.kernel_error(CUDA, width, is_rotary) is None
