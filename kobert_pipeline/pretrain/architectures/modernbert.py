"""ModernBERT (Warner et al. 2024): rotary positions, gated feed-forward layers, and local attention in two of three
layers."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, PAD_ID, SEP_ID

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


class ModernBert(Architecture):
    """The encoder with an MLM head. It has no token types."""

    name: Literal["modernbert"] = "modernbert"
    heads: ClassVar[dict[str, str]] = {"masked": "ModernBertForMaskedLM"}
    token_types: ClassVar[bool] = False
    rotary: ClassVar[bool] = True

    intermediate_size: int | None = Field(None, gt=0)
    """Width of the feed-forward layer; default: one and a half times hidden_size."""
    local_attention: int = Field(128, gt=0)
    """Window of local attention in tokens, half of it on each side."""
    global_attn_every_n_layers: int = Field(3, gt=0)
    """Every n-th layer attends to the whole sequence, beginning with the first."""
    classifier_pooling: Literal["cls", "mean"] = "cls"
    """What heads for whole texts read after fine-tuning: the state of [CLS], or the mean of all tokens' states."""

    @classmethod
    def options_of(cls, config: Any) -> dict[str, Any]:
        """The values of the options in a config, which lists the type of each layer; `global_attn_every_n_layers` is
        None where the types follow no such rule."""
        is_global = [kind == "full_attention" for kind in config.layer_types]
        rules = (n for n in range(1, len(is_global) + 1) if is_global == [not i % n for i in range(len(is_global))])
        return super().options_of(config) | {"global_attn_every_n_layers": next(rules, None)}

    @property
    def inner_size(self) -> int:
        """Width of the feed-forward layer, by default narrower than BERT's, since a gated one has one matrix more."""
        return self.intermediate_size or 3 * self.hidden_size // 2

    def encoder_weights(self, head: str) -> int:
        """Gated feed-forward layers have three matrices."""
        return self.num_hidden_layers * (4 * self.hidden_size**2 + 3 * self.hidden_size * self.inner_size)

    def activation_bytes(self, head: str, fp32_residuals: bool = True) -> int:
        """One 16-bit copy for queries, keys and values together, and gated feed-forward layers, which save four
        numbers of the intermediate size."""
        return self.num_hidden_layers * ((22 if fp32_residuals else 18) * self.hidden_size + 8 * self.inner_size)

    def config(self, vocab_size: int) -> Any:
        """A ModernBertConfig."""
        from transformers import ModernBertConfig

        return ModernBertConfig(
            vocab_size=vocab_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=self.inner_size,
            max_position_embeddings=self.max_position_embeddings,
            local_attention=self.local_attention,
            classifier_pooling=self.classifier_pooling,
            # layers 0, n, 2n, ... are global
            layer_types=[
                "sliding_attention" if layer % self.global_attn_every_n_layers else "full_attention"
                for layer in range(self.num_hidden_layers)
            ],
            pad_token_id=PAD_ID,
            bos_token_id=CLS_ID,
            cls_token_id=CLS_ID,
            eos_token_id=SEP_ID,
            sep_token_id=SEP_ID,
        )

    def inputs(self, batch: "TensorBatch", config: Any) -> dict[str, "torch.Tensor"]:
        """The encoder's arguments, without token types."""
        return {name: value for name, value in super().inputs(batch, config).items() if name != "token_type_ids"}

    def token_states(self, model: Any, hidden: "torch.Tensor") -> "torch.Tensor":
        """The MLM head before its decoder."""
        states: torch.Tensor = model.head(hidden)
        return states
