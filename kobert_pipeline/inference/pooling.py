"""How the hidden states of a text's tokens become its vector: functions of states (B, S, H) and weights (B, S).

A weight is 0 for padding, which never counts, and elsewhere 1 or the token's own. [CLS] and [SEP] count like any other
token, as in sentence-transformers.
"""

import torch


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
    """The states to pool, (B, S, H): those of `layers` concatenated, or for `first-last` the mean of two layers.

    `hidden_states` are the embeddings and the output of each layer, as `transformers` returns them.
    """
    if pooling == "first-last":
        return (hidden_states[1] + hidden_states[-1]) / 2
    return torch.cat([hidden_states[layer] for layer in layers], -1)
