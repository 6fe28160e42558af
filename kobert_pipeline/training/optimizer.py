"""The learning-rate schedule, AdamW (Loshchilov & Hutter 2019) with BERT's exceptions from weight decay, and optionally
Muon (Jordan et al. 2024) for the matrices of hidden layers."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kobert_pipeline.training.muon import StackedMuon
from kobert_pipeline.training.plan import Plan

MIN_HIDDEN_SIZE = 16
"""Matrices with fewer rows or columns than this (such as a head for two classes) do not count as hidden layers."""

LrScales = Mapping[torch.nn.Parameter, float]
"""Parameter -> the factor that its learning rate is multiplied by; 1 for parameters that are not in it."""


def learning_rate(plan: Plan, step: int, steps: int) -> float:
    """The learning rate of step `step` (from 0) of `steps`: a linear warm-up to the peak, then the plan's schedule."""
    warmup_steps = round(plan.warmup * steps)
    if step < warmup_steps:
        return plan.learning_rate * (step + 1) / warmup_steps  # + 1, or the first step would change nothing
    progress = (step - warmup_steps) / max(steps - warmup_steps, 1)
    match plan.schedule:
        case "linear":
            return plan.learning_rate * (1 - progress)
        case "cosine":
            return plan.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
        case "constant":
            return plan.learning_rate
        case "wsd":  # warmup-stable-decay, Hu et al. 2024 (MiniCPM)
            return plan.learning_rate * min(1.0, (steps - step) / max(round(plan.decay * steps), 1))


def optimizer_of(module: torch.nn.Module, plan: Plan, lr_scales: LrScales | None = None) -> torch.optim.Optimizer:
    """The plan's optimizer over every parameter of `module` that is trained."""
    if plan.optimizer == "muon":
        return MuonAndAdamW(module, plan, lr_scales)
    return adamw(module.parameters(), plan, lr_scales)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group to `rate` times the group's factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("lr_scale", 1.0)


def adamw(parameters: Any, plan: Plan, lr_scales: LrScales | None = None) -> torch.optim.AdamW:
    """Fused AdamW with weight decay for matrices, but not for vectors (biases, norms), as in BERT."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": plan.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [subgroup for group in groups for subgroup in split_by_lr_scale(group, lr_scales)]
    # eps as in BERT's and RoBERTa's own code; torch's default is 1e-8
    return torch.optim.AdamW(groups, lr=plan.learning_rate, betas=plan.adam_betas, eps=1e-6, fused=True)


def split_by_lr_scale(group: dict[str, Any], lr_scales: LrScales | None) -> list[dict[str, Any]]:
    """The parameter group, split by the learning-rate factor of its parameters."""
    if not lr_scales:
        return [group]
    by_scale: dict[float, list[torch.nn.Parameter]] = defaultdict(list)
    for parameter in group["params"]:
        by_scale[lr_scales.get(parameter, 1.0)].append(parameter)
    return [{**group, "params": parameters, "lr_scale": scale} for scale, parameters in sorted(by_scale.items())]


def hidden_matrices(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Every trained matrix from hidden states to hidden states: no embeddings, output layers tied to them, or narrow
    heads."""
    embeddings = {id(part.weight) for part in module.modules() if isinstance(part, torch.nn.Embedding)}
    return [
        parameter
        for name, parameter in module.named_parameters()
        if parameter.ndim == 2
        and parameter.requires_grad
        and id(parameter) not in embeddings
        and min(parameter.shape) >= MIN_HIDDEN_SIZE
    ]


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for `hidden_matrices` and AdamW for the other parameters, with one learning rate: Muon's updates are scaled
    to the RMS of AdamW's (Liu et al. 2025, "Muon is Scalable for LLM Training")."""

    def __init__(self, module: torch.nn.Module, plan: Plan, lr_scales: LrScales | None = None) -> None:
        matrices = hidden_matrices(module)
        chosen = {id(parameter) for parameter in matrices}
        others = [parameter for parameter in module.parameters() if id(parameter) not in chosen]
        # only to set up the base class; the groups that are used belong to the two parts, below
        super().__init__([*matrices, *(parameter for parameter in others if parameter.requires_grad)], {})
        groups = split_by_lr_scale({"params": matrices}, lr_scales)
        muon = StackedMuon(
            groups, lr=plan.learning_rate, weight_decay=plan.weight_decay, adjust_lr_fn="match_rms_adamw"
        )
        self.parts: list[torch.optim.Optimizer] = [muon, adamw(others, plan, lr_scales)]
        self.param_groups = [group for part in self.parts for group in part.param_groups]
        self.state: Any = defaultdict(dict)
        self.found_inf: torch.Tensor | None = None
        self._link_parts()

    def _link_parts(self) -> None:
        """Let both parts use this optimizer's state and groups, which checkpoints read and the loop sets the learning
        rate of."""
        first = 0
        for part in self.parts:
            part.state, part.param_groups = self.state, self.param_groups[first : first + len(part.param_groups)]
            first += len(part.param_groups)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # load_state_dict, which `accelerate` calls when it wraps an optimizer, replaces state and groups by new objects
        self._link_parts()

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of both, or none where `found_inf` is 1. `closure` is not called, because the loop has computed the
        gradients already."""
        if self.found_inf is not None and self.found_inf.device.type == "cpu":
            if self.found_inf.item():  # there is no device to wait for
                return
        else:
            for part in self.parts:
                part.found_inf = self.found_inf  # type: ignore[attr-defined]
        for part in self.parts:
            part.step()
