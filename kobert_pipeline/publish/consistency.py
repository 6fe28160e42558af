"""Do config, weights and tokenizer belong together? Asked before anything is written: where they disagree, the folder
loads and is wrong.

The weights are compared with the shapes that the config's own class gives its tensors, so an architecture's
peculiarities (RoBERTa's positions begin behind that of its padding, ALBERT's and ELECTRA's embeddings are narrower than
their states) are `transformers`' to know.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.training.hf_config import max_input_length

if TYPE_CHECKING:
    from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

SPECIAL = {
    "pad_token_id": "pad", "mask_token_id": "mask", "cls_token_id": "cls", "sep_token_id": "sep",
    "bos_token_id": "cls", "eos_token_id": "sep",
}  # fmt: skip
"""Keys of a config and the token they mean: ours begins with [CLS] and ends with [SEP]."""
TAKEN = ("pad", "unk", "cls", "sep", "mask")
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
"""Keys of a config that are sizes of its tensors."""


def refuse_disagreement(model: Path, tokenizer: "MorphemeTokenizer") -> None:
    """Raise UserError, naming what disagrees, unless config and weights in `model` and the tokenizer belong
    together."""
    config = read_json(model / "config.json")
    ids = {name: getattr(tokenizer, f"{name}_token_id") for name in TAKEN}
    _same(config, "vocab_size", len(tokenizer))
    for key, name in SPECIAL.items():
        if config.get(key) is not None:
            _same(config, key, ids[name])
    if len(set(ids.values())) < len(ids) or not all(0 <= number < len(tokenizer) for number in ids.values()):
        raise UserError(
            f"publish: the tokenizer's special tokens want ids of their own below {len(tokenizer)}, they have {ids}"
        )
    if max_input_length(config) < tokenizer.num_special_tokens_to_add(pair=True):
        raise UserError(
            f"publish: a model of {max_input_length(config)} positions takes no text; it is not one of this run"
        )
    refuse_other_shapes(model, config)


def _same(config: dict[str, Any], key: str, wanted: int) -> None:
    if config.get(key) != wanted:
        raise UserError(
            f"publish: {key} is {config.get(key)} in the model's config and {wanted} in the tokenizer; they are not of "
            "one run, "
            f"make the later of the two again with --redo"
        )


def segments(config: dict[str, Any]) -> int:
    """The segments that the model tells apart."""
    return int(config.get("type_vocab_size", 1))


def refuse_other_shapes(model: Path, config: dict[str, Any]) -> None:
    """Raise UserError unless `model.safetensors` holds the tensors, in the shapes, that the config asks for."""
    wanted, tied = shapes_wanted(model, config)
    found = shapes_found(model / "model.safetensors")
    for name, shape in found.items():
        if name not in wanted:
            raise UserError(
                f"publish: {model / 'model.safetensors'} holds {name}, which a {config['architectures'][0]} has not"
            )
        if shape != wanted[name]:
            raise UserError(
                f"publish: {name} is {shape} in {model / 'model.safetensors'}, and its config wants {wanted[name]}"
                f"{_by(model, shape, wanted[name])}; they are not of one training, make it again with --redo"
            )
    for name in wanted:
        if name not in found and not any(partner in found for partner in tied.get(name, ())):
            raise UserError(
                f"publish: {name} is missing from {model / 'model.safetensors'}; it is not the model that its config "
                "describes"
            )


def _by(model: Path, shape: list[int], wanted: list[int]) -> str:
    """The keys of the config that say the sizes in which two shapes differ."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(model)
    other = [size for i, size in enumerate(wanted) if shape[i : i + 1] != [size]]
    keys = [key for key in SIZES if getattr(config, key, None) in other]
    return f" ({' or '.join(keys)})" if keys else ""


def shapes_found(weights: Path) -> dict[str, list[int]]:
    """{tensor: shape} of a safetensors file, from its header. Raises UserError for a file that is none."""
    from safetensors import SafetensorError, safe_open

    if not weights.is_file():
        raise UserError(f"{weights} does not exist; run the stage that makes it")
    try:
        with safe_open(weights, framework="numpy") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(f"{weights} is damaged ({error}); make it again with --redo") from None


def shapes_wanted(model: Path, config: dict[str, Any]) -> tuple[dict[str, list[int]], dict[str, set[str]]]:
    """{tensor: shape} of the class that the config names, made without memory, and {tensor: those that it is one with
    and stored as}."""
    import torch
    import transformers

    with torch.device("meta"):
        empty = getattr(transformers, config["architectures"][0])(transformers.AutoConfig.from_pretrained(model))
    tied: dict[str, set[str]] = {}
    for pair in (empty.all_tied_weights_keys or {}).items():
        for name in pair:
            tied.setdefault(name, set()).update(pair)
    return {name: list(tensor.shape) for name, tensor in empty.state_dict().items()}, tied
