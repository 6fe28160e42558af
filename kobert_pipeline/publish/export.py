"""Model and tokenizer -> one consistent folder."""

import shutil
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

PLAIN = "plain"
"""Folder of the tokenizer that needs no analyzer, in the tokenizer's folder and in the published one."""


def export(model: Path, tokenizer: Path, out: Path) -> None:
    """Write config, weights, tokenizer and its code to `out`. Raises UserError when model and tokenizer do not belong together."""
    config = read_json(model / "config.json")
    names = [name for name in MorphemeTokenizer.model_input_names if name != "token_type_ids" or segments(config)]
    loaded = MorphemeTokenizer.from_pretrained(tokenizer, model_input_names=names)
    agree(config, loaded)
    loaded.model_max_length = longest(config)
    loaded.save_pretrained(out)
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(model / name, out / name)


def export_plain(model: Path, tokenizer: Path, out: Path) -> None:
    """Write the tokenizer that needs no analyzer to `out/plain`."""
    config = read_json(tokenizer / PLAIN / "tokenizer_config.json")
    config["model_max_length"] = longest(read_json(model / "config.json"))
    (out / PLAIN).mkdir(exist_ok=True)
    shutil.copyfile(tokenizer / PLAIN / "tokenizer.json", out / PLAIN / "tokenizer.json")
    write_json(out / PLAIN / "tokenizer_config.json", config)


def segments(config: dict[str, Any]) -> bool:
    """Whether the model tells two segments apart, so that the tokenizer must number them."""
    return int(config.get("type_vocab_size", 1)) > 1


def longest(config: dict[str, Any]) -> int:
    """The pieces that a model takes at most. RoBERTa's positions begin behind that of its padding."""
    positions = int(config["n_positions"] if "n_positions" in config else config["max_position_embeddings"])
    return positions - config["pad_token_id"] - 1 if config["model_type"] == "roberta" else positions


def agree(config: dict[str, Any], tokenizer: MorphemeTokenizer) -> None:
    """Raise UserError unless vocabulary and padding of config and tokenizer agree."""
    pairs = {
        "vocab_size": (config["vocab_size"], len(tokenizer)),
        "pad_token_id": (config["pad_token_id"], tokenizer.pad_token_id),
    }
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            raise UserError(f"publish: {name} is {ours} in the model's config and {theirs} in the tokenizer; they are not of one run")
