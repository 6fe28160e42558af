"""`checkpoint_minutes`: checkpoints by the clock, while steps take longer and longer."""

from pathlib import Path

import torch

from kobert_pipeline.training.checkpoint import checkpoints
from kobert_pipeline.training.loop import train
from kobert_pipeline.training.plan import Plan


class Squared(torch.nn.Module):
    """One weight, trained towards zero."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1, 1))

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return (self.weight * batch).square().sum(), {}


def test_a_checkpoint_is_written_when_the_last_is_that_old(tmp_path: Path) -> None:
    for number, (minutes, saved) in enumerate([(1e-9, [3, 4, 5]), (60, []), (None, [])]):
        place = tmp_path / str(number)
        place.mkdir()
        plan = Plan(checkpoint_every=100, checkpoint_minutes=minutes, keep_checkpoints=3)
        train(Squared(), lambda step, part, parts: torch.ones(1, 1), plan, 6, place)
        assert [int(path.name.removeprefix("step-")) for path in checkpoints(place / "checkpoints")] == saved, (
            minutes,
            saved,
        )


def test_it_bends_no_result() -> None:
    assert "checkpoint_minutes" not in Plan(checkpoint_minutes=1).dump()
