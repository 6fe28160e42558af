"""What fine-tuning stored for inference in the config of a model: its task, and how it reads texts."""

import re
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Task
from kobert_pipeline.training.hf_config import max_input_length

HEAD = re.compile(r"For[A-Z]\w+|LMHeadModel|Model$")
"""What the name of a model class of `transformers` says of its head."""


def fine_tuned_for(config: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The task that a model was fine-tuned on, and its state for inference: `max_length` in training, and what the
    task's `inference_state` returned. (None, {}) for a model that this package did not fine-tune, or whose head was
    replaced since."""
    params = config.get("task_specific_params")
    for name, state in params.items() if isinstance(params, dict) else ():
        # other packages store options of their own there, as GPT-2 those of generation
        if name in Task.names() and has_head_for(Task.variant(name), config):
            return name, state if isinstance(state, dict) else {}
    return None, {}


def has_head_for(task: type[Task], config: dict[str, Any]) -> bool:
    """Whether the class that a config names has the head of a task, as far as its name says so. `transformers` keeps
    what is stored for a task where a model is loaded with another head."""
    architectures = config.get("architectures")
    head = HEAD.search(str(architectures[0])) if isinstance(architectures, list) and architectures else None
    return head is None or head[0] == (task.auto_class.removeprefix("AutoModel") or "Model")


def added_tokens(config: dict[str, Any]) -> list[str]:
    """The tokens that fine-tuning added to the tokenizer, such as markers around entities."""
    tokens = fine_tuned_for(config)[1].get("added_tokens")
    return [token for token in tokens if isinstance(token, str)] if isinstance(tokens, list) else []


def inference_length(config: dict[str, Any]) -> int:
    """The number of tokens at which texts are truncated (or split into windows) for a model: the `max_length` of its
    fine-tuning, or else all that it takes."""
    length = fine_tuned_for(config)[1].get("max_length", max_input_length(config))
    if not isinstance(length, int) or length < 1:
        raise UserError(
            f"the config of a model gives {length!r:.40} as max_length of its fine-tuning; a positive number of tokens "
            "was expected"
        )
    return min(max_input_length(config), length)


def trained_pooling(config: dict[str, Any]) -> str:
    """The pooling that a sentence encoder was trained with, `mean` for other models."""
    return str(fine_tuned_for(config)[1].get("pooling", "mean"))
