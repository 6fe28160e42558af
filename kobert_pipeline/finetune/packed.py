"""Predictions without padding: the texts of a batch as one row, in which attention keeps them apart.

Every other part of a layer computes single tokens. On a CPU the time of a forward pass grows with its tokens, so small
batches of short texts are quicker than in padded rows (docs/results/serving.md).
"""

from copy import copy
from typing import Any

import numpy as np
import torch
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.rows import MODEL_INPUTS, cells
from kobert_pipeline.finetune.encoder_layers import with_own_parts
from kobert_pipeline.training.attention import SequenceLayout, packed_attention

MODERNBERT = "ModernBertForSequenceClassification"
PACKED_CLASSES = ("BertForSequenceClassification", "ElectraForSequenceClassification", MODERNBERT)
"""Models whose positions do not depend on which tokens are padding, as RoBERTa's do, and whose head reads one vector of
each text: the last hidden state of its first token or, with ModernBERT, perhaps the mean of all."""


class PackedEncoder(torch.nn.Module):
    """The layers of a BERT encoder: T packed tokens (1, T, H) -> the last states of each text's first token (n, 1, H).

    `packing` says where the n texts are, `first` (n,) where their first tokens are; both are arguments of the model.
    """

    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.layers = layers

    def forward(
        self, hidden: torch.Tensor, *args: Any, packing: SequenceLayout, first: torch.Tensor, **kwargs: Any
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """The states, as `transformers` models take them from their encoder."""
        for depth, layer in enumerate(self.layers, 1):
            attention = layer.attention.self
            # (1, T, H) -split-> (1, T, A, W) -trans-> (1, A, T, W)
            query, key, value = (
                part(hidden).unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)
                for part in (attention.query, attention.key, attention.value)
            )
            context = packed_attention(attention, query, key, value, None, packing)[0].flatten(2)
            # after the last attention every token is on its own, and the head reads the first ones only
            if depth == len(self.layers):
                context, hidden = context[:, first], hidden[:, first]
            attended = layer.attention.output(context, hidden)
            hidden = layer.output(layer.intermediate(attended), attended)
        # (1, n, H) -> (n, 1, H): the head reads the first position of each row
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=hidden.transpose(0, 1))


class PackedModernBert(torch.nn.Module):
    """A ModernBERT that gives, instead of all last hidden states, what its head reads of each of n texts: their first
    tokens' or their mean, (n, 1, H)."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        # copies of all that changes below: other callers still use the model, with its own kernel
        self.base, config = with_own_parts(base), copy(base.config)
        config._attn_implementation = "packed"
        self.base.config = config
        self.base.layers = with_own_parts(base.layers)
        for name, layer in base.layers.named_children():
            # each layer's attention asks its own config for its kernel
            layer = self.base.layers._modules[name] = with_own_parts(layer)
            layer.attn = with_own_parts(layer.attn)
            layer.attn.config = config

    def forward(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor, packing: SequenceLayout, first: torch.Tensor,
        lengths: torch.Tensor, **kwargs: Any,
    ) -> BaseModelOutput:  # fmt: skip
        """What the head reads of T packed tokens, (1, T); of a single state, its own mean is that state."""
        hidden = self.base(input_ids=input_ids, position_ids=position_ids, packing=packing).last_hidden_state[0]
        is_mean = self.base.config.classifier_pooling == "mean"
        states = torch.segment_reduce(hidden, "mean", lengths=lengths) if is_mean else hidden[first]
        return BaseModelOutput(last_hidden_state=states[:, None])


def packed_view(model: Any, device: torch.device | str) -> Any | None:
    """A model with the weights of `model` that takes `packed` inputs; None for other classes than `PACKED_CLASSES`, and
    on devices where padding costs little."""
    # a decoder's attention is causal, `PackedEncoder`'s is not
    is_decoder = getattr(model.config, "is_decoder", False)
    if type(model).__name__ not in PACKED_CLASSES or is_decoder or torch.device(device).type != "cpu":
        return None
    view, prefix = with_own_parts(model), model.base_model_prefix
    if type(model).__name__ == MODERNBERT:
        view._modules[prefix] = PackedModernBert(model.base_model)
        return view
    base = view._modules[prefix] = with_own_parts(model.base_model)
    base._modules["encoder"] = PackedEncoder(model.base_model.encoder.layer)
    return view


def packed(features: Features, rows: np.ndarray) -> dict[str, Any]:
    """The inputs of a `packed_view` for these rows: their T tokens, (1, T) each, and where the texts are."""
    lengths = features.lengths[rows]
    index, real = cells(features, rows, int(lengths.max()))
    arrays = {name: features.arrays[name][index[real]] for name in MODEL_INPUTS}
    # (n, L) -> (T,): the column of a token is its position in its text
    arrays["position_ids"] = np.nonzero(real)[1]
    inputs: dict[str, Any] = {name: torch.from_numpy(array.astype(np.int64))[None] for name, array in arrays.items()}
    inputs["first"], inputs["lengths"] = torch.from_numpy(np.cumsum(lengths) - lengths), torch.from_numpy(lengths)
    return inputs | {"packing": SequenceLayout.of(lengths)}
