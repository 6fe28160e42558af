"""RoFormer (Su et al. 2021): BERT's encoder with rotary positions, by which attention can tell from the start what is
near a token from what is far away. Unlike ModernBERT it has token types."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.bert_head import BertHead

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


class RoFormer(BertHead, Architecture):
    """The encoder with an MLM head. Positions are no weights: the table of angles that is saved with them is never
    trained."""

    name: Literal["roformer"] = "roformer"
    heads: ClassVar[dict[str, str]] = {"masked": "RoFormerForMaskedLM"}
    rotary: ClassVar[bool] = True

    def config(self, vocab_size: int) -> Any:
        """A RoFormerConfig, whose embeddings are as wide as its hidden states."""
        from transformers import RoFormerConfig

        return RoFormerConfig(**self.sizes(vocab_size), embedding_size=self.hidden_size)

    def hidden(self, model: Any, batch: "TensorBatch") -> "torch.Tensor":
        """The last hidden states of T packed tokens, (T, H). Their code numbers positions itself, through a whole row,
        so its layers are called one by one."""
        base, inputs = model.base_model, self.inputs(batch, model.config)
        position_ids = inputs.pop("position_ids")
        states = base.embeddings(**inputs)
        if hasattr(base, "embeddings_project"):
            states = base.embeddings_project(states)
        # (1, T, W) -> (1, 1, T, W): the same angles for all heads; not by the module, which may give 16 bits
        angles = base.encoder.embed_positions.weight[position_ids].unsqueeze(1)
        for layer in base.encoder.layer:
            states = layer(states, sinusoidal_pos=angles, packing=batch.layout)[0]
        hidden: torch.Tensor = states.squeeze(0)
        return hidden
