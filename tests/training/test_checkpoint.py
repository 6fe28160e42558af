"""A checkpoint is complete or absent, and holds all that a training needs to resume."""

import json
from pathlib import Path

import pytest
import torch

from kobert_pipeline.errors import UserError
from kobert_pipeline.training.checkpoint import (
    CheckpointWriter,
    checkpoints,
    load_checkpoint,
    load_weights,
    save_weights,
)
from kobert_pipeline.training.optimizer import adamw
from kobert_pipeline.training.plan import Plan


def trained(seed: int, steps: int = 0) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A module (with two names for one weight) and its optimizer after some steps."""
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 4))
    module[2].weight = module[0].weight
    optimizer = adamw(module.parameters(), Plan(learning_rate=0.1))
    advance(module, optimizer, steps)
    return module, optimizer


def advance(module: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        module(torch.randn(3, 4)).square().sum().backward()
        optimizer.step()


def save_checkpoint(
    folder: Path, step: int, module: torch.nn.Module, optimizer: torch.optim.Optimizer, keep: int
) -> Path:
    """Write one checkpoint, and wait for it."""
    with CheckpointWriter(folder, keep) as writer:
        writer.save(step, module, optimizer)
    return folder / f"step-{step:08d}"


def test_training_resumes_from_a_checkpoint_as_if_never_stopped(tmp_path: Path) -> None:
    module, optimizer = trained(1, steps=3)
    save_checkpoint(tmp_path, 3, module, optimizer, keep=1)
    advance(module, optimizer, 3)
    other, other_optimizer = trained(2)
    assert load_checkpoint(tmp_path, other, other_optimizer) == 3
    advance(other, other_optimizer, 3)  # random inputs and dropout: the random state came back too
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True))


def test_moments_steps_and_random_state_come_back_exactly(tmp_path: Path) -> None:
    module, optimizer = trained(1, steps=2)
    save_checkpoint(tmp_path, 2, module, optimizer, keep=1)
    random = torch.get_rng_state()
    other, other_optimizer = trained(2, steps=1)
    load_checkpoint(tmp_path, other, other_optimizer)
    assert torch.equal(torch.get_rng_state(), random)
    for one, two in zip(module.parameters(), other.parameters(), strict=True):
        state, restored = optimizer.state[one], other_optimizer.state[two]
        assert state.keys() == restored.keys() and len(state) >= 3
        assert all(torch.equal(state[key], restored[key]) for key in state)


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    module, _ = trained(1)
    save_weights(tmp_path / "weights.safetensors", module)
    other, _ = trained(2)
    load_weights(tmp_path / "weights.safetensors", other)
    assert other[2].weight is other[0].weight
    assert torch.equal(other[0].weight, module[0].weight)
    assert (tmp_path / "weights.safetensors").stat().st_size < 4 * (16 + 8) + 500


def test_without_a_checkpoint_nothing_is_loaded(tmp_path: Path) -> None:
    module, optimizer = trained(1)
    before = module[0].weight.clone()
    assert load_checkpoint(tmp_path / "nothing", module, optimizer) == 0
    assert torch.equal(module[0].weight, before)


def test_the_newest_are_kept_and_the_newest_of_all_is_loaded(tmp_path: Path) -> None:
    for number, keep in enumerate([1, 2, 3]):
        place = tmp_path / str(number)
        place.mkdir()
        module, optimizer = trained(1, steps=1)
        for step in (5, 10, 999, 1000):
            save_checkpoint(place, step, module, optimizer, keep)
        kept = ["step-00000005", "step-00000010", "step-00000999", "step-00001000"][-keep:]
        assert [path.name for path in checkpoints(place)] == kept, keep
        assert load_checkpoint(place, module, optimizer) == 1000, keep
        assert sorted(path.name for path in place.iterdir()) == kept, "nothing half-written stays"


HARMS = [(file, harm) for file in ("model", "optimizer", "random") for harm in ("missing", "cut", "changed")]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    for number, (file, harm) in enumerate(
        [(f"{file}.safetensors", harm) for file, harm in HARMS]
        + [("checkpoint.json", "missing"), ("checkpoint.json", "cut")]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        module, optimizer = trained(1, steps=1)
        path = save_checkpoint(place, 4, module, optimizer, keep=1) / file
        content = path.read_bytes()
        if harm == "missing":
            path.unlink()
        elif harm == "cut":
            path.write_bytes(content[: len(content) // 2])
        else:
            path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
        with pytest.raises(UserError) as error:
            load_checkpoint(place, module, optimizer)
        assert file in str(error.value), (file, harm)


def test_a_half_written_checkpoint_is_not_one(tmp_path: Path) -> None:
    module, optimizer = trained(1, steps=1)
    (tmp_path / ".step-00000009.part").mkdir()
    save_checkpoint(tmp_path, 4, module, optimizer, keep=2)
    assert load_checkpoint(tmp_path, module, optimizer) == 4


def test_a_checkpoint_of_the_same_step_is_written_again(tmp_path: Path) -> None:
    module, optimizer = trained(1, steps=1)
    save_checkpoint(tmp_path, 4, module, optimizer, keep=2)
    advance(module, optimizer, 1)
    path = save_checkpoint(tmp_path, 4, module, optimizer, keep=2)
    other, other_optimizer = trained(2)
    load_checkpoint(tmp_path, other, other_optimizer)
    assert torch.equal(other[0].weight, module[0].weight)
    assert json.loads((path / "checkpoint.json").read_text())["step"] == 4


def test_a_rank_that_the_checkpoint_does_not_know_keeps_its_random_state(tmp_path: Path) -> None:
    """As where a training goes on with more processes than before."""
    module, optimizer = trained(1, steps=2)
    save_checkpoint(tmp_path, 2, module, optimizer, keep=1)
    torch.manual_seed(7)
    own = torch.get_rng_state()
    assert load_checkpoint(tmp_path, module, optimizer, rank=1) == 2
    assert torch.equal(torch.get_rng_state(), own)
    load_checkpoint(tmp_path, module, optimizer, rank=0)
    assert not torch.equal(torch.get_rng_state(), own)
