"""Questions to the config of a `transformers` model: its class, its labels, how many tokens it takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError

DEFAULT_LABELS = {0: "LABEL_0", 1: "LABEL_1"}
"""The labels of a config that names none, which `transformers` leaves out of the file."""

POSITIONS_AFTER_PADDING = (
    "camembert", "data2vec-text", "esm", "ibert", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl", "xmod",
)  # fmt: skip
"""Model types that number positions as RoBERTa does, from pad_token_id + 1 on; the embeddings below that are never
used."""
DEFAULT_PADDING = 1
"""The `pad_token_id` of these types in `transformers`, which a config may leave out."""


@dataclass(frozen=True)
class ConfigValues:
    """The values of a config.json, with the names that a `transformers` config has, where `transformers` is not
    imported."""

    values: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def id2label(self) -> dict[int, str]:
        """{index: label}; two labels without a name where the file gives none."""
        labels = self.values.get("id2label") or DEFAULT_LABELS
        return {int(index): label for index, label in labels.items()}

    @property
    def problem_type(self) -> str | None:
        """What the head is for."""
        return self.values.get("problem_type")

    def to_dict(self) -> dict[str, Any]:
        """The values, as in config.json."""
        return self.values


def max_input_length(config: dict[str, Any]) -> int:
    """The largest number of tokens that a model takes. Raises UserError where the config does not give it."""
    # `n_positions` is GPT-2's name
    positions = config.get("n_positions", config.get("max_position_embeddings"))
    if not isinstance(positions, int):
        raise UserError(
            f"the config of a {config.get('model_type')} model has no max_position_embeddings, so texts cannot be "
            "truncated to fit; add it to config.json"
        )
    if config.get("model_type") not in POSITIONS_AFTER_PADDING:
        return positions
    padding = config.get("pad_token_id")
    return positions - (DEFAULT_PADDING if padding is None else padding) - 1


def output_names(id2label: dict[Any, Any], names: Mapping[str, int | str]) -> list[str]:
    """The names of a head's outputs in their order, by a config, or by `names`: {name: the index of an output, or its
    name in the config}. Raises UserError for another index or name, and where two outputs would have one name."""
    # by number, since the order of keys in a config file is anybody's
    outputs = [str(label) for _, label in sorted((int(key), label) for key, label in id2label.items())]
    indices = {str(index): index for index in range(len(outputs))}
    indices |= {label.casefold(): index for index, label in enumerate(outputs) if label.casefold() not in indices}
    renamed = list(outputs)
    for name, output in names.items():
        if (index := indices.get(str(output).strip().casefold())) is None:
            listed = ", ".join(f"{index} ({label})" for index, label in enumerate(outputs[:20]))
            raise UserError(f"labels: {name} is {output!r:.40}, which is no output of the checkpoint; it has {listed}")
        renamed[index] = name
    if twice := next((name for name in names if renamed.count(name) != 1), None):
        raise UserError(f"labels: {twice} is the name of two outputs, or of none; name each output once")
    return renamed


def refuse_causal_cls(is_causal: bool, pooling: str) -> None:
    """Raise UserError for the pooling `cls` of a causal model, such as GPT."""
    if is_causal and pooling == "cls":
        raise UserError(
            "a causal model's first token sees no other one, so cls would give every text the same vector; choose "
            "another pooling"
        )


def with_label_keys(config: dict[str, Any]) -> dict[str, Any]:
    """A config with `id2label` by number, where it is a list or `label2id` alone has the names."""
    names, indices = config.get("id2label"), config.get("label2id")
    if isinstance(names, list):
        names = dict(enumerate(names))
    elif names is None and isinstance(indices, dict):
        names = {index: name for name, index in indices.items()}
    else:
        return config
    by_index = {str(index): str(name) for index, name in sorted(names.items())}
    return config | {"id2label": by_index, "label2id": {name: int(index) for index, name in by_index.items()}}


def with_model_type(config: Any, path: Path) -> dict[str, Any]:
    """A config, read from `path`, with its `model_type`: where it has none, the type of the model class that it names.
    Raises UserError where it does not name one either."""
    if isinstance(config, dict) and isinstance(config.get("model_type"), str):
        return config
    if isinstance(config, dict) and (named := _named_class(config)):
        return config | {"model_type": named.config_class.model_type}
    raise UserError(
        f"{path} is not the config of a model: it has no model_type, and architectures names no model class of "
        'transformers; add the type, such as "model_type": "bert"'
    )


def model_class(config: Any, path: Path) -> Any:
    """The `transformers` model class that a config, read from `path`, names.

    Raises UserError for any other name: an Auto class would look for code in the model's folder, and functions and
    trainers are not models.
    """
    if not isinstance(config, dict):
        raise UserError(f"{path} is not the config of a model: a JSON object was expected, not {type(config).__name__}")
    architectures, named = config.get("architectures"), _named_class(config)
    if named is None:
        raise UserError(
            f"{path}: architectures is {architectures!r:.80}; the name of one model class of transformers was "
            "expected, such as ['BertForSequenceClassification'] (code from a model's folder is never run)"
        )
    expected = named.config_class.model_type
    if config.get("model_type", expected) != expected:
        raise UserError(
            f"{path}: architectures is {architectures!r:.80}, but model_type is {config['model_type']!r:.40}; "
            f"{expected!r} was expected"
        )
    return named


def _named_class(config: dict[str, Any]) -> Any:
    """The model class of `transformers` that `architectures` names; None where it names none."""
    import transformers

    named = config.get("architectures")
    name = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    value: Any = getattr(transformers, name, None) if name.isidentifier() else None
    # PreTrainedModel itself has no config class, and Auto classes are not subclasses of it
    is_model = isinstance(value, type) and issubclass(value, transformers.PreTrainedModel)
    return value if is_model and value.config_class is not None else None
