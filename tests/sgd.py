"""SGD in place of a plan's optimizer, for tests that compare weights after two orders of the same sums.

AdamW and Muon divide by the size of a gradient: where that is near zero its rounding alone becomes a whole step, a
different one on every kind of CPU. After SGD weights differ by as little as their gradients.
"""

from typing import Any

import pytest
import torch

from kobert_pipeline.training import loop
from kobert_pipeline.training.plan import Plan

LR_SCALE = 20
"""Gradients are clipped to a norm of 1, so weights need a higher learning rate than with AdamW to move as far."""


class ShardedSGD(torch.optim.SGD):
    """SGD of parameters that ranks share, which has no fused form that knows `found_inf`: where that is 1 the step is
    left out."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step, or none. `closure` is not called."""
        found_inf = self.__dict__.pop("found_inf", None)  # plain SGD refuses it
        if found_inf is None or not found_inf.item():
            super().step()
        self.found_inf = found_inf


def sgd(module: torch.nn.Module, plan: Plan, lr_scales: Any = None) -> torch.optim.SGD:
    """What `optimizer_of` is replaced by."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    group = {"params": parameters, "lr_scale": LR_SCALE}
    if plan.fsdp:
        return ShardedSGD([group], lr=LR_SCALE * plan.learning_rate, momentum=0.9)
    return torch.optim.SGD([group], lr=LR_SCALE * plan.learning_rate, momentum=0.9, fused=True)


def train_by_sgd(patch: pytest.MonkeyPatch) -> None:
    """Let every training of this process use `sgd`."""
    patch.setattr(loop, "optimizer_of", sgd)
