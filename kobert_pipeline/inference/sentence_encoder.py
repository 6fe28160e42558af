"""How a sentence encoder makes its vectors: as fine-tuning here stored it, or as the files say by which
`sentence-transformers` loads it."""

from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune.inference_state import fine_tuned_for, trained_pooling
from kobert_pipeline.tokenizer.tokenizers_only import length_limit

MODULES, SETTINGS = "modules.json", "config_sentence_transformers.json"
LEGACY = {
    "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}  # fmt: skip
"""{the key that versions before 6 of sentence-transformers write: its name of the pooling}"""
LENGTH_FILES = "sentence_*_config.json"
"""The file with the length at which it truncates, named after a type of models in old versions."""
SAME = ("cls", "mean", "max")
"""Its poolings that are ours of that name."""


def stored_pooling(config: dict[str, Any], folder: Path | None) -> str:
    """The pooling that the model in a folder was trained with, `mean` for one that names none. Raises UserError where
    `sentence-transformers` makes its vectors in another way than by one of the poolings `SAME`."""
    if folder is None or not (folder / MODULES).is_file() or "pooling" in fine_tuned_for(config)[1]:
        return trained_pooling(config)
    modules = read_json(folder / MODULES)
    try:
        types = [module["type"].rpartition(".")[2] for module in modules]
        # Normalize changes lengths alone, and what is compared are directions
        other = ", ".join(name for name in types if name not in ("Transformer", "Pooling", "Normalize"))
        mode = "" if other else _mode(read_json(folder / modules[types.index("Pooling")]["path"] / "config.json"))
        settings = read_json(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
        prompt = (settings.get("prompts") or {}).get(settings.get("default_prompt_name"))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"{folder / MODULES} does not list the modules of a sentence encoder; copy it again") from None
    if mode in SAME and not prompt:
        return mode
    reason = other or (f"the prompt {prompt!r:.40}" if mode in SAME else f"the pooling {mode}")
    raise UserError(
        f"{folder}: sentence-transformers makes its vectors with {reason}, which is not done here; embed with "
        f"sentence-transformers, or choose another pooling (--pooling {', '.join(SAME)})"
    )


def sentence_length(folder: Path) -> int:
    """The number of tokens at which `sentence-transformers` truncates texts for the encoder in a folder."""
    is_encoder = (folder / MODULES).is_file()
    settings = [read_json(path) for path in folder.glob(LENGTH_FILES)] if is_encoder else []
    return length_limit(settings[0].get("max_seq_length") if settings and isinstance(settings[0], dict) else None)


def _mode(config: dict[str, Any]) -> str:
    """The pooling in the config of the module `Pooling`; several are joined by +."""
    modes = config.get("pooling_mode") or [name for key, name in LEGACY.items() if config.get(key)] or "mean"
    return modes if isinstance(modes, str) else "+".join(modes)
