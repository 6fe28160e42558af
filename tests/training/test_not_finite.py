"""A loss that is not finite stops the training before the weights change, and its batch is saved."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from kobert_pipeline.training.checkpoint import load_checkpoint, save_tensors
from kobert_pipeline.training.loop import NotFinite, train
from kobert_pipeline.training.optimizer import adamw
from kobert_pipeline.training.plan import Plan

BAD = {"nan": float("nan"), "inf": float("inf")}
PLAN = Plan(learning_rate=0.01, checkpoint_every=4)


class Layout(NamedTuple):
    """A part of a batch that has a name and no tensor."""

    rows: int


class Nested(torch.nn.Module):
    """Squared error; the batch is a dict and something without tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

    def forward(self, batch: tuple[dict[str, torch.Tensor], Layout]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        tensors, layout = batch
        return ((self.weight * tensors["x"]).sum() - tensors["y"]).square() / layout.rows, {}


def batch_at(step: int, part: int, parts: int) -> tuple[dict[str, torch.Tensor], Layout]:
    chosen = torch.Generator().manual_seed(10 * step + part)
    return {"x": torch.randn(3, generator=chosen), "y": torch.tensor(float(step))}, Layout(parts)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("value", BAD)
def test_the_batch_of_the_step_is_in_a_file_that_the_message_names(tmp_path: Path, value: str, parts: int) -> None:
    module = Nested()
    bad: list[Any] = []
    before: list[torch.Tensor] = []

    def poisoned(step: int, part: int, parts: int) -> Any:
        batch = batch_at(step, part, parts)
        if step == 6:
            if part == 0:
                before.append(module.weight.detach().clone())
            if part == parts - 1:
                batch[0]["x"][1] = BAD[value]
            bad.append(batch)
        return batch

    with pytest.raises(NotFinite) as error:
        plan = PLAN.model_copy(update={"max_tokens_per_device": 1})
        train(module, poisoned, plan, 10, tmp_path, parts_at=lambda step, max_tokens: parts)
    said = str(error.value)
    assert "at step 6 (not taken)" in said and "the last checkpoint is step 4" in said
    path = Path(re.search(r"the batch is in (\S+)$", said)[1])
    assert path.parent == tmp_path / "logs"
    found = load_file(path)
    assert found.keys() == {f"{part}.0.{name}" for part in range(parts) for name in ("x", "y")}
    for part, (tensors, _) in enumerate(bad):
        for name, tensor in tensors.items():
            assert torch.equal(found[f"{part}.0.{name}"].nan_to_num(7), tensor.nan_to_num(7))
    assert torch.equal(module.weight, before[0])
    assert load_checkpoint(tmp_path / "checkpoints", module, adamw(module.parameters(), PLAN)) == 4


def test_before_the_first_checkpoint_it_says_step_0_and_a_resumed_one_that_it_went_on_from(tmp_path: Path) -> None:
    def poisoned(step: int, part: int, parts: int) -> Any:
        tensors, layout = batch_at(step, part, parts)
        return ({**tensors, "y": torch.tensor(float("nan"))} if step in bad else tensors), layout

    bad = {2}
    with pytest.raises(NotFinite, match=r"at step 2 .* checkpoint is step 0"):
        train(Nested(), poisoned, PLAN, 10, tmp_path)
    bad = {5}
    with pytest.raises(NotFinite, match=r"at step 5 .* checkpoint is step 4"):
        train(Nested(), poisoned, PLAN, 10, tmp_path)
    with pytest.raises(NotFinite, match=r"at step 5 .* checkpoint is step 4"):
        train(Nested(), poisoned, PLAN, 10, tmp_path)
    bad = set()
    assert train(Nested(), poisoned, PLAN, 10, tmp_path).steps == 10


@dataclass(frozen=True)
class Fields:
    ids: torch.Tensor
    inner: Layout
    more: tuple[torch.Tensor | None, ...] = ()


def test_tensors_in_dataclasses_are_named_by_their_fields(tmp_path: Path) -> None:
    value = [Fields(torch.ones(2), Layout(3), (None, torch.zeros(1)))]
    found = load_file(save_tensors(tmp_path / "x.safetensors", value))
    assert found.keys() == {"0.ids", "0.more.1"}
    assert torch.equal(found["0.ids"], torch.ones(2)) and torch.equal(found["0.more.1"], torch.zeros(1))


def test_tensors_in_lists_tuples_and_dicts_are_named_by_their_place(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(3, 4)
    value = [
        {"ids": whole, "deep": {"er": (whole.to(torch.int64), None, "text")}},
        (whole.bool(), Layout(3)),
        7,
        torch.tensor(2.5),
    ]
    found = load_file(save_tensors(tmp_path / "x.safetensors", value))
    expected = {"0.ids": whole, "0.deep.er.0": whole.to(torch.int64), "1.0": whole.bool(), "3": torch.tensor(2.5)}
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


def test_tensors_that_share_memory_or_are_out_of_order_are_kept_too(tmp_path: Path) -> None:
    """Parts of a batch are views of one array, and a part that only keeps a rank in step is a view of another
    part."""
    whole = torch.arange(12.0).view(3, 4)
    value = {
        "whole": whole,
        "again": whole,
        "row": whole[1],
        "turned": whole.T,
        "every other": whole[:, ::2],
        "none": whole[:0],
    }
    value["slope"] = (whole.clone().requires_grad_() * 2).to(torch.bfloat16)
    found = load_file(save_tensors(tmp_path / "x.safetensors", value))
    assert found.keys() == value.keys()
    for name, tensor in value.items():
        assert torch.equal(found[name], tensor), name


def test_one_tensor_alone_is_the_batch_and_nothing_is_an_empty_file(tmp_path: Path) -> None:
    assert torch.equal(load_file(save_tensors(tmp_path / "x.safetensors", torch.ones(2)))["batch"], torch.ones(2))
    assert load_file(save_tensors(tmp_path / "y.safetensors", [])) == {}
