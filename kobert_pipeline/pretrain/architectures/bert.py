"""BERT (Devlin et al. 2019)."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.bert_head import BertHead

if TYPE_CHECKING:
    import torch


class Bert(BertHead, Architecture):
    """The encoder with MLM and NSP heads."""

    name: Literal["bert"] = "bert"
    heads: ClassVar[dict[str, str]] = {"pretraining": "BertForPreTraining", "masked": "BertForMaskedLM"}

    def config(self, vocab_size: int) -> Any:
        """A BertConfig."""
        from transformers import BertConfig

        return BertConfig(**self.sizes(vocab_size))

    def pair_logits(self, model: Any, first: "torch.Tensor") -> "torch.Tensor":
        """The NSP head, after the pooler."""
        pooled = model.base_model.pooler(first[:, None])  # (P, H) -> (P, 1, H) -> (P, H)
        logits: torch.Tensor = model.cls.seq_relationship(pooled)
        return logits
