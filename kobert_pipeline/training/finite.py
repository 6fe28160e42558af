"""Steps whose loss or gradient is NaN or infinite: the device skips them by itself, and the host looks every few steps.

To look at a number the host must wait until the device has computed it, and then the device waits for the host to queue
more work. So the optimizer reads from a flag on the device whether to change anything, and a training is ended at the
next look.
"""

import torch


class FiniteCheck:
    """Makes `optimizer` skip the first step whose loss or gradient norm is not finite, and every step after it.

    The flag is what torch's fused AdamW calls `found_inf`: where it is 1, neither weights nor moments change. It is
    never cleared, so however late the host looks, the weights are still those before the first such step. All ranks
    skip the same steps, since they share the gradient norm: it is not finite if a gradient of any rank is not.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        self.found_inf = torch.zeros((), device=device)
        optimizer.found_inf = self.found_inf  # type: ignore[attr-defined]  # as GradScaler sets it
        self.unseen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, loss: torch.Tensor, norm: torch.Tensor) -> None:
        """Queue the test of a step's loss and gradient norm; call it before the optimizer's step."""
        # one test for both, since a sum is finite only if both of its parts are
        not_finite = ~torch.isfinite(loss + norm)
        # in place, because the optimizer reads this very tensor
        torch.maximum(self.found_inf, not_finite.to(self.found_inf.dtype), out=self.found_inf)
        self.unseen.append((loss, norm))

    def first_bad_step(self, steps: int) -> tuple[int, float, float] | None:
        """After `steps` steps: the first one since the last call, counted from 0, that was not finite, with its loss
        and gradient norm; None if there is none. Waits for the device."""
        unseen, self.unseen = self.unseen, []
        if not unseen or torch.stack([loss + norm for loss, norm in unseen]).isfinite().all():
            return None
        first = next(i for i, (loss, norm) in enumerate(unseen) if not torch.isfinite(loss + norm))
        loss, norm = unseen[first]
        return steps - len(unseen) + first, loss.item(), norm.item()
