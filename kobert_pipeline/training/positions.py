"""How much a model takes at once, by its config: architectures say it under different names."""

from typing import Any


def longest(config: dict[str, Any]) -> int:
    """The pieces that a model takes at most. RoBERTa's positions begin behind that of its padding."""
    positions = int(config["n_positions"] if "n_positions" in config else config["max_position_embeddings"])
    return positions - config["pad_token_id"] - 1 if config["model_type"] == "roberta" else positions
