"""Learning rate as a function of the step."""

import math

from kobert_pipeline.training.plan import Plan


def learning_rate(plan: Plan, step: int, steps: int) -> float:
    """The learning rate of step `step` (from 0) of `steps`: linear warm-up, then the plan's schedule down to zero."""
    rising = round(plan.warmup * steps)
    if step < rising:
        return plan.learning_rate * (step + 1) / rising
    done = (step - rising) / max(steps - rising, 1)
    match plan.schedule:
        case "linear":
            return plan.learning_rate * (1 - done)
        case "cosine":
            return plan.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        case "constant":
            return plan.learning_rate
        case "wsd":  # Hu et al. 2024 (MiniCPM)
            return plan.learning_rate * min(1.0, (steps - step) / max(round(plan.decay * steps), 1))
