"""The feature-based approach to tagging (Devlin et al., NAACL 2019, section 5.3): the encoder stays as it was
pretrained, the hidden states of its last four layers are concatenated, and a BiLSTM of two layers with a linear layer
on it is all that learns.

Plain `transformers` has no such class. The folder therefore holds no `config.json`: loading it as something else must
fail, not come up with a head of random weights.
"""

import json
from pathlib import Path
from typing import Any, Self

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers.modeling_outputs import TokenClassifierOutput

from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.training.checkpoint import load_weights, save_weights

LAYERS = 4
"""Layers whose hidden states are concatenated, the last ones."""
CONFIG = "feature_based.json"
"""The encoder's config, with the labels."""
WEIGHTS = "model.safetensors"


class FeatureBasedTagger(torch.nn.Module):
    """Outputs and loss as those of a `transformers` model for token classification. The encoder is always in evaluation
    mode, and gets no gradients."""

    def __init__(self, encoder: Any, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = encoder.config
        self.encoder = encoder.requires_grad_(False)
        width, layers = self.config.hidden_size, min(LAYERS, self.config.num_hidden_layers)
        self.lstm = torch.nn.LSTM(
            layers * width, width, num_layers=2, batch_first=True, bidirectional=True, dropout=dropout
        )
        self.dropout = torch.nn.Dropout(dropout)
        self.classifier = torch.nn.Linear(2 * width, self.config.num_labels)

    def train(self, mode: bool = True) -> Self:
        """As every module, but for the encoder."""
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(
        self, attention_mask: torch.Tensor, labels: torch.Tensor | None = None, **inputs: torch.Tensor
    ) -> TokenClassifierOutput:
        """`logits` (B, L, C), and with `labels` (B, L) `loss`, the mean over those that are not -100."""
        with torch.no_grad():
            states = self.encoder(attention_mask=attention_mask, output_hidden_states=True, **inputs).hidden_states
        features = torch.cat(states[1:][-LAYERS:], -1)  # the first are the embeddings; 4 x (B, L, D) -> (B, L, 4D)
        packed = pack_padded_sequence(features, attention_mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        read, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=features.shape[1]
        )  # (B, L, 2D)
        logits = self.classifier(self.dropout(read))
        loss = None if labels is None else cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)

    def save_pretrained(self, folder: Path) -> None:
        """Write config and weights, the encoder's included."""
        folder.mkdir(parents=True, exist_ok=True)
        config = json.loads(self.config.to_json_string())  # unlike to_dict, without the folder it came from
        write_json(folder / CONFIG, config | {"architectures": [type(self).__name__]})
        save_weights(folder / WEIGHTS, self)

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        """What `save_pretrained` wrote."""
        import transformers

        config = transformers.AutoConfig.for_model(**read_json(folder / CONFIG))
        model = cls(transformers.AutoModel.from_config(config, trust_remote_code=False))
        load_weights(folder / WEIGHTS, model)
        return model
