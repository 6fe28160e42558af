"""The last layer for the first token alone. A head that labels a whole text reads the last hidden state of [CLS] and no
other, so what the last layer computes for the other tokens (all but their keys and values) is thrown away: of four
layers a fifth of all products."""

from functools import partial
from typing import Any

import torch

CLASSES = tuple(f"{family}ForSequenceClassification" for family in ("Bert", "Roberta", "Electra"))
"""Models whose layers are BERT's and whose head reads the first token."""


def shorten(model: Any) -> None:
    """Let the last layer of `model` give the first token's state alone, (B, 1, H). Logits, loss and gradients are the
    same but for rounding, and what is saved is the same. Other models than `CLASSES` stay as they are."""
    if type(model).__name__ in CLASSES:
        layer = model.base_model.encoder.layer[-1]
        layer.forward = partial(first_state, layer)


def first_state(
    layer: Any, hidden: torch.Tensor, attention_mask: torch.Tensor | None = None, *others: Any, **more: Any
) -> torch.Tensor:
    """A BERT layer's output for the first of L tokens: (B, L, H) -> (B, 1, H). `attention_mask` (B, 1, 1 or L, L) is
    what `transformers` makes: True where a token is seen, or what is added to the scores."""
    attention, first = layer.attention.self, hidden[:, :1]
    query, key, value = (
        states.unflatten(-1, (attention.num_attention_heads, -1)).transpose(
            1, 2
        )  # -split-> (B, S, A, W) -trans-> (B, A, S, W)
        for states in (attention.query(first), attention.key(hidden), attention.value(hidden))
    )
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5  # (B, A, 1, L)
    if attention_mask is not None:
        mask = attention_mask[:, :, :1]
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    seen = attention.dropout(scores.softmax(-1, dtype=torch.float32).to(value.dtype)) @ value  # (B, A, 1, W)
    attended = layer.attention.output(seen.transpose(1, 2).flatten(2), first)
    state: torch.Tensor = layer.output(layer.intermediate(attended), attended)
    return state
