"""The feature-based approach to tagging (Devlin et al., NAACL 2019, section 5.3): the encoder stays as it was
pretrained, the hidden states of its last four layers are concatenated, and only a two-layer BiLSTM with a linear layer
is trained.

`transformers` has no such class, so the model's folder has no `config.json`: loading it as another class must fail
instead of giving a model with a randomly initialised head.
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

CONCATENATED_LAYERS = 4
"""Number of layers, the last ones, whose hidden states are concatenated."""
CONFIG = "feature_based.json"
"""The file of the encoder's config, which includes the labels."""
WEIGHTS = "model.safetensors"


class FeatureBasedTagger(torch.nn.Module):
    """A frozen encoder below a trained BiLSTM, with the outputs and loss of a `transformers` model for token
    classification."""

    def __init__(self, encoder: Any, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = encoder.config
        self.encoder = encoder.requires_grad_(False)
        width, layers = self.config.hidden_size, min(CONCATENATED_LAYERS, self.config.num_hidden_layers)
        self.lstm = torch.nn.LSTM(
            layers * width, width, num_layers=2, batch_first=True, bidirectional=True, dropout=dropout
        )
        self.dropout = torch.nn.Dropout(dropout)
        self.classifier = torch.nn.Linear(2 * width, self.config.num_labels)

    def train(self, mode: bool = True) -> Self:
        """Set training mode, except for the encoder: its dropout would make the features random."""
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(
        self, attention_mask: torch.Tensor, labels: torch.Tensor | None = None, **inputs: torch.Tensor
    ) -> TokenClassifierOutput:
        """`logits` (B, L, C), and with `labels` (B, L) `loss`, the mean cross-entropy over labels other than -100."""
        with torch.no_grad():
            states = self.encoder(attention_mask=attention_mask, output_hidden_states=True, **inputs).hidden_states
        # the first hidden states are the embeddings
        features = torch.cat(states[1:][-CONCATENATED_LAYERS:], -1)  # 4 x (B, L, D) -> (B, L, 4D)
        # on the CPU, as `pack_padded_sequence` requires of lengths
        lengths = attention_mask.sum(1).cpu()
        # autocast would run the LSTM in fp16 on a GPU, also where bf16 was asked for, and its gradients overflow there
        with torch.autocast(features.device.type, enabled=False):
            packed = pack_padded_sequence(features.float(), lengths, batch_first=True, enforce_sorted=False)
            # total_length, since labels are as wide as the batch is padded, which may be more than its longest row
            outputs, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=features.shape[1])
        logits = self.classifier(self.dropout(outputs))  # (B, L, 2D) -> (B, L, C)
        loss = None if labels is None else cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)

    def save_pretrained(self, folder: Path) -> None:
        """Save config and weights, including the encoder's."""
        folder.mkdir(parents=True, exist_ok=True)
        config = json.loads(self.config.to_json_string())  # to_dict would include the folder it came from
        write_json(folder / CONFIG, config | {"architectures": [type(self).__name__]})
        save_weights(folder / WEIGHTS, self)

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        """Load what `save_pretrained` wrote."""
        import transformers

        config = transformers.AutoConfig.for_model(**read_json(folder / CONFIG))
        model = cls(transformers.AutoModel.from_config(config, trust_remote_code=False))
        load_weights(folder / WEIGHTS, model)
        return model
