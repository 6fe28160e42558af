"""The files that hold a model's weights in the format of `transformers`, one or an index and the parts that it lists,
and the one way to read them. Beside them the folder may hold the same model for ONNX Runtime.

Whatever tool stored the weights, they are read in one form: float32, with PyTorch's names, without the names that
wrappers add.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.training.hf_config import with_label_keys

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS, PICKLED_WEIGHTS = "model.safetensors", "pytorch_model.bin"
INDEX = f"{WEIGHTS}.index.json"
# in the order in which from_pretrained looks for them
FILES = (WEIGHTS, INDEX, PICKLED_WEIGHTS, f"{PICKLED_WEIGHTS}.index.json")
"""What a folder with weights has one of; the first that it has is read."""
INDEX_SUFFIX = ".index.json"
PART = re.compile(r"[\w.-]+")
"""A part's name, which leads to no other folder."""
OUTPUT_EMBEDDINGS = ("decoder.weight", "lm_head.weight")
"""How the names of weights end that give the scores of tokens."""
ADAPTER = "adapter_config.json"
MERGE = "merge it into that model first (peft: merge_and_unload, then save_pretrained)"
ADAPTER_WEIGHT = re.compile(r"\.(?:lora_\w+|base_layer)\.")
OTHER_LIBRARIES = {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax"}
TRAINING_STATES = ("*.ckpt", "*.pt", "*.pth")
"""What other tools call files that may hold weights."""
UNUSED = re.compile(r"(^|\.)(pooler\.|position_ids$|token_type_ids$|inv_freq$|masked_bias$|attn\.bias$)")
"""Weights of an encoder that a file may have beyond its model's: the pooler, which heads may do without, and constants
that earlier versions of `transformers` stored."""
UNSAFE = re.compile(r"GLOBAL ([\w.]+)")
"""What torch calls the class of an object that is not a tensor, in an error's text."""
ONNX, ONNX_INT8 = "onnx/model.onnx", "onnx/model_quantized.onnx"
"""The model for ONNX Runtime in float32 and in int8, under the names that are usual on the Hub."""
NGRAMS = "ngrams.safetensors"
"""A linear classifier over n-grams, which is no model of `transformers`."""
NGRAMS_FOLDER = "ngrams"
"""The folder of such a classifier that is a part of the encoder's model around it."""
HIDDEN_STATES = "last_hidden_state"
"""The output of these files from which the vectors of texts are made."""
TENSORFLOW_NAMES = {"gamma": "weight", "beta": "bias"}
"""{TensorFlow's name of a weight of a normalization layer: PyTorch's}. Google's BERTs on the Hub have the former;
`transformers` reads both, but saves a model with the names that it was loaded with."""
NORMALIZATION = re.compile(rf"(norm\w*\.)({'|'.join(TENSORFLOW_NAMES)})$", re.IGNORECASE)
COMPILED = re.compile(r"(?:(?<=\.)|^)_(orig_mod|fsdp_wrapped_module|checkpoint_wrapped_module|forward_module)\.")
"""What torch.compile, FSDP and Fabric put into names, wherever in the model they wrap a module."""


def weight_files(folder: Path) -> list[str]:
    """The names of the files in `folder` that hold its weights: one, or an index and the parts that it lists; none
    where there is neither. Raises UserError where a part is missing."""
    name = next((name for name in FILES if (folder / name).is_file()), None)
    if name is None or not name.endswith(INDEX_SUFFIX):
        return [name] if name else []
    parts = listed_parts(folder, name)
    if missing := [part for part in parts if not (folder / part).is_file()]:
        raise UserError(
            f"{folder} lacks {', '.join(missing[:3])}, {len(missing)} of the {len(parts)} parts that {name} lists; "
            "copy it again"
        )
    return [name, *parts]


def listed_parts(folder: Path, name: str) -> list[str]:
    """The names of the parts that the index `name` in `folder` lists. Raises UserError where it lists none, or a file
    elsewhere."""
    index = read_json(folder / name)
    by_tensor = index.get("weight_map") if isinstance(index, dict) else None
    parts = list(by_tensor.values()) if isinstance(by_tensor, dict) else []
    suffix = Path(name.removesuffix(INDEX_SUFFIX)).suffix
    if not parts or not all(isinstance(part, str) and PART.fullmatch(part) and part.endswith(suffix) for part in parts):
        raise UserError(
            f"{folder / name} is not an index of weights (its weight_map must name a file ending in {suffix} in the "
            "same folder for each tensor); copy the checkpoint again"
        )
    return sorted(set(parts))


def lack_of_weights(folder: Path) -> str:
    """The name of the file that `folder`, which has no weights, lacks, and what else in it may hold them."""
    return f"{WEIGHTS} (or {PICKLED_WEIGHTS}{other_weights(folder)})"


def other_weights(folder: Path) -> str:
    """What a folder without weights has in place of them, and what to do about it; "" for nothing that is known."""
    if (folder / ADAPTER).is_file():
        base = read_json(folder / ADAPTER).get("base_model_name_or_path")
        return f"; it is an adapter of {base}, so {MERGE}"
    if others := [name for name in OTHER_LIBRARIES if (folder / name).is_file()]:
        return (
            f"; {others[0]} is for {OTHER_LIBRARIES[others[0]]}, and transformers before version 5 converts it: "
            f"from_pretrained(FOLDER, {'from_flax' if 'flax' in others[0] else 'from_tf'}=True)"
        )
    if parts := sorted(path for suffix in ("safetensors", "bin") for path in folder.glob(f"*-of-*.{suffix}")):
        index = INDEX if parts[-1].suffix == ".safetensors" else f"{PICKLED_WEIGHTS}{INDEX_SUFFIX}"
        return f"; {parts[-1].name} is a part of one, which needs {index}"
    if checkpoints := sorted(folder.glob(f"checkpoint-*/{WEIGHTS}")):
        return f"; give one of the folders in it, such as {checkpoints[0].parent.name}"
    states = sorted(path.name for pattern in TRAINING_STATES for path in folder.glob(pattern))
    return f"; if {states[0]} holds them, call it {PICKLED_WEIGHTS}" if states else ""


def read_weights(folder: Path, encoder: Any) -> "dict[str, Tensor]":
    """The tensors of a checkpoint by name: in float32, with PyTorch's names, and without the prefix of a wrapper such
    as DistributedDataParallel or a LightningModule. `encoder` is the model below the head, whose names decide what is a
    prefix; its weights are not read, so it may be on the device `meta`.

    Of pickled files only tensors are read, and nothing in them is executed. Raises UserError for files that hold
    anything else, or are damaged.
    """
    tensors: dict[str, Tensor] = {}
    for name in weight_files(folder):
        if not name.endswith(INDEX_SUFFIX):
            tensors |= _read_file(folder / name)
    if adapter := next(filter(ADAPTER_WEIGHT.search, tensors), None):
        raise UserError(f"{folder} has weights of an adapter beside those of its model ({adapter:.80}); {MERGE}")
    if (folder / ADAPTER).is_file():
        raise UserError(f"{folder} has an adapter ({ADAPTER}) beside the weights of its model; {MERGE}, or delete it")
    names = {name: canonical_name(name) for name in tensors}
    prefix = wrapper_prefix(names.values(), encoder)
    weights = {
        names[name].removeprefix(prefix): tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
    return weights | tied_embeddings(weights, encoder)


def tied_embeddings(weights: Mapping[str, "Tensor"], encoder: Any) -> "dict[str, Tensor]":
    """The embeddings of tokens, where weights have them under the name of the output layer alone, with which they are
    tied; {} otherwise."""
    embeddings = encoder.get_input_embeddings().weight
    name = next(name for name, parameter in encoder.named_parameters() if parameter is embeddings)
    outputs = [key for key in weights if key.endswith(OUTPUT_EMBEDDINGS) and weights[key].shape == embeddings.shape]
    if (
        not getattr(encoder.config, "tie_word_embeddings", True)
        or len(outputs) != 1
        or any(key.endswith(name) for key in weights)
    ):
        return {}
    below = f"{encoder.base_model_prefix}."
    return {below * any(key.startswith(below) for key in weights) + name: weights[outputs[0]]}


def load_pretrained(model_class: Any, folder: Path) -> tuple[Any, dict[str, Any]]:
    """A model of a class of `transformers` with the config and the weights in `folder`, in float32, and the names of
    weights that were missing or not used. Code in the folder is never run. Raises what `transformers` raises."""
    import torch

    config = model_class.config_class.from_dict(with_label_keys(read_json(folder / "config.json")))
    with torch.device("meta"):  # names only, no memory for the weights
        encoder = model_class(config).base_model
    # from tensors and not from the folder: `transformers` would not know the names of wrappers
    model, loading_info = model_class.from_pretrained(
        None,
        config=config,
        state_dict=read_weights(folder, encoder),
        dtype=torch.float32,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
    )
    refuse_mismatched(folder, loading_info)
    refuse_unexpected(folder, encoder, loading_info)
    # `transformers` was given no folder, and errors name a model by it
    model.name_or_path = config.name_or_path = str(folder)
    return model, loading_info


def refuse_mismatched(folder: Path, loading_info: dict[str, Any]) -> None:
    """Raise UserError where weights have other sizes than the config gives them. `transformers` lists them when it is
    told to go on, since its own error does not."""
    for name, stored, expected in sorted(loading_info["mismatched_keys"]):
        raise UserError(
            f"{folder}: {name} is {list(stored)} in its weights and {list(expected)} by its config.json (of labels, "
            "id2label names each once); correct config.json, or copy the checkpoint again"
        )


def refuse_unexpected(folder: Path, encoder: Any, loading_info: dict[str, Any]) -> None:
    """Raise UserError where the weights in `folder` have parts of the encoder that its class does not have by its
    config, such as more layers or the scales of quantized ones, and that `transformers` leaves out. Other heads, and
    what the encoder computes itself, may be there."""
    parts, prefix = {name for name, _ in encoder.named_children()}, f"{encoder.base_model_prefix}."
    names = [name.removeprefix(prefix) for name in sorted(loading_info["unexpected_keys"])]
    if lost := [name for name in names if name.partition(".")[0] in parts and not UNUSED.search(name)]:
        raise UserError(
            f"{folder}: {len(lost)} of its weights, such as {lost[0]}, are none of a {type(encoder).__name__} by its "
            "config.json, and would be left out; correct config.json (its number of layers, say), or give a checkpoint "
            "that is not quantized"
        )


def _read_file(path: Path) -> "dict[str, Tensor]":
    """The tensors of one file. A pickled training state has them below one of its keys."""
    import torch
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        if tensors := _tensors_of(state):
            return tensors
        # {"epoch": 3, "state_dict": {...}, "optimizer_states": [...]}
        items = state.items() if isinstance(state, Mapping) else ()
        inner = {str(key): tensors for key, value in items if (tensors := _tensors_of(value))}
        if len(inner) != 1:
            raise ValueError(f"tensors by their names are under {', '.join(inner)[:80] or 'none'} of its keys")
        return next(iter(inner.values()))
    except Exception as error:  # pickle's, zipfile's, safetensors' and torch's own errors
        reason = " ".join(str(error).split()) or type(error).__name__
        if other := UNSAFE.search(reason):  # torch's own text advises to trust the file
            reason = f"it holds a {other[1]}"
        if path.suffix == ".safetensors":
            raise UserError(f"{path}: its weights are damaged ({reason:.200}); copy the checkpoint again") from None
        raise UserError(
            f"{path} does not hold weights alone, or is damaged ({reason:.200}); only tensors are read, so give a "
            f"checkpoint with {WEIGHTS}, or save the model's state_dict() alone as {PICKLED_WEIGHTS}"
        ) from None


def _tensors_of(state: Any) -> "dict[str, Tensor]":
    import torch

    items = state.items() if isinstance(state, Mapping) else ()
    return {name: value for name, value in items if isinstance(name, str) and isinstance(value, torch.Tensor)}


def canonical_name(name: str) -> str:
    """PyTorch's name of a tensor: ...LayerNorm.gamma -> ...LayerNorm.weight."""
    return NORMALIZATION.sub(lambda match: match[1] + TENSORFLOW_NAMES[match[2].lower()], COMPILED.sub("", name))


def wrapper_prefix(names: Collection[str], encoder: Any) -> str:
    """What is before the names of a model in `names`: "module." in module.bert.embeddings...; "" for nothing, and where
    several parts have the names of the encoder."""
    # the longest name belongs to a weight deep inside, and nothing else has it
    longest = max(encoder.state_dict(), key=len, default="")
    places = [name.removesuffix(longest) for name in names if f".{name}".endswith(f".{longest}")]
    # the "bert." before a name stays: from_pretrained reads names with and without it
    return places[0].removesuffix(f"{encoder.base_model_prefix}.") if len(places) == 1 else ""
