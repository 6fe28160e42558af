"""PyTorch's kernel for packed sequences gets the right arguments, and whole models give the same as by rectangles."""

import inspect
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, ModernBertConfig, ModernBertModel

from kobert_pipeline.pretrain.model import attention_kernel
from kobert_pipeline.training import attention
from kobert_pipeline.training.attention import SequenceLayout, packed_attention
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.transfer import copy_to_device

VOCAB_SIZE, REACH = 50, 8
LENGTHS = [3, 30, 1, 17, 40, 16, 2]
Call = dict[str, Any]


def bert() -> BertModel:
    return BertModel(
        BertConfig(
            vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip


def modernbert() -> ModernBertModel:
    return ModernBertModel(
        ModernBertConfig(
            vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=48,
            max_position_embeddings=64, local_attention=2 * REACH, pad_token_id=0, bos_token_id=1, cls_token_id=1,
            eos_token_id=2,
            sep_token_id=2, layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        )
    )  # fmt: skip


def gpt2() -> GPT2Model:
    return GPT2Model(
        GPT2Config(
            vocab_size=VOCAB_SIZE, n_embd=32, n_layer=2, n_head=2, n_positions=64, embd_pdrop=0.0, attn_pdrop=0.0,
            resid_pdrop=0.0,
            bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip


MODELS = {"bert": (bert, False), "modernbert": (modernbert, False), "gpt2": (gpt2, True)}


def plain_kernel(calls: list[Call]) -> Callable[..., torch.Tensor]:
    """Attention sequence by sequence under the kernel's signature, by (T, H, W)."""

    def kernel(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cu_seq_q: torch.Tensor,
        cu_seq_k: torch.Tensor,
        max_q: int,
        max_k: int,
        *,
        scale: float | None = None,
        window_size: tuple[int, int] = (-1, -1),
    ) -> torch.Tensor:
        calls.append(
            {
                "shape": query.shape,
                "contiguous": query.is_contiguous(),
                "scale": scale,
                "window": window_size,
                "longest": max_q,
            }
        )
        assert (
            query.shape == key.shape == value.shape
            and max_q == max_k
            and query.shape[2] % 8 == 0
            and cu_seq_q is cu_seq_k
        )
        out = torch.empty_like(query)
        for start, end in zip(cu_seq_q[:-1].tolist(), cu_seq_q[1:].tolist(), strict=True):
            assert end - start <= max_q
            q, k, v = (part[start:end].transpose(0, 1) for part in (query, key, value))  # (L, H, W) -> (H, L, W)
            distance = torch.arange(end - start)[:, None] - torch.arange(end - start)  # from key to query
            left, right = (end if reach < 0 else reach for reach in window_size)
            seen = (distance <= left) & (-distance <= right)
            out[start:end] = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=seen, scale=scale
            ).transpose(0, 1)
        return out

    return kernel


@given(st.lists(st.integers(0, 70), min_size=1, max_size=30).filter(any))
def test_the_layout_holds_the_bounds_of_the_sequences(lengths: list[int]) -> None:
    packing = SequenceLayout.of(np.array(lengths), varlen=True)
    assert packing.cu_seqlens.dtype == torch.int32
    assert packing.cu_seqlens.tolist() == [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    assert packing.max_seqlen % 128 == 0 and max(lengths) <= packing.max_seqlen < max(lengths) + 128
    assert packing.rectangles == [] and packing.inverse is None and not packing.causal


def test_the_kernel_sees_what_rectangles_see(monkeypatch: pytest.MonkeyPatch) -> None:
    for width, scaling, sliding_window, causal in product([8, 12], [None, 0.3], [None, 1, 5], [False, True]):
        with monkeypatch.context() as patch:
            calls: list[Call] = []
            patch.setattr(attention, "varlen_attn", plain_kernel(calls))
            q, k, v = torch.randn(3, 1, 2, sum(LENGTHS), width, generator=torch.Generator().manual_seed(0)).unbind(
                0
            )  # (1, H, T, W) each
            ours, theirs = (
                packed_attention(
                    torch.nn.Module(),
                    q,
                    k,
                    v,
                    None,
                    replace(SequenceLayout.of(np.array(LENGTHS), varlen=varlen), causal=causal),
                    scaling,
                    0.0,
                    sliding_window,
                )[0]
                for varlen in (True, False)
            )
            assert ours.shape == theirs.shape == (1, sum(LENGTHS), 2, width), (causal, sliding_window, scaling, width)
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
            reach = -1 if sliding_window is None else sliding_window - 1
            assert calls == [
                {
                    "shape": (sum(LENGTHS), 2, 8 if width == 8 else 16),
                    "contiguous": True,
                    "scale": scaling or width**-0.5,
                    "window": (reach, 0 if causal else reach),
                    "longest": 128,
                }
            ], (causal, sliding_window, scaling, width)


def states_and_slopes(
    build: Callable[[], torch.nn.Module], packing: SequenceLayout, place: str = "cpu"
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The hidden states of packed random sequences, and gradients of a weighted sum of them."""
    torch.manual_seed(0)
    model = build().to(place)
    model.set_attn_implementation("packed")
    chosen = torch.Generator().manual_seed(1)
    given = {
        "input_ids": torch.randint(5, VOCAB_SIZE, (1, sum(LENGTHS)), generator=chosen).to(place),
        "position_ids": torch.cat([torch.arange(length) for length in LENGTHS])[None].to(place),
    }
    weights = torch.randn(sum(LENGTHS), 32, generator=chosen).to(place)
    hidden = model(
        **given, packing=packing, **({"use_cache": False} if "GPT2" in type(model).__name__ else {})
    ).last_hidden_state[0]
    (hidden.float() * weights).sum().backward()
    return hidden.detach(), {
        name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None
    }


def test_whole_models_come_to_the_same_by_kernel_and_by_rectangles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MODELS:
        with monkeypatch.context() as patch:
            build, causal = MODELS[name]
            calls: list[Call] = []
            patch.setattr(attention, "varlen_attn", plain_kernel(calls))
            ours, theirs = (
                states_and_slopes(build, replace(SequenceLayout.of(np.array(LENGTHS), varlen=varlen), causal=causal))
                for varlen in (True, False)
            )
            torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-5)
            assert ours[1].keys() == theirs[1].keys(), name
            for key, slope in theirs[1].items():
                torch.testing.assert_close(
                    ours[1][key], slope, rtol=1e-4, atol=1e-4, msg=lambda told, key=key: f"{key}: {told}"
                )
            windows = {
                "bert": [(-1, -1)] * 2,
                "gpt2": [(-1, 0)] * 2,
                "modernbert": [(-1, -1), (REACH, REACH), (REACH, REACH)],  # as many as `local_attention` on either side
            }[name]
            assert [call["window"] for call in calls] == windows, name
            assert {call["scale"] for call in calls} == {16**-0.5}, name


class OperatorCounts(TorchDispatchMode):
    """Counts the calls of each operator, those of backward passes too."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[operator.overloadpacket.__name__] += 1
        return operator(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("build", "norms", "copies"),
    # BERT has two norms in each of two layers, and the embeddings'; ModernBERT's first layer has one, the others two,
    # and there is one before and one after them. ModernBERT's values are views of the matrix that also holds queries
    # and keys, and are copied from there
    [(bert, 5, 0), (modernbert, 7, 3)],
)
def test_nothing_is_copied_on_the_way_to_the_kernel_and_back(
    build: Callable[[], torch.nn.Module], norms: int, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index or a slice of the whole is a view, but its backward pass fills a tensor with zeros and copies."""
    monkeypatch.setattr(attention, "varlen_attn", lambda q, k, v, *lengths, **how: (q + k + v) / 3)
    model = build()
    model.set_attn_implementation("packed")
    layout = SequenceLayout.of(np.array(LENGTHS), varlen=True)
    given = {name: torch.zeros(1, sum(LENGTHS), dtype=torch.long) for name in ("input_ids", "position_ids")}
    with OperatorCounts() as counted:
        model(**given, packing=layout).last_hidden_state.squeeze(0).sum().backward()
    assert counted.calls["native_layer_norm_backward"] == norms  # it has counted
    assert not {"constant_pad_nd", "select_backward", "slice_backward"} & counted.calls.keys(), counted.calls
    assert counted.calls["clone"] == copies


@pytest.mark.parametrize("name", MODELS)
def test_under_autocast_the_kernel_gets_sixteen_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no others, and rotary positions are computed in fp32."""
    build, causal = MODELS[name]
    plain, types = plain_kernel([]), set()
    monkeypatch.setattr(
        attention,
        "varlen_attn",
        lambda *parts, **how: (types.update(p.dtype for p in parts[:3]), plain(*parts, **how))[1],
    )
    with torch.autocast("cpu", torch.bfloat16):
        states_and_slopes(build, replace(SequenceLayout.of(np.array(LENGTHS), varlen=True), causal=causal))
    assert types == {torch.bfloat16}


def test_dropout_is_refused_where_the_kernel_knows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "varlen_attn", plain_kernel([]))
    q = torch.randn(1, 2, 4, 8)
    with pytest.raises(ValueError, match="attention dropout"):
        packed_attention(torch.nn.Module(), q, q, q, None, SequenceLayout.of(np.array([4]), varlen=True), dropout=0.1)


def test_the_lowest_torch_that_is_supported_has_the_kernel(repo: Path) -> None:
    """With sliding windows, which it has since 2.11."""
    project = tomllib.loads((repo / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (lowest,) = (one for one in project["dependencies"] if one.startswith("torch>"))
    assert lowest in ("torch>=2.11", "torch>=2.12", "torch>=2.13")


def test_the_installed_kernel_takes_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    installed, calls = inspect.signature(attention.varlen_attn), []

    def kernel(*given: Any, **by_name: Any) -> torch.Tensor:
        calls.append(installed.bind(*given, **by_name).arguments)  # raises TypeError for an unknown argument
        return given[0]

    monkeypatch.setattr(attention, "varlen_attn", kernel)
    q = torch.randn(1, 2, sum(LENGTHS), 8)
    layout = replace(SequenceLayout.of(np.array(LENGTHS), varlen=True), causal=True)
    packed_attention(torch.nn.Module(), q, q, q, None, layout, scaling=0.5, sliding_window=4)
    assert calls[0].keys() == {
        "query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k", "scale", "window_size",
    }  # fmt: skip
    assert (calls[0]["max_q"], calls[0]["scale"], calls[0]["window_size"]) == (128, 0.5, (3, 0))


def test_the_kernel_is_used_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A T4 computes bf16 somehow, but has no such kernel."""
    monkeypatch.setattr(attention, "varlen_attn", plain_kernel([]))
    capability = (9, 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place: capability)
    cuda, bf16 = torch.device("cuda", 0), Plan(mixed_precision="bf16")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: "Tesla T4")
    assert attention_kernel(cuda, bf16) == "varlen_attn"
    for place, plan in ((cuda, Plan()), (torch.device("cpu"), bf16)):
        assert attention_kernel(place, plan) == "scaled_dot_product_attention"
    capability = (7, 5)
    with pytest.warns(UserWarning, match="Tesla T4 has no kernel for packed sequences"):
        assert attention_kernel(cuda, bf16) == "scaled_dot_product_attention"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_real_kernels_give_the_same_as_rectangles_in_bf16(name: str, tiled: bool) -> None:
    """The yardstick is how far rectangles in bf16 are from rectangles in fp32."""
    if tiled:  # defines its operator
        pytest.importorskip("kobert_pipeline.training.triton_attention", reason="Triton is not installed")
    build, causal = MODELS[name]
    layouts = {
        varlen: copy_to_device(
            replace(SequenceLayout.of(np.array(LENGTHS), varlen, varlen and tiled), causal=causal), "cuda"
        )
        for varlen in (True, False)
    }
    exact = states_and_slopes(build, layouts[False], "cuda")
    with torch.autocast("cuda", torch.bfloat16):
        ours, theirs = (states_and_slopes(build, layouts[varlen], "cuda") for varlen in (True, False))

    def flat(found: tuple[torch.Tensor, dict[str, torch.Tensor]]) -> list[torch.Tensor]:
        return [found[0].float(), torch.cat([found[1][key].flatten() for key in sorted(exact[1])])]

    for true, one, other in zip(flat(exact), flat(ours), flat(theirs), strict=True):
        assert (one - true).norm() <= 2 * (other - true).norm() + 1e-6
        assert (one - true).norm() < 0.05 * true.norm()
