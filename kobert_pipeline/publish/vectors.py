"""The files by which `sentence-transformers` loads a pretrained encoder: its states, averaged over the tokens that are
no padding."""

from pathlib import Path
from typing import Any

from kobert_pipeline.files import read_json, write_json

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
"""Under the names that every version since 2.0 knows."""


def write_vector_files(out: Path) -> None:
    """Write `modules.json`, `1_Pooling/config.json`, `config_sentence_transformers.json` and
    `sentence_bert_config.json`."""
    config = read_json(out / "config.json")
    longest = read_json(out / "tokenizer_config.json")["model_max_length"]
    (out / "1_Pooling").mkdir(exist_ok=True)
    files: dict[str, Any] = {
        "modules.json": MODULES,
        "1_Pooling/config.json": {"word_embedding_dimension": config["hidden_size"], "pooling_mode_mean_tokens": True},
        "config_sentence_transformers.json": {
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False},
    }
    for name, content in files.items():
        write_json(out / name, content)
