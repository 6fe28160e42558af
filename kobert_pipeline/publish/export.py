"""Model and tokenizer -> one consistent folder."""

import shutil
from pathlib import Path

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

PLAIN = "plain"
"""Folder of the tokenizer that needs no analyzer, in the tokenizer's folder and in the published one."""


def export(model: Path, tokenizer: Path, out: Path) -> None:
    """Write config, weights, tokenizer and its code to `out`. Raises UserError when model and tokenizer do not belong together."""
    config = read_json(model / "config.json")
    loaded = MorphemeTokenizer.from_pretrained(tokenizer)
    agree(config, loaded)
    loaded.model_max_length = config["max_position_embeddings"]
    loaded.save_pretrained(out)
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(model / name, out / name)


def export_plain(model: Path, tokenizer: Path, out: Path) -> None:
    """Write the tokenizer that needs no analyzer to `out/plain`."""
    config = read_json(tokenizer / PLAIN / "tokenizer_config.json")
    config["model_max_length"] = read_json(model / "config.json")["max_position_embeddings"]
    (out / PLAIN).mkdir(exist_ok=True)
    shutil.copyfile(tokenizer / PLAIN / "tokenizer.json", out / PLAIN / "tokenizer.json")
    write_json(out / PLAIN / "tokenizer_config.json", config)


def agree(config: dict[str, int], tokenizer: MorphemeTokenizer) -> None:
    """Raise UserError unless vocabulary, padding and segments of config and tokenizer agree."""
    pairs = {
        "vocab_size": (config["vocab_size"], len(tokenizer)),
        "pad_token_id": (config["pad_token_id"], tokenizer.pad_token_id),
    }
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            raise UserError(f"publish: {name} is {ours} in the model's config and {theirs} in the tokenizer; they are not of one run")
    if config.get("type_vocab_size", 2) < 2:
        raise UserError("publish: the model has one token type, but the tokenizer numbers two segments")
