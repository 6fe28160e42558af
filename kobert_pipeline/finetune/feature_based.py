"""The feature-based approach (Devlin et al., NAACL 2019, section 5.3, for tagging; here also for labels of texts): the
encoder stays as it was pretrained, the hidden states of its last four layers are concatenated, and only a two-layer
BiLSTM with a linear layer is trained.

`transformers` has no such class, so the model's folder has no `config.json`: loading it as another class must fail
instead of giving a model with a randomly initialised head.
"""

import json
from pathlib import Path
from typing import Any, Self

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput

from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.training.checkpoint import load_weights, save_weights

CONCATENATED_LAYERS = 4
"""Number of layers, the last ones, whose hidden states are concatenated."""
CONFIG = "feature_based.json"
"""The file of the encoder's config, which includes the labels."""
WEIGHTS = "model.safetensors"


class FeatureBasedModel(torch.nn.Module):
    """A frozen encoder below a trained BiLSTM and a linear layer, with the outputs and the loss of a `transformers`
    model. Subclasses define `forward`."""

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

    def states(self, attention_mask: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        """The BiLSTM's states (B, L, 2D), 0 where there is padding."""
        with torch.no_grad():
            layers = self.encoder(attention_mask=attention_mask, output_hidden_states=True, **inputs).hidden_states
        # the first hidden states are the embeddings
        features = torch.cat(layers[1:][-CONCATENATED_LAYERS:], -1)  # 4 x (B, L, D) -> (B, L, 4D)
        # on the CPU, as `pack_padded_sequence` requires of lengths
        lengths = attention_mask.sum(1).cpu()
        # autocast would run the LSTM in fp16 on a GPU, also where bf16 was asked for, and its gradients overflow there
        with torch.autocast(features.device.type, enabled=False):
            packed = pack_padded_sequence(features.float(), lengths, batch_first=True, enforce_sorted=False)
            # total_length, since labels are as wide as the batch is padded, which may be more than its longest row
            outputs, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=features.shape[1])
        return outputs

    def save_pretrained(self, folder: Path) -> None:
        """Save config and weights, including the encoder's."""
        folder.mkdir(parents=True, exist_ok=True)
        config = json.loads(self.config.to_json_string())  # to_dict would include the folder it came from
        write_json(folder / CONFIG, config | {"architectures": [type(self).__name__]})
        save_weights(folder / WEIGHTS, self)

    @staticmethod
    def from_pretrained(folder: Path) -> "FeatureBasedModel":
        """Load what `save_pretrained` wrote."""
        import transformers

        stored = read_json(folder / CONFIG)
        config = transformers.AutoConfig.for_model(**stored)
        kind = {kind.__name__: kind for kind in KINDS}[stored["architectures"][0]]
        model = kind(transformers.AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False))
        load_weights(folder / WEIGHTS, model)
        return model


class FeatureBasedTagger(FeatureBasedModel):
    """Labels every token."""

    class_name = "ForTokenClassification"
    """The class of `transformers` with the same outputs, which has no prefix here."""

    def forward(
        self, attention_mask: torch.Tensor, labels: torch.Tensor | None = None, **inputs: torch.Tensor
    ) -> TokenClassifierOutput:
        """`logits` (B, L, C), and with `labels` (B, L) `loss`, the mean cross-entropy over labels other than -100."""
        logits = self.classifier(self.dropout(self.states(attention_mask, **inputs)))  # (B, L, 2D) -> (B, L, C)
        loss = None if labels is None else cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)


class FeatureBasedClassifier(FeatureBasedModel):
    """Labels a whole text, by the largest value of each of the BiLSTM's states (max pooling: Conneau et al., EMNLP
    2017)."""

    class_name = "ForSequenceClassification"

    def forward(
        self, attention_mask: torch.Tensor, labels: torch.Tensor | None = None, **inputs: torch.Tensor
    ) -> SequenceClassifierOutput:
        """`logits` (B, C), and with `labels` (B,) `loss`, the mean cross-entropy."""
        padding = attention_mask[..., None] == 0
        states = self.states(attention_mask, **inputs).masked_fill(padding, -torch.inf)
        logits = self.classifier(self.dropout(states.amax(1)))  # (B, L, 2D) -> (B, 2D) -> (B, C)
        loss = None if labels is None else cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


KINDS = (FeatureBasedTagger, FeatureBasedClassifier)
