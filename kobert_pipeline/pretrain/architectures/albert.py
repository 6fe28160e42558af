"""ALBERT (Lan et al. 2020): narrow embeddings with a projection to the hidden size, and one layer's weights shared by
all layers."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from kobert_pipeline.pretrain.architecture import FUSED_GELU, Architecture
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, SEP_ID

if TYPE_CHECKING:
    import torch


class Albert(Architecture):
    """The encoder with heads for MLM and sentence order prediction."""

    name: Literal["albert"] = "albert"
    heads: ClassVar[dict[str, str]] = {"pretraining": "AlbertForPreTraining", "masked": "AlbertForMaskedLM"}

    embedding_size: int = Field(128, gt=0)
    """Width of the embeddings, which are projected to hidden_size."""

    def encoder_weights(self, head: str) -> int:
        """Weights of the layers, each counted as often as it is used, and of the projection of the embeddings."""
        return super().encoder_weights(head) + self.embedding_size * self.hidden_size

    def head_weights(self, vocab_size: int, head: str) -> int:
        """The output layer has the width of the embeddings."""
        return self.embedding_size * (self.hidden_size + vocab_size)

    def parameter_count(self, vocab_size: int, head: str) -> int:
        """The number of parameters: one layer's weights, which all layers share, and narrow embeddings."""
        encoder = self.encoder_weights(head) // self.num_hidden_layers
        positions = self.max_position_embeddings * self.embedding_size
        return encoder + self.head_weights(vocab_size, head) + positions

    def config(self, vocab_size: int) -> Any:
        """An AlbertConfig."""
        from transformers import AlbertConfig

        return AlbertConfig(
            **self.sizes(vocab_size),
            hidden_act=FUSED_GELU,
            embedding_size=self.embedding_size,
            classifier_dropout_prob=0.0,
            bos_token_id=CLS_ID,
            eos_token_id=SEP_ID,
        )

    def token_states(self, model: Any, hidden: "torch.Tensor") -> "torch.Tensor":
        """The MLM head before its decoder."""
        head = model.predictions
        states: torch.Tensor = head.LayerNorm(head.activation(head.dense(hidden)))
        return states

    def pair_logits(self, model: Any, first: "torch.Tensor") -> "torch.Tensor":
        """The sentence order head, after the pooler."""
        base = model.base_model
        logits: torch.Tensor = model.sop_classifier(base.pooler_activation(base.pooler(first)))
        return logits
