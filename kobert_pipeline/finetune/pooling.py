"""How the hidden states of a text's tokens become its vector: functions of states (B, S, H) and weights (B, S).

A weight is 0 for padding, which never counts, and elsewhere 1 or the token's own. [CLS] and [SEP] count like any other
token, as in sentence-transformers.
"""

from typing import Any

import torch

from kobert_pipeline.finetune.feature_based import FeatureBasedModel
from kobert_pipeline.training.hf_config import refuse_causal_cls


def first_token(states: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The state of the first token, [CLS]: (B, H)."""
    return states[:, 0]


def weighted_mean(states: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The mean of the states, weighted: (B, H)."""
    return torch.einsum("bsh,bs->bh", states, weights) / weights.sum(1, keepdim=True)


def maximum(states: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The largest value of each dimension: (B, H)."""
    return states.masked_fill(weights[..., None] == 0, -torch.inf).amax(1)


POOLINGS = {
    "cls": first_token, "mean": weighted_mean, "max": maximum, "first-last": weighted_mean, "weighted": weighted_mean,
}  # fmt: skip
"""`first-last` averages the first and the last layer before (Su et al. 2021, Whitening Sentence Representations);
`weighted` takes the weights of `token_weights`."""


def combine_layers(hidden_states: tuple[torch.Tensor, ...], layers: tuple[int, ...], pooling: str) -> torch.Tensor:
    """The states to pool, (B, S, H): the states of `layers` concatenated, or for `first-last` the mean of two layers.

    `hidden_states` are the embeddings and the output of each layer, as `transformers` returns them.
    """
    if pooling == "first-last":
        return (hidden_states[1] + hidden_states[-1]) / 2
    return torch.cat([hidden_states[layer] for layer in layers], -1)


def encoder_of(model: Any) -> Any:
    """The encoder below a model's head; the model itself where it has no head."""
    if isinstance(model, FeatureBasedModel):
        return model.encoder
    return model.get_encoder() if model.config.is_encoder_decoder else model.base_model


def is_causal(encoder: torch.nn.Module) -> bool:
    """Whether a token sees no token after it."""
    return any(getattr(part, "is_causal", False) for part in encoder.modules())


class SentenceVectors(torch.nn.Module):
    """The encoder of a model, whose last hidden states are pooled. Raises UserError for a pooling that does not fit."""

    def __init__(self, model: Any, pooling: str) -> None:
        super().__init__()
        self.encoder, self.pool = encoder_of(model), POOLINGS[pooling]
        self.config = self.encoder.config
        refuse_causal_cls(is_causal(self.encoder), pooling)

    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """`vectors` (B, C, H) float32 of B rows of C texts each, from inputs (B, C, L); (B, H) from (B, L)."""
        rows = {name: tensor.flatten(0, -2) for name, tensor in inputs.items()}  # (B, C, L) -> (B * C, L)
        states = self.encoder(**rows).last_hidden_state
        vectors = self.pool(states, rows["attention_mask"].to(states.dtype)).float()
        return {"vectors": vectors.unflatten(0, inputs["input_ids"].shape[:-1])}
