"""The model with a task's head: its loss, and the one way from features to predictions. The torch side of fine-tuning.

Dev and test of a fine-tuning, `kobert predict` and `kobert evaluate` all call `predict`, with the same batches for the
same features, so one text has one answer. It needs no analyzer and no text.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune.batching import by_length, padded
from kobert_pipeline.finetune.feature_based import CONFIG, FeatureBasedTagger
from kobert_pipeline.finetune.first_token import shorten
from kobert_pipeline.training.hf_config import fine_tuned_for, model_class

if TYPE_CHECKING:
    from kobert_pipeline.finetune.plan import FinetunePlan


class TaskModule(torch.nn.Module):
    """`forward(batch)` is the loss that the `transformers` model computes itself, times the batch's `share` of its
    step."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(loss, nothing more to log)."""
        inputs = {name: tensor for name, tensor in batch.items() if name != "share"}
        return self.model(**drop_unsupported_inputs(self.model, inputs)).loss * batch.get("share", 1), {}


BATCH = 64
"""Rows predicted at once. One number for all: other batches would round otherwise, and a close decision could fall
otherwise."""
SHORT = 128
"""Windows up to this many tokens are attended faster by plain products than by the fused kernel, in bf16 on CPU."""


DROPOUTS = (
    "hidden_dropout_prob", "classifier_dropout_prob", "embedding_dropout", "mlp_dropout", "embd_pdrop", "resid_pdrop",
    "summary_last_dropout",
)  # fmt: skip
"""What configs call the dropout of hidden states, and of the last ones before a head."""


def drop_unsupported_inputs(model: Any, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What of a batch the model takes: a model without segments gets no `token_type_ids`."""
    if getattr(model.config, "type_vocab_size", 1) > 1:
        return batch
    return {name: tensor for name, tensor in batch.items() if name != "token_type_ids"}


def build(
    task: Task, pretrained: Path, from_scratch: bool, plan: "FinetunePlan", max_length: int, frozen: bool = False
) -> Any:
    """The encoder of `pretrained` (or its architecture with random weights) with the task's head, or `frozen` in a
    `FeatureBasedTagger`."""
    import transformers

    auto = transformers.AutoModel if frozen else getattr(transformers, task.auto_class)
    config = transformers.AutoConfig.from_pretrained(pretrained, trust_remote_code=False, **task.config())
    # predictions use windows of the same length, and ask for as many texts
    config.task_specific_params = {task.name: {"max_length": max_length} | task.inference_state()}
    # fine-tuning sees every example several times; attention dropout would rule out the fast kernels on CPU
    for name in DROPOUTS:
        if hasattr(config, name):
            setattr(config, name, plan.dropout)
    config.classifier_dropout = (
        plan.dropout
    )  # GPT-2's token classifier reads it, and takes 0.1 where the config knows no such field
    model = auto.from_config(config) if from_scratch else auto.from_pretrained(pretrained, config=config)
    if plan.mixed_precision == "bf16" and max_length <= SHORT and not torch.cuda.is_available():
        model.set_attn_implementation("eager")
    if frozen:
        return FeatureBasedTagger(model, plan.dropout)
    shorten(model)
    return model


def load(folder: Path) -> Any:
    """The model that is saved in `folder`, with its own head, in evaluation mode and full precision. Raises UserError
    where the folder names no model class of `transformers`, or lacks weights of it: they would be random."""
    if (folder / CONFIG).is_file():
        return FeatureBasedTagger.from_pretrained(folder).eval()
    found = model_class(read_json(folder / "config.json"), folder / "config.json")
    model, loading = found.from_pretrained(
        folder, trust_remote_code=False, use_safetensors=True, dtype=torch.float32, output_loading_info=True
    )
    if missing := sorted(loading["missing_keys"]):
        raise UserError(
            f"{folder / 'model.safetensors'} lacks weights of a {found.__name__}: {', '.join(missing[:3])}; copy it "
            "again"
        )
    return model.eval()


@torch.no_grad()
def logits(model: Any, features: Features, batch_size: int, device: torch.device | str) -> dict[str, list[np.ndarray]]:
    """Each output of the model as one array per row (a window, or one example's choices); outputs per token are as long
    as the window.

    In full precision, whatever the training's: dev chooses and the test set is scored by the numbers that whoever loads
    the model gets."""
    model.eval()
    found: dict[str, dict[int, np.ndarray]] = {}
    for rows in by_length(features, batch_size):
        with torch.autocast(torch.device(device).type, enabled=False):
            outputs = model(**drop_unsupported_inputs(model, padded(features, rows, device)))
        tensors = {
            name: value for name, value in outputs.items() if isinstance(value, torch.Tensor)
        }  # GPT-2 hands its cache over, too
        for name, value in tensors.items():
            array = value.float().cpu().numpy()
            per_token = name.endswith("_logits") or (
                name == "logits" and array.ndim == 3
            )  # (n, L) of spans, (n, L, C) of tags
            for row, values in zip(rows, array, strict=True):
                found.setdefault(name, {})[int(row)] = values[: features.lengths[row]] if per_token else values
    return {name: [rows[i] for i in range(len(features))] for name, rows in found.items()}


@dataclass(frozen=True)
class Predicted:
    """What a model makes of features: its `logits`, and a prediction of the task per example."""

    task: Task
    features: Features
    logits: dict[str, list[np.ndarray]]
    predictions: list[Any]

    @cached_property
    def scores(self) -> dict[str, float]:
        """Of the predictions against the examples, in percent."""
        return self.task.score(self.predictions, self.features.examples)

    @cached_property
    def spans(self) -> dict[int, tuple[int, int]]:
        """Of a task that answers by spans: (start, end) in the context's characters of each answer that is given, by
        example."""
        found = self.task.answer_spans(self.logits, self.features) if isinstance(self.task, SpanTask) else {}
        return {number: (start, end) for number, (_, start, end) in found.items()}


def predict(
    model: Any,
    task: Task,
    features: Features,
    device: torch.device | str,
    calibrate: bool = False,
    batch_size: int = BATCH,
) -> Predicted:
    """What `model`, fine-tuned for `task`, predicts from features. With `calibrate` (the dev set) the task is
    calibrated first, and its state saved in the model's config with the weights. Raises UserError where the model gives
    no numbers."""
    found = logits(model, features, batch_size, device)
    refuse_not_finite(model, found)
    if calibrate:
        task = task.calibrate(found, features)
        _, state = fine_tuned_for(model.config.to_dict())
        other = {name: value for name, value in state.items() if name not in task.inference_options}
        model.config.task_specific_params = {task.name: other | task.inference_state()}
    return Predicted(task, features, found, task.predict(found, features))


def refuse_not_finite(model: Any, found: dict[str, list[np.ndarray]]) -> None:
    """Raise UserError where a logit is NaN or infinite: what would follow from it is no prediction."""
    if not all(np.isfinite(row).all() for rows in found.values() for row in rows):
        whose = getattr(model, "name_or_path", "") or "the model"
        raise UserError(
            f"{whose} gives scores that are not finite (NaN or infinite): its weights are damaged; copy or train it "
            "again"
        )
