"""Where the training runs: one place that talks to `accelerate`."""

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from kobert_pipeline.training.plan import Plan


def accelerator(plan: Plan) -> Accelerator:
    """An Accelerator for this plan. A process trains several plans in turn, so the shared state is set anew."""
    AcceleratorState._reset_state()
    return Accelerator(mixed_precision=plan.mixed_precision, cpu=not torch.cuda.is_available())
