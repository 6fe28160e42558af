"""The contract of an architecture: sizes in, a `transformers` config and model out; weights are never renamed."""

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.tokenizer.special_tokens import PAD_ID

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.training.attention import SequenceLayout


class Architecture(Plugin):
    """A model family with its sizes, under HF's names. Beside building models it tells objectives where a model's heads
    are."""

    family: ClassVar[str] = "architectures"

    heads: ClassVar[tuple[str, ...]]
    """The kinds of pretraining model it has; an objective needs one of them: `masked` (predicts tokens),
    `pretraining` (tokens, and one of two classes for a pair), `discriminator` (with a generator), `causal` (predicts
    the next token)."""

    headless: ClassVar[tuple[str, ...]] = ()
    """The classes of tasks' heads, as AutoModelForMultipleChoice, that `transformers` has not for it."""

    num_hidden_layers: int = Field(4, gt=0)
    """Transformer layers."""
    hidden_size: int = Field(256, gt=0)
    """Width of the hidden states."""
    num_attention_heads: int = Field(4, gt=0)
    """Attention heads; must divide hidden_size."""
    intermediate_size: int | None = Field(None, gt=0)
    """Width of the feed-forward layer; default: four times hidden_size."""
    max_position_embeddings: int = Field(512, gt=0)
    """Longest sequence the model can ever take."""
    logits_chunk_size: int | None = Field(None, gt=0, exclude=True)
    """Tokens to predict whose logits are in memory at once, for large vocabularies on small devices; null: all of a
    batch. Changes nothing but rounding."""

    def sizes(self, vocab_size: int) -> dict[str, Any]:
        """The sizes under the names that most configs of `transformers` share; no dropout, and our padding."""
        return {
            "vocab_size": vocab_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "intermediate_size": self.intermediate_size or 4 * self.hidden_size,
            "max_position_embeddings": self.max_position_embeddings,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "pad_token_id": PAD_ID,
        }

    def matrices(self, head: str) -> int:
        """Weights of the matrices that every token passes in a model for `head`, as often as it passes them: a step
        costs six operations for each."""
        inner = self.intermediate_size or 4 * self.hidden_size
        return self.num_hidden_layers * (4 * self.hidden_size**2 + 2 * self.hidden_size * inner)

    def attended(self, head: str) -> int:
        """The widths that two tokens of a sequence are compared by, summed over the layers."""
        return self.num_hidden_layers * self.hidden_size

    def head_matrices(self, vocab_size: int, head: str) -> int:
        """The same for a token that is to be predicted."""
        return self.hidden_size * (self.hidden_size + vocab_size)

    @abstractmethod
    def config(self, vocab_size: int) -> Any:
        """A `transformers` config, dropout 0 (pretraining sees every text a few times only)."""

    @abstractmethod
    def model(self, config: Any, head: str) -> Any:
        """A model with random weights for an objective's `head`."""

    def hidden(self, model: Any, batch: dict[str, "torch.Tensor"], packing: "SequenceLayout") -> "torch.Tensor":
        """The last hidden states of T packed tokens: (T, H)."""
        states: torch.Tensor = model.base_model(**self.inputs(batch), packing=packing).last_hidden_state[0]
        return states

    def inputs(self, batch: dict[str, "torch.Tensor"]) -> dict[str, "torch.Tensor"]:
        """What the encoder takes, each (1, T)."""
        return {name: batch[name][None] for name in ("input_ids", "token_type_ids", "position_ids")}

    def token_logits(self, model: Any, hidden: "torch.Tensor") -> "torch.Tensor":
        """(K, H) -> (K, V)."""
        raise NotImplementedError(f"{self.name} predicts no tokens")

    def pair_logits(self, model: Any, first: "torch.Tensor") -> "torch.Tensor":
        """Hidden states of the [CLS] of P pairs, (P, H) -> (P, 2)."""
        raise NotImplementedError(f"{self.name} has no head for pairs")

    def save(self, model: Any, folder: Path) -> None:
        """What others load, in `transformers`' form."""
        model.save_pretrained(folder)

    def parameters(self, vocab_size: int) -> dict[str, int]:
        """Parameter counts by part, from a model without memory."""
        import torch

        with torch.device("meta"):
            base = self.model(self.config(vocab_size), self.heads[0]).base_model
        parts = {name: sum(p.numel() for p in module.parameters()) for name, module in base.named_children()}
        return {**{name: count for name, count in parts.items() if count}, "total": sum(parts.values())}
