"""Check that a model's config, its weights and the tokenizer belong together, before anything is published.

A mismatch often loads without an error and gives wrong predictions. The weights are compared with the shapes of an
empty model of the config's own class, so nothing here depends on the architecture (RoBERTa's position table has extra
rows for padding, the embeddings of ALBERT and ELECTRA are narrower than their hidden states).
"""

from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.tokenizer.loading import is_morpheme_tokenizer
from kobert_pipeline.training.hf_config import max_input_length

SPECIAL = {
    "pad_token_id": "pad", "mask_token_id": "mask", "cls_token_id": "cls", "sep_token_id": "sep",
    "bos_token_id": "cls", "eos_token_id": "sep",
}  # fmt: skip
"""{key of a config: special token of the tokenizer}. A text starts with [CLS] and ends with [SEP]."""
REQUIRED = ("pad", "unk", "cls", "sep", "mask")
SIZES = (
    "vocab_size",
    "max_position_embeddings",
    "n_positions",
    "type_vocab_size",
    "num_labels",
    "embedding_size",
    "hidden_size",
    "n_embd",
)
"""Keys of a config that set a size of its tensors; error messages name the one that does not fit."""


def refuse_disagreement(model: Path, tokenizer: Any) -> None:
    """Raise UserError, naming what disagrees, unless config and weights in `model` and the tokenizer belong
    together. Of a tokenizer that is not of this package, the stage `checkpoint` checked what can be."""
    config = read_json(model / "config.json")
    if not is_morpheme_tokenizer(tokenizer):
        # not ours: special tokens have other names and places, and embeddings may have more rows than tokens
        refuse_other_shapes(model, config)
        return
    ids = {name: getattr(tokenizer, f"{name}_token_id") for name in REQUIRED}
    _check_equal(config, "vocab_size", len(tokenizer))
    for key, name in SPECIAL.items():
        if config.get(key) is not None:
            _check_equal(config, key, ids[name])
    if len(set(ids.values())) < len(ids) or not all(0 <= token_id < len(tokenizer) for token_id in ids.values()):
        raise UserError(
            f"publish: the special tokens of the tokenizer need different ids below {len(tokenizer)}, and have {ids}; "
            "run the tokenizer stage again with --redo"
        )
    if max_input_length(config) < tokenizer.num_special_tokens_to_add(pair=True):
        raise UserError(
            f"publish: a model of {max_input_length(config)} positions has no room for a pair of texts between the "
            "special tokens; publish a model that this run trained"
        )
    refuse_other_shapes(model, config)


def _check_equal(config: dict[str, Any], key: str, expected: int) -> None:
    if config.get(key) != expected:
        raise UserError(
            f"publish: {key} is {config.get(key)} in the model's config and {expected} in the tokenizer; they are from "
            "different runs, so run the later of the two stages again with --redo"
        )


def segments(config: dict[str, Any]) -> int:
    """The number of segments (`token_type_ids`) that the model distinguishes."""
    return int(config.get("type_vocab_size", 1))


def refuse_other_shapes(model: Path, config: dict[str, Any]) -> None:
    """Raise UserError unless `model.safetensors` holds exactly the tensors and shapes of the config's class."""
    weights = model / "model.safetensors"
    expected, tied = expected_shapes(model, config)
    stored = stored_shapes(weights)
    for name, shape in stored.items():
        if name not in expected:
            raise UserError(
                f"publish: {weights} holds {name}, which a {config['architectures'][0]} does not have; "
                "run the stage that trained it again with --redo"
            )
        if shape != expected[name]:
            raise UserError(
                f"publish: {name} is {shape} in {weights}, and its config requires {expected[name]}"
                f"{_differing_sizes(model, shape, expected[name])}; they are from different trainings, so run the "
                "stage again with --redo"
            )
    for name in expected:
        # of tied weights only one is stored
        if name not in stored and not any(partner in stored for partner in tied.get(name, ())):
            raise UserError(
                f"publish: {name} is missing from {weights}, so it is not the model that its config describes; run the "
                "stage that trained it again with --redo"
            )


def _differing_sizes(model: Path, shape: list[int], expected: list[int]) -> str:
    """The config keys whose values are the sizes in which two shapes differ, in brackets."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(model)
    differing = [size for i, size in enumerate(expected) if shape[i : i + 1] != [size]]
    keys = [key for key in SIZES if getattr(config, key, None) in differing]
    return f" ({' or '.join(keys)})" if keys else ""


def stored_shapes(weights: Path) -> dict[str, list[int]]:
    """{tensor: shape} of a safetensors file, from its header. Raises UserError for a missing or damaged file."""
    from safetensors import SafetensorError, safe_open

    if not weights.is_file():
        raise UserError(f"{weights} does not exist; run the stage that makes it")
    try:
        with safe_open(weights, framework="numpy") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(f"{weights} is damaged ({error}); make it again with --redo") from None


def expected_shapes(model: Path, config: dict[str, Any]) -> tuple[dict[str, list[int]], dict[str, set[str]]]:
    """{tensor: shape} of the class that the config names, and {tensor: the tensors it is tied to, itself included}."""
    import torch
    import transformers

    with torch.device("meta"):  # shapes only, no memory for the weights
        empty = getattr(transformers, config["architectures"][0])(transformers.AutoConfig.from_pretrained(model))
    tied: dict[str, set[str]] = {}
    for pair in (empty.all_tied_weights_keys or {}).items():
        for name in pair:
            tied.setdefault(name, set()).update(pair)
    return {name: list(tensor.shape) for name, tensor in empty.state_dict().items()}, tied
