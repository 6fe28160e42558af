"""The contract of an architecture: sizes in, a `transformers` config and model out, with `transformers`' own weight
names."""

import re
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from kobert_pipeline.config.options import Plugin
from kobert_pipeline.errors import UserError
from kobert_pipeline.tokenizer.special_tokens import PAD_ID
from kobert_pipeline.training.hf_config import max_input_length

if TYPE_CHECKING:
    import torch

    from kobert_pipeline.pretrain.tensor_batch import TensorBatch


FUSED_GELU = "gelu_pytorch_tanh"
"""The activation of ALBERT and GPT-2 as one kernel. By default `transformers` writes its formula out ("gelu_new"),
which saves four times as many bytes for the backward pass."""
SAME_WEIGHTS = {"xlm-roberta": "roberta"}
"""{model type of `transformers`: the architecture with the same weights under the same names}."""
OF_VOCABULARY = re.compile(r"vocab_size|\w+_token_id|max_position_embeddings|n_positions")
"""Entries of a config that depend on the vocabulary: its size and special tokens, and RoBERTa's number of positions,
which counts those up to the padding's."""


class Architecture(Plugin):
    """A model family with its sizes, under HF's names. It builds models, and calls their pretraining heads for the
    objectives."""

    family: ClassVar[str] = "architectures"

    heads: ClassVar[dict[str, str]]
    """{kind of pretraining model that it can build: its class in `transformers`}. An objective needs one of the kinds:
    `masked` (predicts masked tokens), `pretraining` (masked tokens, and one of two classes for a sequence pair),
    `discriminator` (with a generator), `causal` (predicts the next token)."""

    unsupported_heads: ClassVar[tuple[str, ...]] = ()
    """The Auto classes, such as AutoModelForMultipleChoice, for which `transformers` has no model of this family."""

    token_types: ClassVar[bool] = True
    """Whether the embeddings distinguish token types, which `exact_match_feature` of a task needs."""

    rotary: ClassVar[bool] = False
    """Whether positions are angles of queries and keys, which are no weights, and not embeddings."""

    num_hidden_layers: int = Field(4, gt=0)
    """Number of transformer layers."""
    hidden_size: int = Field(256, gt=0)
    """Width of the hidden states."""
    num_attention_heads: int = Field(4, gt=0)
    """Number of attention heads; must divide hidden_size."""
    intermediate_size: int | None = Field(None, gt=0)
    """Width of the feed-forward layer; default: four times hidden_size."""
    max_position_embeddings: int = Field(512, gt=0)
    """Longest sequence that the model can take, in tokens."""

    @classmethod
    def of_model(cls, config: Any, model: str, **more: Any) -> "Architecture":
        """The architecture of `model`, which has this config of `transformers`; `more` are options that no config has.
        Raises UserError for a type of model that is not one of ours."""
        name = cls.name_of(config.model_type, model)
        kind = cls.variant(name)
        options = more | kind.options_of(config)
        return kind(name=name, **{option: value for option, value in options.items() if value is not None})

    @classmethod
    def name_of(cls, model_type: str, model: str) -> str:
        """The name of the architecture of `model`, which has this type. Raises UserError for one that is not ours."""
        name = SAME_WEIGHTS.get(model_type, model_type)
        if name not in cls.names():
            raise UserError(
                f"pretrain: {model} is of the type {model_type!r:.40}, which cannot be pretrained further (allowed: "
                f"{', '.join(sorted([*cls.names(), *SAME_WEIGHTS]))}); give another checkpoint"
            )
        return name

    @classmethod
    def options_of(cls, config: Any) -> dict[str, Any]:
        """The values that the options of this architecture have in a model's config."""
        # by attribute, since GPT-2's config has names of its own, which `transformers` maps
        named = {name: getattr(config, name) for name in cls.model_fields if hasattr(config, name)}
        return named | {"max_position_embeddings": max_input_length(config.to_dict())}

    def config_like(self, other: Any, vocab_size: int) -> Any:
        """The config of a model with the structure of the model that has the config `other`, this architecture's, but
        for our vocabulary: with two token types at least, and without its task and labels."""
        from transformers import PretrainedConfig

        config, common = self.config(vocab_size), PretrainedConfig().to_dict()
        structure = {
            name: value
            for name, value in other.to_dict().items()
            if name in config.to_dict() and name not in common and not OF_VOCABULARY.fullmatch(name)
        }
        if "type_vocab_size" in structure:
            structure["type_vocab_size"] = max(2, structure["type_vocab_size"])
        config.update(structure)
        return config

    @property
    def inner_size(self) -> int:
        """Width of the feed-forward layer: `intermediate_size`, or its default."""
        return self.intermediate_size or 4 * self.hidden_size

    def sizes(self, vocab_size: int) -> dict[str, Any]:
        """The arguments that most configs of `transformers` share, without dropout and with our padding id."""
        return {
            "vocab_size": vocab_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "intermediate_size": self.inner_size,
            "max_position_embeddings": self.max_position_embeddings,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "pad_token_id": PAD_ID,
        }

    def encoder_weights(self, head: str) -> int:
        """Weights in the matrices that every token is multiplied with, for a model of the kind `head`; shared layers
        count each time they are used. A training step costs six operations per token and weight."""
        # 4 H^2 of queries, keys, values and the output of attention, 2 H I of the feed-forward layer
        return self.num_hidden_layers * (4 * self.hidden_size**2 + 2 * self.hidden_size * self.inner_size)

    def attention_width(self, head: str) -> int:
        """The width of queries and keys (all heads together), summed over the layers."""
        return self.num_hidden_layers * self.hidden_size

    def head_weights(self, vocab_size: int, head: str) -> int:
        """Weights of the output layer, through which only predicted tokens pass."""
        # heads such as BERT's have an H x H layer before it
        return self.hidden_size * (self.hidden_size + vocab_size)

    def parameter_count(self, vocab_size: int, head: str) -> int:
        """Approximate number of parameters of a model of the kind `head`, without building it. The output layer is
        tied to the embeddings."""
        positions = 0 if self.rotary else self.max_position_embeddings * self.hidden_size
        return self.encoder_weights(head) + self.head_weights(vocab_size, head) + positions

    def activation_bytes(self, head: str, fp32_residuals: bool = True) -> int:
        """Bytes per token that the layers of a model of the kind `head` save for the backward pass, in bf16."""
        # counted in small models, not measured on a GPU (docs/results/engine);
        # per layer, with H the hidden and I the intermediate size, and residuals in fp32 (or in 16 bits):
        #    8 H (4 H)  the inputs of both layer norms
        #    8 H (4 H)  16-bit copies of their outputs, for queries, keys, values and the feed-forward layer (the two
        #               outputs themselves)
        #    8 H        queries, keys, values, and what attention gives
        #    4 I        the input and the output of the activation function
        return self.num_hidden_layers * ((24 if fp32_residuals else 16) * self.hidden_size + 4 * self.inner_size)

    def activation_bytes_at_logits(self, head: str, fp32_residuals: bool = True) -> int:
        """The part of `activation_bytes` that exists at the same time as the logits: all of it, unless there is another
        model."""
        return self.activation_bytes(head, fp32_residuals)

    @abstractmethod
    def config(self, vocab_size: int) -> Any:
        """A `transformers` config with dropout 0, because pretraining sees every text only a few times."""

    def model(self, config: Any, head: str) -> Any:
        """A randomly initialised model of the kind `head`, one of `heads`."""
        import transformers

        return getattr(transformers, self.heads[head])(config)

    def hidden(self, model: Any, batch: "TensorBatch") -> "torch.Tensor":
        """The last hidden states of T packed tokens, (T, H)."""
        states: torch.Tensor = model.base_model(
            **self.inputs(batch, model.config), packing=batch.layout
        ).last_hidden_state
        return states.squeeze(0)

    def inputs(self, batch: "TensorBatch", config: Any) -> dict[str, "torch.Tensor"]:
        """The encoder's arguments, each (1, T): one row that holds all sequences of the batch. `config` is the
        model's."""
        # checkpoints of other projects may know one type only, as klue/roberta
        has_types = getattr(config, "type_vocab_size", 2) > 1
        return {
            "input_ids": batch.input_ids[None],
            "token_type_ids": batch.token_type_ids[None] * has_types,
            "position_ids": batch.position_ids[None],
        }

    def token_states(self, model: Any, hidden: "torch.Tensor") -> "torch.Tensor":
        """What the head for tokens computes before its output layer: (K, H) -> (K, E)."""
        raise NotImplementedError(f"{self.name} predicts no tokens")

    def output_layer(self, model: Any) -> "torch.nn.Linear":
        """The layer from these states to the vocabulary, apart from them because the loss computes the logits chunk by
        chunk, together with their gradient."""
        layer: torch.nn.Linear = model.get_output_embeddings()
        return layer

    def token_logits(self, model: Any, hidden: "torch.Tensor") -> "torch.Tensor":
        """The logits of K tokens over the vocabulary: (K, H) -> (K, V)."""
        logits: torch.Tensor = self.output_layer(model)(self.token_states(model, hidden))
        return logits

    def pair_logits(self, model: Any, first: "torch.Tensor") -> "torch.Tensor":
        """The logits of P sequence pairs, from the hidden states of their [CLS]: (P, H) -> (P, 2)."""
        raise NotImplementedError(f"{self.name} has no head for sequence pairs")

    def save(self, model: Any, folder: Path) -> None:
        """Save the model to publish and fine-tune, in the format of `transformers`."""
        model.save_pretrained(folder)

    def parameters(self, vocab_size: int) -> dict[str, int]:
        """Parameter counts by module, and their total, from a model on the meta device."""
        import torch

        with torch.device("meta"):
            base = self.model(self.config(vocab_size), next(iter(self.heads))).base_model
        parts = {name: sum(p.numel() for p in module.parameters()) for name, module in base.named_children()}
        return {**{name: count for name, count in parts.items() if count}, "total": sum(parts.values())}


def switch_off_dropout(config: Any) -> dict[str, float]:
    """Set all dropout of a config to 0, which pretraining uses. Returns what it was, for those who fine-tune."""
    values = {name: value for name, value in config.to_dict().items() if "drop" in name and isinstance(value, float)}
    config.update(dict.fromkeys(values, 0.0))
    return values
