"""Layer-wise learning-rate decay: the lower a layer, the slower it learns, since what it knows is the more general
(Howard & Ruder 2018; as in the fine-tuning of ELECTRA, Clark et al. 2020, and BEiT, Bao et al. 2022)."""

from typing import Any

import torch

from kobert_pipeline.training.optimizer import LrScales


def layerwise_lr_decay(model: Any, decay: float) -> LrScales:
    """The share of the learning rate of every parameter of a `transformers` model with a head: `decay ** (depth -
    layer)`.

    Embeddings, and what brings them to the layers' width, are layer 0, the transformer layers 1 to n, and all behind
    them (last norm, pooler, the task's head) `depth`, which is n + 1. Layers that share their weights (ALBERT) are one
    layer, however often it is passed."""
    prefix, count = stack(model)
    encoder, found, reached = set(model.base_model.parameters()), {}, False
    for (
        name,
        parameter,
    ) in model.named_parameters():  # in the order a model is built in: embeddings, layers, what comes behind them
        if name.startswith(prefix):
            layer, reached = 1 + int(name.removeprefix(prefix).partition(".")[0]), True
        else:
            layer = 0 if parameter in encoder and not reached else count + 1
        found[parameter] = decay ** (count + 1 - layer)
    return found


def stack(model: Any) -> tuple[str, int]:
    """How the names of all parameters in transformer layers begin, and how many layers there are. They lie in the
    encoder's outermost list of modules."""
    name, layers = next(
        (name, part) for name, part in model.base_model.named_modules() if isinstance(part, torch.nn.ModuleList)
    )
    return f"{model.base_model_prefix}.{name}.", len(layers)
