"""The stage checkpoint: copy an existing model and its tokenizer into the run, weights as float32 safetensors.

A recipe with `checkpoint` has this stage in place of those from corpus to pretrain. The copy makes the run independent
of the Hub and of the user's folder, and its manifest records every file's SHA-256. What other tools write in several
ways has one form in it, so that no later stage has to know them: the weights' type and names, the config's model type.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kobert_pipeline.checkpoint.source import (
    CONFIG,
    TOKENIZER_FILES,
    base_model_of,
    checkpoint_files,
    commit_of,
    load_checkpoint_tokenizer,
    load_errors,
    local_folder,
    locate,
    parse_hub_name,
)
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, sha256, write_json
from kobert_pipeline.morphemes import tokenizer_files
from kobert_pipeline.progress import report
from kobert_pipeline.tokenizer.loading import backend_in, is_morpheme_tokenizer
from kobert_pipeline.tokenizer.plain import PLAIN, PLAIN_FILES, save_plain
from kobert_pipeline.training.hf_config import DEFAULT_LABELS, output_names, with_label_keys, with_model_type
from kobert_pipeline.training.weight_files import WEIGHTS, read_weights, refuse_mismatched, refuse_unexpected

VERSION = 2
MODEL, TOKENIZER = "model", "tokenizer"
WRITES = (
    f"{MODEL}/{CONFIG}", f"{MODEL}/{WEIGHTS}",
    *(f"{TOKENIZER}/{name}" for name in dict.fromkeys((*TOKENIZER_FILES, *tokenizer_files(), *PLAIN_FILES))),
)  # fmt: skip
"""Patterns of every file that the stage writes to its folder."""
WITH_LABELS = ("ForSequenceClassification", "ForTokenClassification")
"""Suffixes of models whose outputs are labels."""
SPARE = ("pooler.",)
"""Weights that a checkpoint may lack: heads that do not use them are fine, and the others train them from scratch."""


def raw_files(name: str) -> list[Path]:
    """The user's files that the stage reads, none for a name on the Hub. Raises UserError for a folder that is not a
    checkpoint, and for a name that is neither."""
    if folder := local_folder(name):
        return checkpoint_files(folder)
    parse_hub_name(name)
    return []


def run(name: str, out: Path, labels: Mapping[str, int] = MappingProxyType({})) -> dict[str, Any]:
    """Write `model/` and `tokenizer/` to `out`, with these `labels` of the head's outputs. Returns the counts for the
    manifest: the commit and the base model on the Hub, the SHA-256 of each original file, and the sizes. Raises
    UserError for a checkpoint that does not load."""
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    report("fetching")
    folder = locate(name)
    report("converting")
    files = checkpoint_files(folder)
    for part in (MODEL, TOKENIZER):
        (out / part).mkdir(parents=True, exist_ok=True)
    config = with_label_names(canonical_config(folder / CONFIG), labels, folder)
    # first, since the weights are read and counted by the config that is there
    write_json(out / MODEL / CONFIG, config)
    with load_errors(folder, "checkpoint: ", "give another checkpoint"):
        write_weights(folder, out / MODEL)
        tokenizer = load_checkpoint_tokenizer(folder)
        parameters = count_parameters(out / MODEL, folder)
    rows = config.get("vocab_size")
    if not isinstance(rows, int) or len(tokenizer) > rows:
        raise UserError(
            f"checkpoint: {folder} has a tokenizer of {len(tokenizer)} tokens and a model of {rows}; they do not "
            "belong together"
        )
    save_tokenizer(tokenizer, out / TOKENIZER)
    digests = {path.name: sha256(path) for path in files}
    counts = {"source": name, "files_sha256": digests, "vocab_size": len(tokenizer), "parameters": parameters}
    known = {"commit": commit_of(name, folder), "base_model": base_model_of(name, folder)}
    return counts | {key: value for key, value in known.items() if value}


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer to `folder`; one of this package also in its form without the analyzer."""
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():
        if f"{TOKENIZER}/{path.name}" not in WRITES:
            path.unlink()  # a template for chats, and the like: no part of a tokenizer of this package
    if is_morpheme_tokenizer(tokenizer):
        # from its file: the backend of the loaded one calls the analyzer, which cannot be saved
        save_plain(backend_in(folder), folder / PLAIN)


def canonical_config(path: Path) -> dict[str, Any]:
    """The config in a file, with its model type, for weights in float32. Raises UserError where it is none."""
    config = with_label_keys(with_model_type(read_json(path), path))
    # the name of `dtype` before transformers 5
    return {key: value for key, value in config.items() if key != "torch_dtype"} | {"dtype": "float32"}


def with_label_names(config: dict[str, Any], labels: Mapping[str, int], folder: Path) -> dict[str, Any]:
    """A config with these labels of its head's outputs. Raises UserError for a head that gives no labels, and for
    outputs that it does not have."""
    if not labels:
        return config
    head = str((config.get("architectures") or [None])[0])
    if not head.endswith(WITH_LABELS):
        raise UserError(f"checkpoint_labels: {folder} is a {head}, whose head gives no labels; leave it out")
    names = output_names(config.get("id2label") or DEFAULT_LABELS, labels)
    id2label = {str(index): name for index, name in enumerate(names)}
    return config | {"id2label": id2label, "label2id": {name: index for index, name in enumerate(names)}}


def write_weights(folder: Path, model: Path) -> None:
    """Write the weights in `folder`, as `read_weights` gives them, to the folder `model`, which has their config."""
    import torch
    import transformers
    from safetensors.torch import save_file

    with torch.device("meta"):  # names only, no memory for the weights
        encoder = transformers.AutoModel.from_config(
            transformers.AutoConfig.from_pretrained(model, trust_remote_code=False)
        )
    # memory of its own for each tensor: safetensors refuses tensors that share it, as tied ones do
    tensors = {name: tensor.contiguous().clone() for name, tensor in read_weights(folder, encoder).items()}
    save_file(tensors, model / WEIGHTS, {"format": "pt"})


def count_parameters(model: Path, source: Path) -> int:
    """The number of parameters of the encoder that was written to `model` from the folder `source`. Raises UserError
    where weights are missing, which `transformers` would fill with random numbers, or do not fit the config."""
    import transformers

    loaded, info = transformers.AutoModel.from_pretrained(
        model, trust_remote_code=False, use_safetensors=True, output_loading_info=True, ignore_mismatched_sizes=True
    )
    refuse_mismatched(source, info)
    refuse_unexpected(source, loaded, info)
    if missing := sorted(key for key in info["missing_keys"] if not key.startswith(SPARE)):
        raise UserError(
            f"checkpoint: the weights lack {len(missing)} tensors of a {type(loaded).__name__}, such as {missing[0]}; "
            "give the checkpoint that belongs to this config"
        )
    return int(sum(parameter.numel() for parameter in loaded.parameters()))
