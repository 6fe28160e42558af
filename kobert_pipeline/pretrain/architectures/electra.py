"""ELECTRA (Clark et al. 2020): a discriminator, trained together with a small generator that shares its embeddings."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from kobert_pipeline.pretrain.architecture import Architecture

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch

GENERATOR = "generator"
"""Folder of the generator, inside the discriminator's."""


class Electra(Architecture):
    """The discriminator with its generator, or a masked language model of the same sizes."""

    name: Literal["electra"] = "electra"
    heads: ClassVar[dict[str, str]] = {"discriminator": "ElectraForPreTraining", "masked": "ElectraForMaskedLM"}

    embedding_size: int = Field(128, gt=0)
    """Width of the embeddings, which are projected to hidden_size if that differs."""
    generator_share: float = Field(0.25, gt=0, le=1)
    """Width and number of heads of the generator, as a share of the discriminator's."""
    tied: Literal["embeddings", "encoder"] = "embeddings"
    """What the two share: the embeddings, or all but their heads (section 3.2 of the paper), which requires a
    generator_share of 1. With `encoder` the discriminator starts to learn much earlier."""

    @model_validator(mode="after")
    def _same_size(self) -> "Electra":
        if self.tied == "encoder" and self.generator_share != 1:
            raise ValueError(
                f"tied: encoder requires a generator of the discriminator's size, but generator_share is "
                f"{self.generator_share:g}; set it to 1"
            )
        return self

    def encoder_weights(self, head: str) -> int:
        """Weights of the discriminator with its head, and of the generator, each with its projection of the
        embeddings."""
        # a generator of half the width has matrices of a quarter of the size
        share = self.generator_share if head == "discriminator" else 0.0
        mapped = self.embedding_size * self.hidden_size * (1 + share)
        # the head of the discriminator has an H x H layer
        return round(super().encoder_weights(head) * (1 + share**2) + mapped) + (self.hidden_size**2 if share else 0)

    def attention_width(self, head: str) -> int:
        """The discriminator's and the generator's."""
        return round(super().attention_width(head) * (1 + (self.generator_share if head == "discriminator" else 0.0)))

    def head_weights(self, vocab_size: int, head: str) -> int:
        """The generator's output layer, which has the width of the embeddings."""
        width = self.hidden_size * (self.generator_share if head == "discriminator" else 1)
        return self.embedding_size * (round(width) + vocab_size)

    def activation_bytes(self, head: str, fp32_residuals: bool = True) -> int:
        """The discriminator's and the generator's."""
        share = self.generator_share if head == "discriminator" else 0.0
        return round(super().activation_bytes(head, fp32_residuals) * (1 + share))

    def activation_bytes_at_logits(self, head: str, fp32_residuals: bool = True) -> int:
        """The generator's: the discriminator runs after its logits, backward before their gradient."""
        share = self.generator_share if head == "discriminator" else 1
        return round(super().activation_bytes(head, fp32_residuals) * share)

    def config(self, vocab_size: int) -> Any:
        """An ElectraConfig."""
        from transformers import ElectraConfig

        return ElectraConfig(**self.sizes(vocab_size), embedding_size=self.embedding_size)

    def model(self, config: Any, head: str) -> Any:
        """An ElectraForPreTraining whose `generator` is an ElectraForMaskedLM with the same embeddings; for the head
        "masked" an ElectraForMaskedLM alone."""
        model = super().model(config, head)
        if head == "masked":
            return model
        model.generator = super().model(self.generator_config(config), "masked")
        # the generator's output layer is tied to the shared word embeddings, as `transformers` ties it to its own
        model.generator.generator_lm_head.weight = model.electra.embeddings.word_embeddings.weight
        if self.tied == "encoder":
            model.generator.electra = model.electra
            return model
        # the three tables; each of the two has a layer norm of its own
        shared, generator_embeddings = model.electra.embeddings, model.generator.electra.embeddings
        for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
            setattr(generator_embeddings, name, getattr(shared, name))
        return model

    def generator_config(self, config: Any) -> Any:
        """The discriminator's config with the generator's sizes."""
        from transformers import ElectraConfig

        heads = max(1, round(self.num_attention_heads * self.generator_share))
        # the width must be a multiple of the number of heads
        width = max(heads, round(self.hidden_size * self.generator_share) // heads * heads)
        inner = max(1, round(config.intermediate_size * self.generator_share))
        sizes = {"hidden_size": width, "num_attention_heads": heads, "intermediate_size": inner}
        return ElectraConfig(**{**config.to_dict(), **sizes})

    def token_states(self, model: Any, hidden: "torch.Tensor") -> "torch.Tensor":
        """The generator's head before its output layer (`model` is an ElectraForMaskedLM)."""
        states: torch.Tensor = model.generator_predictions(hidden)
        return states

    def replaced_logits(self, model: Any, batch: "TensorBatch") -> "torch.Tensor":
        """The logits of T tokens for having been replaced, (T,)."""
        logits: torch.Tensor = model.discriminator_predictions(self.hidden(model, batch)[None]).squeeze(0)
        return logits

    def save(self, model: Any, folder: Path) -> None:
        """Save the discriminator, and its generator in a folder inside."""
        # `transformers` has no class with both, so the discriminator is saved without its attribute `generator`
        generator = model._modules.pop(GENERATOR, None)
        model.save_pretrained(folder)
        if generator is not None:
            generator.save_pretrained(folder / GENERATOR)
            model.generator = generator
