"""AdamW (Loshchilov & Hutter 2019) with BERT's exceptions from weight decay, and as an option Muon (Jordan et al. 2024)
for the matrices of hidden layers."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kobert_pipeline.training.plan import Plan

NARROW = 16
"""Matrices with fewer rows or columns than this (heads for two classes) are no hidden layers."""


LrScales = Mapping[torch.nn.Parameter, float]
"""The share of the plan's learning rate that a parameter learns at; all of it where it is not named."""


def optimizer_of(module: torch.nn.Module, plan: Plan, lr_scales: LrScales | None = None) -> torch.optim.Optimizer:
    """The plan's optimizer over every trained parameter of `module`."""
    return (
        MuonAndAdamW(module, plan, lr_scales)
        if plan.optimizer == "muon"
        else adamw(module.parameters(), plan, lr_scales)
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group its share of `rate`."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("share", 1.0)


def adamw(parameters: Any, plan: Plan, lr_scales: LrScales | None = None) -> torch.optim.AdamW:
    """Fused AdamW; vectors (biases, norms) are not decayed."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": plan.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [part for group in groups for part in split_by_lr_scale(group, lr_scales)]
    return torch.optim.AdamW(groups, lr=plan.learning_rate, betas=plan.adam_betas, eps=1e-6, fused=True)


def split_by_lr_scale(group: dict[str, Any], lr_scales: LrScales | None) -> list[dict[str, Any]]:
    """The group, cut up by the parameters' shares of the learning rate."""
    if not lr_scales:
        return [group]
    parts: dict[float, list[torch.nn.Parameter]] = defaultdict(list)
    for parameter in group["params"]:
        parts[lr_scales.get(parameter, 1.0)].append(parameter)
    return [{**group, "params": parameters, "share": share} for share, parameters in sorted(parts.items())]


def hidden_matrices(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Every trained matrix between hidden states: not embeddings, what is tied to them, or narrow heads."""
    embeddings = {id(part.weight) for part in module.modules() if isinstance(part, torch.nn.Embedding)}
    return [
        parameter
        for name, parameter in module.named_parameters()
        if parameter.ndim == 2
        and parameter.requires_grad
        and id(parameter) not in embeddings
        and min(parameter.shape) >= NARROW
    ]


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for `hidden_matrices`, AdamW for the rest, under one learning rate: Muon's updates are scaled to the size
    that AdamW's have (Liu et al. 2025, "Muon is Scalable for LLM Training")."""

    def __init__(self, module: torch.nn.Module, plan: Plan, lr_scales: LrScales | None = None) -> None:
        matrices = hidden_matrices(module)
        chosen = {id(parameter) for parameter in matrices}
        others = [parameter for parameter in module.parameters() if id(parameter) not in chosen]
        super().__init__([*matrices, *(parameter for parameter in others if parameter.requires_grad)], {})
        groups = split_by_lr_scale({"params": matrices}, lr_scales)
        muon = torch.optim.Muon(
            groups, lr=plan.learning_rate, weight_decay=plan.weight_decay, adjust_lr_fn="match_rms_adamw"
        )
        self.parts: list[torch.optim.Optimizer] = [muon, adamw(others, plan, lr_scales)]
        self.param_groups = [group for part in self.parts for group in part.param_groups]
        self.state: Any = defaultdict(dict)
        self._share()

    def _share(self) -> None:
        """One state and one list of groups, where checkpoints look and the loop sets the learning rate, for both
        parts."""
        begin = 0
        for part in self.parts:
            part.state, part.param_groups = self.state, self.param_groups[begin : begin + len(part.param_groups)]
            begin += len(part.param_groups)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # loading a state dict, as `accelerate` does when it wraps an optimizer, puts new objects in the old ones' place
        self._share()

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update by each. `closure` is not taken: the loop has the gradients already."""
        for part in self.parts:
            part.step()
