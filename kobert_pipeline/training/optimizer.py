"""AdamW (Loshchilov & Hutter 2019) with BERT's exceptions from weight decay."""

import torch

from kobert_pipeline.training.plan import Plan


def adamw(module: torch.nn.Module, plan: Plan) -> torch.optim.AdamW:
    """Fused AdamW; vectors (biases, norms) are not decayed."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": plan.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=plan.learning_rate, betas=plan.adam_betas, eps=1e-6, fused=True)
