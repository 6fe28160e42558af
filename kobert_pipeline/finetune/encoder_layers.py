"""What fine-tuning does to single layers of an encoder: layer-wise learning-rate decay, and a last layer that computes
[CLS] alone where a head reads nothing else."""

from copy import copy
from functools import partial
from typing import Any

import torch

from kobert_pipeline.training.optimizer import LrScales

FIRST_TOKEN_CLASSES = tuple(f"{family}ForSequenceClassification" for family in ("Bert", "Roberta", "Electra"))
"""Models with BERT's layers whose head reads the last hidden state of the first token only."""


def layerwise_lr_decay(model: Any, decay: float) -> LrScales:
    """The learning-rate factor of every parameter of a `transformers` model with a head, `decay ** (depth - layer)`
    (Howard & Ruder 2018; as in ELECTRA, Clark et al. 2020, and BEiT, Bao et al. 2022).

    Embeddings and their projection to the layers' width are layer 0, the n transformer layers 1 to n, and everything
    after them (last norm, pooler, the task's head) is at `depth`, n + 1. ALBERT's layers, which share their weights,
    are one layer.
    """
    prefix, count = layer_stack(model)
    encoder, scales, layers_seen = set(model.base_model.parameters()), {}, False
    # decided by position and not by name, which differs between architectures: `transformers` builds embeddings first,
    # then the layers, then what comes after them
    for name, parameter in model.named_parameters():
        if name.startswith(prefix):
            layer, layers_seen = 1 + int(name.removeprefix(prefix).partition(".")[0]), True
        else:
            layer = 0 if parameter in encoder and not layers_seen else count + 1
        scales[parameter] = decay ** (count + 1 - layer)
    return scales


def layer_stack(model: Any) -> tuple[str, int]:
    """The prefix of the parameter names of all transformer layers, and how many layers there are."""
    # the layers are the encoder's outermost ModuleList
    name, layers = next(
        (name, part) for name, part in model.base_model.named_modules() if isinstance(part, torch.nn.ModuleList)
    )
    # an encoder without a head is its own base model
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    return f"{prefix}{name}.", len(layers)


def keep_first_token(model: Any) -> None:
    """Let the last layer of `model` compute the first token's state only, (B, 1, H): with four layers this saves a
    fifth of all multiplications.

    Logits, loss and gradients are the same up to rounding, and the saved model is the same. Models other than
    `FIRST_TOKEN_CLASSES` are left unchanged.
    """
    if type(model).__name__ in FIRST_TOKEN_CLASSES:
        layer = model.base_model.encoder.layer[-1]
        # on this instance alone; the class, the weights and their names stay as they are
        layer.forward = partial(first_token_state, layer)


def first_token_view(model: Any) -> Any:
    """A model with the weights of `model` and the last layer of `keep_first_token`: for predictions, while others,
    perhaps at the same time, read all hidden states of `model`. It is `model` itself where its class is another."""
    if type(model).__name__ not in FIRST_TOKEN_CLASSES:
        return model
    view = part = with_own_parts(model)
    # copies from the model down to its last layer; everything else is shared
    for name in (model.base_model_prefix, "encoder", "layer", str(len(model.base_model.encoder.layer) - 1)):
        inner = with_own_parts(part._modules[name])
        part._modules[name] = inner
        part = inner
    keep_first_token(view)
    return view


def with_own_parts(module: Any) -> Any:
    """A copy of a module with the same parameters and inner modules. Replacing an inner module of the copy leaves the
    original as it is."""
    copied = copy(module)
    # `copy` shares this dict, so to replace a part of the copy would replace it in the model, too
    copied._modules = dict(module._modules)
    return copied


def first_token_state(
    layer: Any, hidden: torch.Tensor, attention_mask: torch.Tensor | None = None, *args: Any, **kwargs: Any
) -> torch.Tensor:
    """A BERT layer's output for the first of L tokens: (B, L, H) -> (B, 1, H).

    `attention_mask` (B, 1, 1 or L, L) is as `transformers` passes it on: boolean, True where a token is visible, or
    floats that are added to the scores.
    """
    attention, first = layer.attention.self, hidden[:, :1]
    states = (attention.query(first), attention.key(hidden), attention.value(hidden))
    # keys and values are needed of all tokens; (B, S, D) -split-> (B, S, A, W) -trans-> (B, A, S, W)
    query, key, value = (state.unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2) for state in states)
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5  # (B, A, 1, L)
    if attention_mask is not None:
        mask = attention_mask[:, :, :1]
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    context = attention.dropout(scores.softmax(-1, dtype=torch.float32).to(value.dtype)) @ value  # (B, A, 1, W)
    attended = layer.attention.output(context.transpose(1, 2).flatten(2), first)
    output: torch.Tensor = layer.output(layer.intermediate(attended), attended)
    return output
