"""The contract of an architecture: sizes in, a `transformers` config and model out; weights are never renamed."""

from abc import abstractmethod
from typing import Any, ClassVar

from pydantic import Field

from kobert_pipeline.options import Plugin


class Architecture(Plugin):
    """A model family with its sizes, under HF's names."""

    family: ClassVar[str] = "architectures"

    heads: ClassVar[tuple[str, ...]]
    """The kinds of pretraining model it has; an objective needs one of them."""

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

    @abstractmethod
    def config(self, vocab_size: int) -> Any:
        """A `transformers` config, dropout 0 (pretraining sees every text a few times only)."""

    @abstractmethod
    def model(self, config: Any, head: str) -> Any:
        """A model with random weights for an objective's `head`."""

    def parameters(self, vocab_size: int) -> dict[str, int]:
        """Parameter counts by part, from a model without memory."""
        import torch

        with torch.device("meta"):
            base = self.model(self.config(vocab_size), self.heads[0]).base_model
        parts = {name: sum(p.numel() for p in module.parameters()) for name, module in base.named_children()}
        return {**parts, "total": sum(parts.values())}
