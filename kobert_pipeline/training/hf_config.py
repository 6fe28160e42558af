"""What the config of a `transformers` model says of it: its class, how many tokens it takes, and what fine-tuning keeps
there for inference."""

from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError


def max_input_length(config: dict[str, Any]) -> int:
    """The tokens that a model takes at most. RoBERTa's positions begin after that of its padding."""
    positions = config.get("n_positions", config.get("max_position_embeddings"))
    if not isinstance(positions, int):
        raise UserError(
            f"the config of a {config.get('model_type')} model names no max_position_embeddings, so no text can be cut "
            "to fit"
        )
    return positions - config["pad_token_id"] - 1 if config["model_type"] == "roberta" else positions


def fine_tuned_for(config: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The task that a model was fine-tuned on, and the state that predicting with it needs: `max_length` in training,
    and what the task's `inference_state` gave. (None, {}) for a model that was not, or not by this package."""
    params = config.get("task_specific_params")
    for name, state in params.items() if isinstance(params, dict) else ():
        return name, state if isinstance(state, dict) else {}
    return None, {}


def inference_length(config: dict[str, Any]) -> int:
    """The tokens at which texts are cut (or divided into windows) when a model is used: those of fine-tuning, else all
    that it takes."""
    length = fine_tuned_for(config)[1].get("max_length", max_input_length(config))
    if not isinstance(length, int) or length < 1:
        raise UserError(
            f"the config of a model names max_length {length!r:.40} as that of its fine-tuning; a number of tokens was "
            "expected"
        )
    return min(max_input_length(config), length)


def model_class(config: Any, path: Path) -> Any:
    """The `transformers` class that a config, read from `path`, names. Raises UserError for any other name: an Auto
    class would look for code in the folder, and functions and trainers are no models."""
    import transformers

    if not isinstance(config, dict):
        raise UserError(f"{path} is not the config of a model: a JSON object was expected, not {type(config).__name__}")
    named = config.get("architectures")
    name = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    found: Any = getattr(transformers, name, None) if name.isidentifier() else None
    # a family's classes have its config class, the class above all of them has none, and Auto classes are no models
    if not (
        isinstance(found, type) and issubclass(found, transformers.PreTrainedModel) and found.config_class is not None
    ):
        raise UserError(
            f"{path}: architectures is {named!r:.80}; the name of one model class of transformers was expected, such "
            "as "
            f"['BertForSequenceClassification'] (code from a model's folder is never run)"
        )
    if found.config_class.model_type != config.get("model_type"):
        raise UserError(
            f"{path}: architectures is {named!r:.80} and model_type {config.get('model_type')!r:.40}, which is not of "
            "that class; "
            f"{found.config_class.model_type!r} was expected"
        )
    return found
