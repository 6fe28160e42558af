"""Rows of token ids -> the vectors of their texts or tokens, by torch or by ONNX Runtime.

Both have the same methods: `vectors` (n, D) and `states` (n, S, D), float32 in host memory. torch is imported for a
model of torch alone.
"""

from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.rows import MAX_PADDING_CPU, pad_id_of, padded_arrays
from kobert_pipeline.finetune.ngrams import NO_ENCODER, NgramModel
from kobert_pipeline.finetune.onnx_model import OnnxModel, pool

POOLINGS = ("cls", "mean", "max", "first-last", "weighted")
"""How token vectors become a text vector."""


class OnnxEncoder:
    """The encoder in an ONNX file, which gives the states of the last layer alone."""

    has_all_layers = False
    max_padding = MAX_PADDING_CPU

    def __init__(self, model: OnnxModel) -> None:
        self.model, self.hidden_size = model, model.config.hidden_size
        self.num_hidden_layers, self.is_causal = model.config.num_hidden_layers, model.is_causal
        self.name = model.name_or_path

    def vectors(
        self, features: Features, rows: np.ndarray, pooling: str, layers: tuple[int, ...], weights: np.ndarray | None
    ) -> np.ndarray:
        """The pooled states of `rows`; `weights` (n, S): the weight of each token, None where all are equal."""
        arrays = padded_arrays(features, rows, pad_id=self.model.pad_id)
        return pool(pooling, self.model.states(arrays), arrays["attention_mask"] if weights is None else weights)

    def states(self, features: Features, rows: np.ndarray, pooling: str, layers: tuple[int, ...]) -> np.ndarray:
        """The states of the tokens of `rows`."""
        return self.model.states(padded_arrays(features, rows, pad_id=self.model.pad_id))


class TorchEncoder:
    """The encoder of a model of torch, on the best device."""

    has_all_layers = True

    def __init__(self, model: Any) -> None:
        from kobert_pipeline.finetune.batching import max_padding_on
        from kobert_pipeline.finetune.pooling import encoder_of, is_causal
        from kobert_pipeline.training.device import device

        self.module, self.device = encoder_of(model), device()
        self.module.to(self.device)
        config = self.module.config
        self.hidden_size, self.num_hidden_layers = config.hidden_size, config.num_hidden_layers
        self.is_causal = is_causal(self.module)
        self.max_padding = max_padding_on(self.device)
        # what error messages call it: the model may have another name than the encoder in it
        self.name = str(getattr(model, "name_or_path", ""))

    def vectors(
        self, features: Features, rows: np.ndarray, pooling: str, layers: tuple[int, ...], weights: np.ndarray | None
    ) -> np.ndarray:
        """The pooled states of `rows`; `weights` (n, S): the weight of each token, None where all are equal."""
        import torch

        from kobert_pipeline.finetune.pooling import POOLINGS

        states, mask = self._states(features, rows, pooling, layers)
        used = torch.as_tensor(mask if weights is None else weights, dtype=states.dtype, device=states.device)
        vectors: np.ndarray = POOLINGS[pooling](states, used).cpu().numpy()
        return vectors

    def states(self, features: Features, rows: np.ndarray, pooling: str, layers: tuple[int, ...]) -> np.ndarray:
        """The states of the tokens of `rows`: of `layers` concatenated, or of `first-last` their mean."""
        states: np.ndarray = self._states(features, rows, pooling, layers)[0].cpu().numpy()
        return states

    def _states(self, features: Features, rows: np.ndarray, pooling: str, layers: tuple[int, ...]) -> tuple[Any, Any]:
        """The states (n, S, D) and the mask (n, S), 0 for padding."""
        import torch

        from kobert_pipeline.finetune.batching import padded
        from kobert_pipeline.finetune.model import drop_unsupported_inputs
        from kobert_pipeline.finetune.pooling import combine_layers

        batch = padded(features, rows, self.device, pad_id=pad_id_of(self.module))
        with torch.no_grad():
            outputs = self.module(**drop_unsupported_inputs(self.module, batch), output_hidden_states=True)
        return combine_layers(outputs.hidden_states, layers, pooling), batch["attention_mask"]


def encoder_of(model: Any) -> OnnxEncoder | TorchEncoder:
    """The encoder below a model's head. Raises UserError for a model without one."""
    if isinstance(model, NgramModel):
        raise UserError(NO_ENCODER)
    return OnnxEncoder(model) if isinstance(model, OnnxModel) else TorchEncoder(model)
