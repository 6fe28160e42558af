"""BERT (Devlin et al. 2019)."""

from typing import Any, ClassVar, Literal

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.tokenizer.special_tokens import PAD_ID


class Bert(Architecture):
    """The encoder with MLM and NSP heads."""

    name: Literal["bert"] = "bert"
    heads: ClassVar[tuple[str, ...]] = ("pretraining",)

    def config(self, vocab_size: int) -> Any:
        """A BertConfig."""
        from transformers import BertConfig

        return BertConfig(
            vocab_size=vocab_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=self.intermediate_size or 4 * self.hidden_size,
            max_position_embeddings=self.max_position_embeddings,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=PAD_ID,
        )

    def model(self, config: Any, head: str) -> Any:
        """A BertForPreTraining."""
        from transformers import BertForPreTraining

        return BertForPreTraining(config)
