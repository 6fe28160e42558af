"""With mixed precision FSDP gathers in bf16 what autocast rounds to bf16 anyway, and nothing else.

One of four ranks exists, so that what is gathered has the right types and sizes, but not the right numbers; two ranks
train in tests/training/test_fsdp.py.
"""

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rows import gradients, prepared, rows, sample_the_likeliest
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.residual_stream import use_16_bit_residuals
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.training.fsdp import layer_lists, norms_in, shard_model

RANKS = 4
ROWS = {architecture["name"]: (objective, architecture) for objective, architecture in rows()}


class Collectives(TorchDispatchMode):
    """Counts the bytes that all ranks together gather and reduce, by type."""

    def __init__(self) -> None:
        super().__init__()
        self.gathered: Counter[torch.dtype] = Counter()
        self.reduced: Counter[torch.dtype] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for name, counts in (("_allgather_base_", self.gathered), ("_reduce_scatter_base_", self.reduced)):
            if func is getattr(torch.ops.c10d, name).default:
                output, shards = args[:2]
                counts[output.dtype] += max(output.nbytes, shards.nbytes)
        return func(*args, **(kwargs or {}))


@contextmanager
def sharded(module: LossModule, mixed_precision: str) -> Iterator[None]:
    torch.distributed.init_process_group("fake", rank=1, world_size=RANKS, store=FakeStore())
    accelerator: Any = SimpleNamespace(num_processes=RANKS, device=torch.device("cpu"), mixed_precision=mixed_precision)
    try:
        shard_model(module, accelerator)
        yield
    finally:
        torch.distributed.destroy_process_group()


def numbers(parameters: Any) -> int:
    """How many numbers parameters have together, their rows padded to a multiple of the ranks."""
    return sum(-(-len(weight) // RANKS) * RANKS * weight.shape[1:].numel() for weight in set(parameters))


def owners(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    return {name: part for name, part in module.named_modules() if any(True for _ in part.parameters(recurse=False))}


def weight_types(module: LossModule) -> dict[str, set[torch.dtype]]:
    """Filled by the next forward pass: the types of the parameters that each module computes with."""
    found: dict[str, set[torch.dtype]] = {}
    for name, part in owners(module).items():
        part.register_forward_hook(
            lambda part, *_, name=name: found.update(
                {name: {weight.dtype for weight in part.parameters(recurse=False)}}
            )
        )
    return found


def in_bf16(module: LossModule) -> set[torch.nn.Parameter]:
    """The parameters that are gathered in bf16: those of the layers without norms."""
    layers = [layer for members in layer_lists(module) for layer in members]
    norms = {weight for norm in norms_in(layers) for weight in norm.parameters()}
    return {weight for layer in layers for weight in layer.parameters()} - norms


def step(module: LossModule, batch: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss in bf16 and its gradients."""
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = module(batch)
    loss.backward()
    return loss.detach(), gradients(module)


@pytest.mark.parametrize("fp32_residuals", [True, False])
@pytest.mark.parametrize("name", ROWS)
def test_layers_are_gathered_in_bf16_but_norms_and_embeddings_in_fp32(name: str, fp32_residuals: bool) -> None:
    module, loader = prepared(*ROWS[name])
    if not fp32_residuals:
        use_16_bit_residuals(module.model)
    rounded, everything = in_bf16(module), set(module.parameters())
    assert bool(rounded) == (name != "albert")  # whose only layer is gathered with the rest
    of_layers = {part for part, owner in owners(module).items() if rounded & set(owner.parameters(recurse=False))}
    once, twice = 4 * numbers(everything - rounded), 2 * 2 * numbers(rounded)  # twice: forward and backward
    types, reduced = weight_types(module), 4 * numbers(weight for weight in everything if weight.requires_grad)
    with sharded(module, "bf16"), Collectives() as collectives:
        _, gradient = step(module, to_device(loader.batch(0), "cpu"))
    assert collectives.gathered == Counter({torch.float32: once, torch.bfloat16: twice})
    assert collectives.reduced == Counter({torch.float32: reduced})
    assert {weight.dtype for weight in gradient.values()} == {torch.float32}
    for part, found in types.items():
        assert found == {torch.bfloat16 if part in of_layers else torch.float32}, part


@pytest.mark.parametrize("name", ROWS)
def test_losses_and_gradients_keep_every_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sample_the_likeliest(monkeypatch)
    module, loader = prepared(*ROWS[name])
    rounded, batch = copy.deepcopy(module), to_device(loader.batch(0), "cpu")
    for weight in in_bf16(rounded):
        weight.data = weight.data.bfloat16()
    (expected, gradient), (loss, found) = step(module, batch), step(rounded, batch)
    assert torch.equal(loss, expected)
    assert found.keys() == gradient.keys()
    assert all(torch.equal(found[weight].float(), gradient[weight]) for weight in gradient)


def test_without_mixed_precision_all_is_gathered_in_fp32() -> None:
    module, loader = prepared(*ROWS["bert"])
    of_layers = {weight for members in layer_lists(module) for layer in members for weight in layer.parameters()}
    expected = 4 * (numbers(set(module.parameters()) - of_layers) + 2 * numbers(of_layers))
    with sharded(module, "no"), Collectives() as collectives:
        module(to_device(loader.batch(0), "cpu"))[0].backward()
    assert collectives.gathered == Counter({torch.float32: expected})
