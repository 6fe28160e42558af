"""RoBERTa (Liu et al. 2019): BERT's encoder without the pair head, with positions that start after the padding's."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, PAD_ID, SEP_ID

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


class Roberta(Architecture):
    """The encoder with an MLM head."""

    name: Literal["roberta"] = "roberta"
    heads: ClassVar[dict[str, str]] = {"masked": "RobertaForMaskedLM"}

    def config(self, vocab_size: int) -> Any:
        """A RobertaConfig, but with two token types, because our tokenizer gives the second segment the type 1."""
        from transformers import RobertaConfig

        return RobertaConfig(
            # the table has unused rows for the positions up to the padding's
            **self.sizes(vocab_size) | {"max_position_embeddings": self.max_position_embeddings + PAD_ID + 1},
            type_vocab_size=2,
            bos_token_id=CLS_ID,
            eos_token_id=SEP_ID,
        )

    def inputs(self, batch: "TensorBatch", config: Any) -> dict[str, "torch.Tensor"]:
        """The encoder's arguments, with positions that begin at pad_token_id + 1, as `transformers` numbers them for
        RoBERTa."""
        return super().inputs(batch, config) | {"position_ids": batch.position_ids[None] + config.pad_token_id + 1}

    def token_states(self, model: Any, hidden: "torch.Tensor") -> "torch.Tensor":
        """The MLM head before its decoder."""
        from torch.nn.functional import gelu

        states: torch.Tensor = model.lm_head.layer_norm(gelu(model.lm_head.dense(hidden)))
        return states
