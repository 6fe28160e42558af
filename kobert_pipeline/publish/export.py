"""Model and tokenizer -> one consistent folder."""

import shutil
from pathlib import Path

from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.publish.consistency import refuse_disagreement, segments
from kobert_pipeline.training.hf_config import inference_length

PLAIN = "plain"
"""Folder of the tokenizer that needs no analyzer, in the tokenizer's folder and in the published one."""


def export(model: Path, tokenizer: Path, out: Path) -> None:
    """Write config, weights, tokenizer and its code to `out`. The tokenizer cuts where fine-tuning did, so that
    every way of using the folder reads as much of a text. Raises UserError when model and tokenizer do not belong
    together."""
    config = read_json(model / "config.json")
    names = [name for name in MorphemeTokenizer.model_input_names if name != "token_type_ids" or segments(config) > 1]
    loaded = MorphemeTokenizer.from_pretrained(tokenizer, model_input_names=names)
    refuse_disagreement(model, loaded)
    loaded.model_max_length = inference_length(config)
    loaded.save_pretrained(out)
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(model / name, out / name)


def export_plain(model: Path, tokenizer: Path, out: Path) -> None:
    """Write the tokenizer that needs no analyzer to `out/plain`."""
    config = read_json(tokenizer / PLAIN / "tokenizer_config.json")
    config["model_max_length"] = inference_length(read_json(model / "config.json"))
    (out / PLAIN).mkdir(exist_ok=True)
    shutil.copyfile(tokenizer / PLAIN / "tokenizer.json", out / PLAIN / "tokenizer.json")
    write_json(out / PLAIN / "tokenizer_config.json", config)
