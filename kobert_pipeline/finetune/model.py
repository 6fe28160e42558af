"""The model with a task's head: loss, logits and the best weights so far. The torch side of fine-tuning."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.batching import by_length, padded
from kobert_pipeline.finetune.feature_based import CONFIG, FeatureBasedTagger
from kobert_pipeline.finetune.first_piece import shorten

if TYPE_CHECKING:
    from kobert_pipeline.finetune.plan import FinetunePlan


class TaskModule(torch.nn.Module):
    """`forward(batch)` is the loss that the `transformers` model computes itself, times the batch's `share` of its step."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(loss, nothing more to log)."""
        inputs = {name: tensor for name, tensor in batch.items() if name != "share"}
        return self.model(**taken(self.model, inputs)).loss * batch.get("share", 1), {}


SHORT = 128
"""Windows up to this many pieces are attended faster by plain products than by the fused kernel, in bf16 on CPU."""


DROPOUTS = (
    "hidden_dropout_prob", "classifier_dropout_prob", "embedding_dropout", "mlp_dropout", "embd_pdrop", "resid_pdrop",
    "summary_last_dropout",
)  # fmt: skip
"""What configs call the dropout of hidden states, and of the last ones before a head."""


def taken(model: Any, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What of a batch the model takes: one that tells no segments apart gets no `token_type_ids`."""
    if getattr(model.config, "type_vocab_size", 1) > 1:
        return batch
    return {name: tensor for name, tensor in batch.items() if name != "token_type_ids"}


def build(task: Task, pretrained: Path, from_scratch: bool, plan: "FinetunePlan", max_length: int, frozen: bool = False) -> Any:
    """The encoder of `pretrained` (or its architecture with random weights) with the task's head, or `frozen` in a `FeatureBasedTagger`."""
    import transformers

    auto = transformers.AutoModel if frozen else getattr(transformers, task.auto_class)
    config = transformers.AutoConfig.from_pretrained(pretrained, **task.config())
    # predictions use windows of the same length, and ask for as many texts
    config.task_specific_params = {task.name: {"max_length": max_length} | task.noted()}
    # fine-tuning sees every example several times; attention dropout would rule out the fast kernels on CPU
    for name in DROPOUTS:
        if hasattr(config, name):
            setattr(config, name, plan.dropout)
    config.classifier_dropout = plan.dropout  # GPT-2's token classifier reads it, and takes 0.1 where the config knows no such field
    model = auto.from_config(config) if from_scratch else auto.from_pretrained(pretrained, config=config)
    if plan.mixed_precision == "bf16" and max_length <= SHORT and not torch.cuda.is_available():
        model.set_attn_implementation("eager")
    if frozen:
        return FeatureBasedTagger(model, plan.dropout)
    shorten(model)
    return model


def load(task: Task, folder: Path) -> Any:
    """The model that `save_pretrained` left in `folder`."""
    import transformers

    if (folder / CONFIG).is_file():
        return FeatureBasedTagger.from_pretrained(folder)
    return getattr(transformers, task.auto_class).from_pretrained(folder)


@torch.no_grad()
def logits(model: Any, features: Features, batch_size: int, device: torch.device | str) -> dict[str, list[np.ndarray]]:
    """Each output of the model as one array per row (a window, or one example's choices); outputs per piece are as long as the window's
    batch, so padding follows them.

    In full precision, whatever the training's: dev chooses and the test set is scored by the numbers that whoever loads the model gets."""
    model.eval()
    found: dict[str, dict[int, np.ndarray]] = {}
    for rows in by_length(features, batch_size):
        with torch.autocast(torch.device(device).type, enabled=False):
            outputs = model(**taken(model, padded(features, rows, device)))
        tensors = {name: value for name, value in outputs.items() if isinstance(value, torch.Tensor)}  # GPT-2 hands its cache over, too
        for name, value in tensors.items():
            array = value.float().cpu().numpy()
            for row, values in zip(rows, array, strict=True):
                found.setdefault(name, {})[int(row)] = values
    return {name: [rows[i] for i in range(len(features))] for name, rows in found.items()}


def measure(
    model: Any, task: Task, features: Features, batch_size: int, device: torch.device | str, settle: bool = False
) -> tuple[list[Any], dict[str, float]]:
    """Predictions and scores of one split. With `settle` (the dev set) the task settles what it has to first, and the model's config notes
    it, so that it is saved with the weights; any other split is predicted by what stands there."""
    found = logits(model, features, batch_size, device)
    noted = (getattr(model.config, "task_specific_params", None) or {}).get(task.name, {})
    if settle:
        noted |= task.settled(found, features).noted()
    task = task.recalled(noted)
    predictions = task.predict(found, features)
    return predictions, task.score(predictions, features.examples)
