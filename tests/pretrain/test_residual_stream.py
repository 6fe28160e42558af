"""Residuals in bf16: every architecture's norms read and give bf16, and losses and gradients are as close to those of
full precision as bf16 is."""

import copy
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from rows import assert_same, gradients, prepared, rows, sample_the_likeliest

from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.residual_stream import use_16_bit_residuals
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.training.plan import Plan
from kobert_pipeline.training.transfer import copy_to_device

PARTS = (torch.nn.Embedding, torch.nn.LayerNorm)
BF16 = {"mixed_precision": "bf16", "fp32_residual_connection": False}


@pytest.fixture(autouse=True)
def _likeliest(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_the_likeliest(monkeypatch)


def pairs() -> Iterator[tuple[str, LossModule, LossModule, Any]]:
    """(name, plain module, the same with residuals in 16 bits, a batch) of every row."""
    for objective, architecture in rows():
        plain, loader = prepared(objective, architecture)
        for name, weight in plain.named_parameters():
            if weight.ndim == 1 and name.endswith("weight"):  # of norms, which are near 1 in any model that learns
                torch.nn.init.normal_(weight, mean=1, std=0.1)
        residuals = copy.deepcopy(plain)
        use_16_bit_residuals(residuals.model)
        yield f"{architecture['name']} {objective}", plain, residuals, to_device(loader.batch(0), "cpu")


def step(module: LossModule, batch: Any, bf16: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss and its gradients."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss, _ = module(batch)
    loss.backward()
    return loss.detach(), gradients(module)


def types_in(module: LossModule) -> dict[str, set[torch.dtype]]:
    """Filled by the next forward pass: the types of what norms read, and of what norms and embeddings give."""
    found: dict[str, set[torch.dtype]] = {"read": set(), "given": set()}

    def note(part: torch.nn.Module, args: Any, output: torch.Tensor) -> None:
        found["given"].add(output.dtype)
        found["read"].update(arg.dtype for arg in args if arg.is_floating_point())

    for part in module.modules():
        if isinstance(part, PARTS):
            part.register_forward_hook(note)
    return found


def test_norms_and_embeddings_of_every_architecture_read_and_give_bf16() -> None:
    for name, plain, residuals, batch in pairs():
        types, before = types_in(residuals), types_in(plain)
        for module in (residuals, plain):
            step(module, batch, bf16=True)
        assert types == {"read": {torch.bfloat16}, "given": {torch.bfloat16}}, name
        assert torch.float32 in before["read"], name
        assert {parameter.dtype for parameter in residuals.parameters()} == {torch.float32}, name


def test_losses_and_gradients_are_about_as_close_to_full_precision_as_those_of_fp32_residuals() -> None:
    for name, plain, residuals, batch in pairs():
        exact, gradient = step(plain, batch, bf16=False)
        usual, rounded = (step(module, batch, bf16=True) for module in (plain, residuals))
        assert rounded[0].item() == pytest.approx(exact.item(), rel=2e-3), name
        assert rounded[1].keys() == gradient.keys(), name
        assert all(one.dtype == torch.float32 and one.isfinite().all() for one in rounded[1].values()), name
        norm = torch.stack([one.norm() for one in gradient.values()]).norm()
        errors = [
            (torch.stack([(of[key] - gradient[key]).norm() for key in gradient]).norm() / norm).item()
            for of in (usual[1], rounded[1])
        ]
        assert errors[1] < 3 * errors[0] and errors[1] < 0.03, (name, errors)
        assert not torch.equal(usual[0], rounded[0]) or name.startswith(("albert", "electra")), name


def test_without_autocast_nothing_changes() -> None:
    for _, plain, residuals, batch in pairs():
        (loss, gradient), (expected, expected_gradient) = (step(module, batch, False) for module in (residuals, plain))
        assert torch.equal(loss, expected)
        assert_same(gradient, expected_gradient, rtol=0, atol=0)


@pytest.mark.usefixtures("bf16_on_any_cpu")
def test_training_passes_the_option_on(tiny: Any, kobert: Callable[..., Any], tmp_path: Any) -> None:
    manifests = []
    for number, more in enumerate([[], ["--set", "pretrain.plan.fp32_residual_connection=false"]]):
        run_dir = tiny.copy_before(tmp_path / str(number), "pretrain")
        ran = kobert(
            "pretrain", tiny.recipe, "--run-dir", run_dir, "--set", "pretrain.plan.mixed_precision=bf16",
            "--set", "pretrain.total_tokens=8000", *more,
        )  # fmt: skip
        assert ran.code == 0, ran.err
        manifests.append(tiny.manifests(run_dir)["pretrain"])
    usual, residuals = (made["counts"]["held_out_after"]["loss"] for made in manifests)
    assert residuals != usual
    assert residuals == pytest.approx(usual, abs=0.02)
    plans = [made["options"]["plan"] for made in manifests]
    assert plans[1] == plans[0] | {"fp32_residual_connection": False}


def test_the_default_is_in_no_record() -> None:
    assert "fp32_residual_connection" not in Plan(fp32_residual_connection=True).dump()
    assert PretrainOptions(plan=BF16).dump()["plan"]["fp32_residual_connection"] is False


def test_what_has_no_16_bit_residuals_is_refused(kobert: Callable[..., Any]) -> None:
    for place, precision in product(("pretrain", "finetune.nsmc"), ("no", "bf16")):
        sets = (f"{place}.plan.fp32_residual_connection=false", f"{place}.plan.mixed_precision='{precision}'")
        checked = kobert("check", "tiny", *(word for one in sets for word in ("--set", one)))
        if (place, precision) == ("pretrain", "bf16"):
            assert checked.code == 0, checked.err
        else:
            reason = "mixed_precision is no" if place == "pretrain" else "is for pretraining only"
            assert reason in checked.complaint


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_takes_norms_in_bf16() -> None:
    for name, plain, residuals, batch in pairs():
        losses = []
        for module in (plain, residuals):
            types = types_in(module.to("cuda"))
            with torch.autocast("cuda", torch.bfloat16):
                loss, _ = module(copy_to_device(batch, "cuda"))
            loss.backward()
            losses.append(loss.item())
        assert types == {"read": {torch.bfloat16}, "given": {torch.bfloat16}}, name
        assert losses[1] == pytest.approx(losses[0], rel=2e-3), name
