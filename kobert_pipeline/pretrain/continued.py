"""Continued pretraining: an existing checkpoint learns from a corpus that its own tokenizer has cut. Its config gives
the architecture, and all its weights are taken over."""

from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError
from kobert_pipeline.pretrain.architecture import Architecture, switch_off_dropout
from kobert_pipeline.pretrain.objective import Objective
from kobert_pipeline.training.hf_config import DEFAULT_LABELS, max_input_length

AUTO_CLASSES = {"masked": "AutoModelForMaskedLM", "pretraining": "AutoModelForPreTraining"}
"""{what an objective needs: the Auto class of `transformers`}."""


def refuse_unfit(objective: Objective, max_length: int, config: dict[str, Any], checkpoint: str) -> None:
    """Raise UserError unless a model with this config can be pretrained so, on sequences of up to `max_length`."""
    kind = config["model_type"]
    heads = Architecture.variant(Architecture.name_of(kind, checkpoint)).heads
    if objective.head not in heads:
        advice = "set pretrain.objective to mlm" if "masked" in heads else "give another checkpoint"
        raise UserError(
            f"pretrain.objective is {objective.name}, for which {checkpoint} (of the type {kind}) has no head; "
            f"{advice}, or set pretrain.total_tokens to 0 where the corpus is only to make examples from"
        )
    positions = max_input_length(config)
    if max_length > positions:
        raise UserError(
            f"pretrain.max_length is {max_length}, but {checkpoint} has {positions} positions; lower max_length"
        )


def load(objective: Objective, max_length: int, folder: Path) -> tuple[Architecture, Any, dict[str, Any]]:
    """The architecture of the checkpoint in `folder`, its model with the objective's head, and the number of weights
    that it lacks and that start at random, such as a head's. Raises UserError as `refuse_unfit` does."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    forget_task(config)
    values = config.to_dict()
    refuse_unfit(objective, max_length, values, "the checkpoint")
    dropouts = switch_off_dropout(config)
    auto = getattr(transformers, AUTO_CLASSES[objective.head])
    # float32, whatever the file has, because trained weights and optimizer states are always fp32
    model, info = auto.from_pretrained(
        folder, config=config, dtype=torch.float32, use_safetensors=True, trust_remote_code=False,
        output_loading_info=True,
    )  # fmt: skip
    # only the training goes without dropout: the saved config has the checkpoint's, for fine-tuning
    model.config.update(dropouts)
    architecture = Architecture.of_model(config, "the checkpoint")
    return architecture, model, {"weights_started_at_random": len(info["missing_keys"])}


def forget_task(config: Any) -> None:
    """Take from a config what belongs to the head of an earlier fine-tuning, which another one replaces."""
    config.task_specific_params = config.problem_type = None
    config.id2label, config.label2id = dict(DEFAULT_LABELS), {label: index for index, label in DEFAULT_LABELS.items()}
