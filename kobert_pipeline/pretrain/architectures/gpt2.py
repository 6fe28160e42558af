"""GPT-2 (Radford et al. 2019): a decoder, for the causal objective."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kobert_pipeline.pretrain.architecture import FUSED_GELU, Architecture
from kobert_pipeline.tokenizer.special_tokens import CLS_ID, PAD_ID, SEP_ID

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


class Gpt2(Architecture):
    """The decoder with a language modelling head."""

    name: Literal["gpt2"] = "gpt2"
    heads: ClassVar[dict[str, str]] = {"causal": "GPT2LMHeadModel"}
    token_types: ClassVar[bool] = False
    unsupported_heads: ClassVar[tuple[str, ...]] = ("AutoModelForMultipleChoice",)

    @classmethod
    def options_of(cls, config: Any) -> dict[str, Any]:
        """The values of the options in a config, in which the width of the feed-forward layer has another name."""
        return super().options_of(config) | {"intermediate_size": config.n_inner or 4 * config.n_embd}

    def head_weights(self, vocab_size: int, head: str) -> int:
        """The output layer, which has no projection before it."""
        return self.hidden_size * vocab_size

    def activation_bytes(self, head: str, fp32_residuals: bool = True) -> int:
        """Bytes per token, less than usual beside fp32 residuals: queries, keys and values share one 16-bit copy."""
        # 2 H bytes a layer once instead of three times; 16-bit residuals need no copies
        saved = 4 * self.num_hidden_layers * self.hidden_size if fp32_residuals else 0
        return super().activation_bytes(head, fp32_residuals) - saved

    def config(self, vocab_size: int) -> Any:
        """A GPT2Config."""
        from transformers import GPT2Config

        return GPT2Config(
            vocab_size=vocab_size,
            n_embd=self.hidden_size,
            n_layer=self.num_hidden_layers,
            n_head=self.num_attention_heads,
            n_inner=self.inner_size,
            n_positions=self.max_position_embeddings,
            activation_function=FUSED_GELU,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            resid_pdrop=0.0,
            pad_token_id=PAD_ID,
            bos_token_id=CLS_ID,
            eos_token_id=SEP_ID,
        )

    def inputs(self, batch: "TensorBatch", config: Any) -> dict[str, Any]:
        """No token types, which GPT-2 would look up among its token embeddings, and no cache."""
        return {"input_ids": batch.input_ids[None], "position_ids": batch.position_ids[None], "use_cache": False}

    def token_states(self, model: Any, hidden: "torch.Tensor") -> "torch.Tensor":
        """The hidden states as they are: the head is an output layer alone."""
        return hidden
