"""The model with a task's head: building and loading it, its loss, and the one path from features to predictions.

Evaluations on dev and test, `kobert predict` and `kobert evaluate` all call `predict` with the batch size of the
device, so a text gets the same answer from each of them. This module needs neither the analyzer nor the text.
"""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.rows import (
    PREDICT_BATCH_SIZE,
    Logits,
    by_length,
    outputs_by_row,
    pad_id_of,
    refuse_not_finite,
)
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.tasks.contrastive import Contrastive
from kobert_pipeline.files import read_json
from kobert_pipeline.finetune.batching import max_padding_on, padded
from kobert_pipeline.finetune.encoder_layers import first_token_view, keep_first_token
from kobert_pipeline.finetune.feature_based import CONFIG, FeatureBasedClassifier, FeatureBasedModel, FeatureBasedTagger
from kobert_pipeline.finetune.inference_state import added_tokens
from kobert_pipeline.finetune.packed import packed, packed_view
from kobert_pipeline.finetune.pooling import SentenceVectors
from kobert_pipeline.progress import current_display, report, track
from kobert_pipeline.questions.exact_match import TYPES
from kobert_pipeline.tokenizer.special_tokens import PAD_ID
from kobert_pipeline.training.attention import freeze_angles
from kobert_pipeline.training.hf_config import DEFAULT_LABELS, model_class, output_names
from kobert_pipeline.training.weight_files import load_pretrained, refuse_unexpected

if TYPE_CHECKING:
    from kobert_pipeline.finetune.plan import FinetunePlan


PREDICT_BATCH_SIZE_GPU = 512
"""Rows per batch in predictions on other devices than a CPU, where 64 short texts take no longer to compute than their
kernels take to launch."""
PADDED_ATTENTION = ("albert", "bert", "electra", "gpt2", "modernbert", "roberta")
"""Model types that are trained in bf16 on a CPU with `padded_attention`, which is faster there than both functions of
`transformers`; others may need arguments that it does not take."""
DROPOUTS = (
    "hidden_dropout_prob", "classifier_dropout_prob", "embedding_dropout", "mlp_dropout", "embd_pdrop", "resid_pdrop",
    "summary_last_dropout", "dropout", "seq_classif_dropout", "qa_dropout",
)  # fmt: skip
"""The names that configs of `transformers` use for the dropout of hidden states, the head's input included."""


class TaskModule(torch.nn.Module):
    """`forward(batch)` is the loss that the `transformers` model computes itself, or the cross-entropy with
    `class_weights` (labels,), or the cross-entropy with a batch's `soft_labels`, times the batch's `share` of its step,
    so that the losses of a step's parts add up to its mean."""

    def __init__(self, model: Any, class_weights: np.ndarray | None = None) -> None:
        super().__init__()
        self.model = model
        self.class_weights = None if class_weights is None else torch.from_numpy(class_weights)

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(loss, {}): there is nothing else to log."""
        soft, weights = batch.get("soft_labels"), self.class_weights
        is_weighted = weights is not None and soft is None
        # without labels a model of `transformers` computes no loss of its own
        left_out = {"share", "soft_labels"} | ({"labels"} if is_weighted else set())
        inputs = {name: tensor for name, tensor in batch.items() if name not in left_out}
        outputs = self.model(**drop_unsupported_inputs(self.model, inputs))
        if soft is not None:
            loss = cross_entropy(outputs.logits.float(), soft)
        elif weights is not None:
            logits = outputs.logits.float().flatten(0, -2)  # (B, C), or (B, S, C) -> (B * S, C)
            # a mean weighted by class, like the shares that `Batches` computes
            loss = cross_entropy(logits, batch["labels"].flatten(), weights.to(logits.device))
        else:
            loss = outputs.loss
        return loss * batch.get("share", 1), {}


def name_padding(config: Any) -> None:
    """Let the end-of-text token pad where a config names no token for it, as GPT-2's own does not: GPT-2's classifier
    looks for the last token that is not padding, and refuses batches where it does not know that token."""
    if getattr(config, "pad_token_id", None) is None:
        end = getattr(config, "eos_token_id", None)
        config.pad_token_id = end if isinstance(end, int) and end < config.vocab_size else PAD_ID


def unused_id(features: Features, vocab_size: int) -> int:
    """A token that no text of `features` has, to pad with where a config names none: the head of a text that ends in
    the padding token would read the token before. 0 if all tokens are used."""
    is_used = np.zeros(vocab_size, bool)
    is_used[features.arrays["input_ids"]] = True
    return int(is_used.argmin())


def refuse_without_end(model: Any, features: Features) -> None:
    """Raise UserError where a classifier with a decoder (BART) reads the state of the token that ends a text, and the
    tokenizer adds none, as KoBART's: `transformers` refuses such texts, too."""
    config = model.config
    if not getattr(config, "is_encoder_decoder", False) or not type(model).__name__.endswith("SequenceClassification"):
        return
    is_end = np.concatenate([[0], np.cumsum(features.arrays["input_ids"] == config.eos_token_id)])
    counts = {int(count) for count in np.diff(is_end[features.arrays["windows"]])}
    reads = (
        f"{getattr(model, 'name_or_path', '')}: a {type(model).__name__} reads the state of the token that ends a text"
    )
    if 0 in counts:
        raise UserError(
            f"{reads}, and its tokenizer does not end each text with one; add it to a copy's tokenizer.json "
            '(post_processor, as "$A </s>"), or choose an encoder such as a BERT'
        )
    if len(counts) > 1:
        raise UserError(f"{reads}, and some texts have that token in them; take it out of the texts")


def drop_unsupported_inputs(model: Any, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The batch without `token_type_ids` where the model has no token types."""
    if getattr(model.config, "type_vocab_size", 1) > 1:
        return batch
    return {name: tensor for name, tensor in batch.items() if name != "token_type_ids"}


def build(
    task: Task,
    pretrained: Path,
    from_scratch: bool,
    plan: "FinetunePlan",
    max_length: int,
    frozen: bool = False,
    vocab_size: int = 0,
) -> Any:
    """The encoder in the folder `pretrained` with the task's head, or `frozen` in a `FeatureBasedModel`. With
    `from_scratch` the encoder's weights are random, too. `vocab_size`: the size of a tokenizer with the task's
    `added_tokens`, whose embeddings are random."""
    import transformers

    auto = transformers.AutoModel if frozen else getattr(transformers, task.auto_class)
    config, before = _config(task, pretrained, plan, max_length)
    # float32 whatever type the weights are stored in: a step is often too small to change one of half precision
    model = auto.from_config(config, dtype=torch.float32) if from_scratch else _pretrained(auto, pretrained, config)
    if vocab_size:
        # the tokens of an earlier fine-tuning give way to this one's; mean_resizing would draw new rows around the mean
        # of all others
        model.resize_token_embeddings(max(vocab_size, config.vocab_size - before), mean_resizing=False)
    if isinstance(task, SpanTask) and task.type_count:
        add_match_types(model, task.type_count)
    if plan.mixed_precision == "bf16" and not torch.cuda.is_available() and config.model_type in PADDED_ATTENTION:
        model.set_attn_implementation("padded")
    freeze_angles(model)
    if frozen:
        kind = FeatureBasedTagger if isinstance(task, TaggingTask) else FeatureBasedClassifier
        return kind(model, plan.dropout)
    if task.auto_class == "AutoModel" and getattr(model, "pooler", None) is not None:
        model.pooler.requires_grad_(False)  # a part of the class that no loss reads
    keep_first_token(model)
    return model


def _config(task: Task, pretrained: Path, plan: "FinetunePlan", max_length: int) -> tuple[Any, int]:
    """The config of the model in a folder, changed for the task, and the number of tokens that an earlier fine-tuning
    added."""
    import transformers

    # by the problem type of an earlier fine-tuning, `transformers` would choose the loss of that task
    changes = {"problem_type": None, **task.config()}
    config = transformers.AutoConfig.from_pretrained(pretrained, trust_remote_code=False, **changes)
    # stored in the model: inference must split texts into windows of the same length, as the task was configured here
    before = added_tokens(config.to_dict())
    tokens = {"added_tokens": list(task.added_tokens) or before} if task.added_tokens or before else {}
    known = (getattr(config, "task_specific_params", None) or {}).get(task.name, {})
    if missing := [name for name in task.inference_options if known.get(name) is True and not getattr(task, name)]:
        current_display().say(
            f"note     the model to start from was trained with {', '.join(missing)} in the options of its task, which "
            "these features leave out; what it has learned may depend on them"
        )
    config.task_specific_params = {task.name: {"max_length": max_length, **tokens} | task.inference_state()}
    # pretraining used no dropout, but fine-tuning sees every example several times. Not in attention, where dropout
    # would rule out the fast kernels on CPU
    for name in DROPOUTS:
        if hasattr(config, name):
            setattr(config, name, plan.dropout)
    name_padding(config)
    # RoFormer's head for choices would read the last token, which of a short candidate is padding
    if config.model_type == "roformer":
        config.summary_type = "first"
    # GPT-2's token classifier reads this name, which its config lacks by default, and would else use 0.1
    config.classifier_dropout = plan.dropout
    return config, len(before)


def add_match_types(model: Any, count: int = TYPES) -> None:
    """Give a model `count` token types for `match_types`, which at first have the embedding of the context's, or for
    those with parts of speech, which at first have that of the same type without. Raises UserError where the model has
    no token types."""
    embeddings: Any = getattr(model.base_model, "embeddings", None)
    before = getattr(embeddings, "token_type_embeddings", None)
    if before is None or before.num_embeddings < 2:
        raise UserError(
            f"exact_match_feature: the architecture {model.config.model_type} has no token types for question and "
            "context; leave exact_match_feature out, or use bert, roberta, electra, albert or roformer"
        )
    if count > before.num_embeddings:
        row_of = [kind if kind < before.num_embeddings else 1 for kind in range(TYPES)]
        # (TYPES, D) -repeat-> (count, D), of which the types that the model already knows keep their rows
        rows = before.weight.data[row_of].repeat(count // TYPES, 1)
        rows[: before.num_embeddings] = before.weight.data
        embeddings.token_type_embeddings = torch.nn.Embedding.from_pretrained(rows, freeze=False)
        model.config.type_vocab_size = count


def _pretrained(auto: Any, folder: Path, config: Any) -> Any:
    """The model with the weights in `folder`. A head for other labels, such as the head of an earlier fine-tuning,
    gives way to a new one. Raises UserError where weights of the encoder do not fit its config."""
    model, loading = auto.from_pretrained(
        folder, config=config, dtype=torch.float32, ignore_mismatched_sizes=True, output_loading_info=True
    )
    refuse_unexpected(folder, model.base_model, loading)
    before = read_json(folder / "config.json")
    prefix = "" if model.base_model is model else model.base_model_prefix
    encoder = {name for name, _ in model.base_model.named_parameters(prefix=prefix)}
    if unfit := sorted(encoder & {name for name, *_ in loading["mismatched_keys"]}):
        raise UserError(
            f"{folder}: weights of the encoder have other shapes than its config.json says ({', '.join(unfit[:3])}); "
            "copy the checkpoint again"
        )
    labels = [label for _, label in sorted(config.id2label.items())]
    labels_before = output_names(before.get("id2label") or DEFAULT_LABELS, {})
    if type(model).__name__ in before.get("architectures", []) and labels != labels_before:
        # as many labels with other names or in another order fit the old head, so `transformers` keeps it
        rows = rows_of_labels(labels, labels_before)
        fresh = dict(auto.from_config(config, dtype=torch.float32).named_parameters())
        for name, parameter in model.named_parameters():
            if name not in encoder and len(parameter) == len(labels):
                parameter.data.copy_(parameter.data[rows] if rows else fresh[name])
    return model


def rows_of_labels(labels: list[str], labels_before: list[str]) -> list[int] | None:
    """The row of each label in a head for `labels_before`, whose names are the same without case; None for others."""
    names, names_before = ([label.casefold() for label in some] for some in (labels, labels_before))
    if sorted(names) != sorted(names_before) or len(set(names)) < len(names):
        return None
    return [names_before.index(name) for name in names]


def load(folder: Path) -> Any:
    """The model saved in `folder` with its head, in evaluation mode and fp32. Raises UserError where the config names
    no model class of `transformers`, or where weights are missing, which `transformers` would initialise at random."""
    if (folder / CONFIG).is_file():
        return FeatureBasedModel.from_pretrained(folder).eval()
    auto = model_class(read_json(folder / "config.json"), folder / "config.json")
    model, loading = load_pretrained(auto, folder)
    # nothing here reads the pooler of an encoder without a head, and sentence-transformers may leave it out
    if missing := sorted(key for key in loading["missing_keys"] if not key.startswith("pooler.")):
        raise UserError(f"{folder} lacks weights of a {auto.__name__}: {', '.join(missing[:3])}; copy it again")
    model.names_padding = getattr(model.config, "pad_token_id", None) is not None
    name_padding(model.config)
    return model.eval()


@torch.no_grad()
def logits(
    model: Any,
    features: Features,
    batch_size: int,
    device: torch.device | str,
    bf16: bool = False,
    activity: str = "predicting",
) -> Logits:
    """Each output of the model as one array per row (a window, or one example's choices). `activity` names it in the
    progress."""
    model.eval()
    refuse_without_end(model, features)
    if not getattr(model, "names_padding", True):
        model.config.pad_token_id = unused_id(features, model.config.vocab_size)
    # in bf16 oneDNN keeps memory on the CPU for each number of tokens, which differs from batch to batch; and an empty
    # row has no first token
    packable = not bf16 and features.lengths.min(initial=1) > 0
    view = packed_view(model, device) if packable else None
    batches = by_length(features, batch_size, inf if view else max_padding_on(device))
    model = view or first_token_view(model)

    def outputs_of(rows: np.ndarray) -> dict[str, np.ndarray]:
        batch = packed(features, rows) if view else padded(features, rows, device, pad_id=pad_id_of(model))
        # in fp32 even within a bf16 training: selection and scores must be what a user of the saved model gets
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=bf16):
            outputs = model(**drop_unsupported_inputs(model, batch))
        # GPT-2 returns its cache, too
        tensors = {name: value for name, value in outputs.items() if isinstance(value, torch.Tensor)}
        return {name: value.float().cpu().numpy() for name, value in tensors.items()}

    # longest first: a shorter batch fits into the memory that a longer one has freed, not the other way round
    return outputs_by_row(features, track(batches[::-1], activity, len(batches), "batches"), outputs_of)


def predict(
    model: Any,
    task: Task,
    features: Features,
    device: torch.device | str,
    calibrate: bool = False,
    batch_size: int | None = None,
    activity: str = "predicting",
) -> Predicted:
    """The predictions of `model`, fine-tuned for `task`, on features. `activity` names them in the progress.

    With `calibrate` (on dev) the task is calibrated first, and its new state stored in the model's config, so that it
    is saved with the weights it belongs to. Raises UserError where the logits are not finite.
    """
    module = SentenceVectors(model, task.pooling) if isinstance(task, Contrastive) else model
    of_device = PREDICT_BATCH_SIZE if torch.device(device).type == "cpu" else PREDICT_BATCH_SIZE_GPU
    outputs = logits(module, features, batch_size or of_device, device, activity=activity)
    refuse_not_finite(getattr(model, "name_or_path", ""), outputs)
    outputs = task.by_label(outputs)
    report("scoring")
    if calibrate:
        task = task.calibrate(outputs, features)
        state = (model.config.task_specific_params or {}).get(task.name, {})
        # an option of an earlier calibration must not stay: `inference_state` leaves out what is the default now
        other = {name: value for name, value in state.items() if name not in task.inference_options}
        model.config.task_specific_params = {task.name: other | task.inference_state()}
    return Predicted.of(task, features, outputs)
