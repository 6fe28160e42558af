"""A published ONNX file in the place of the torch model, computed by ONNX Runtime on the CPU.

Neither torch nor transformers is imported, so that a label is there in half a second. No code of the folder is run:
only the operators of ONNX Runtime are known.
"""

import importlib.util
import os
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.predicted import Predicted
from kobert_pipeline.features.rows import (
    MAX_PADDING_CPU,
    MODEL_INPUTS,
    PREDICT_BATCH_SIZE,
    Logits,
    by_length,
    outputs_by_row,
    pad_id_of,
    padded_arrays,
    refuse_not_finite,
)
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.tasks.contrastive import Contrastive
from kobert_pipeline.files import read_json
from kobert_pipeline.progress import track
from kobert_pipeline.training.hf_config import ConfigValues, model_class, with_label_keys
from kobert_pipeline.training.weight_files import HIDDEN_STATES

OF_A_HEAD = "logits"
"""Suffix of the names that `transformers` gives a head's outputs."""
LARGE_HEADS = ("ForPreTraining", "ForMaskedLM", "LMHeadModel")
"""Suffixes of models whose head gives logits of the whole vocabulary, which cost more than the encoder."""
CAUSAL = ("gpt2",)
"""Types of models in which a token sees no token after it."""
NEEDED = (
    "architectures", "vocab_size", "hidden_size", "num_hidden_layers", "model_type", "max_position_embeddings",
    "pad_token_id",
)  # fmt: skip
"""Keys of a config that predictions need. A file may omit keys whose value is the default of its model type."""
PUBLISHED = "training_manifest.json"
"""A file that folders of `kobert publish` alone have."""
BY_TORCH = "give --backend torch, or publish it again with onnx: true"
FATAL = 4
"""The only level of messages that ONNX Runtime prints; errors are raised as exceptions."""

Arrays = dict[str, np.ndarray]


class OnnxModel:
    """An ONNX file with the config of the model that it was exported from.

    `class_name` is the class of that model, `head_outputs` are the names of its head's outputs, `gives_states` says
    whether the file has what vectors are made of, and `gives_labels` whether it has the head of its class, if any.
    Raises UserError for a file that does not take batches of any size.
    """

    def __init__(self, file: Path, config: Any) -> None:
        self.session, self.config, self.name_or_path = open_session(file), config, ""
        refuse_other_inputs(file, self.session)
        self.class_name = str(config.architectures[0])
        outputs = [node.name for node in self.session.get_outputs()]
        self.head_outputs = [name for name in outputs if name.endswith(OF_A_HEAD)]
        self.gives_states = HIDDEN_STATES in outputs
        is_encoder = self.class_name.endswith("Model") and not self.class_name.endswith(LARGE_HEADS)
        self.gives_labels = is_encoder or bool(self.head_outputs)
        separate = self.gives_states and self.class_name.endswith(LARGE_HEADS)
        self.encoder_session = encoder_session(file) if separate else self.session
        self.pad_id = pad_id_of(self)

    @property
    def is_causal(self) -> bool:
        """Whether a token sees no token after it."""
        return self.config.model_type in CAUSAL

    def outputs(self, arrays: Arrays) -> Arrays:
        """The outputs of the head for the inputs (B, S). Raises UserError for a file without a head."""
        if not self.head_outputs:
            raise UserError(
                f"{self.name_or_path}: the ONNX file has no output of a head, such as {OF_A_HEAD}; {BY_TORCH}"
            )
        return run(self.session, self.head_outputs, arrays)

    def states(self, arrays: Arrays) -> np.ndarray:
        """The last hidden states (B, S, H) for the inputs (B, S). Raises UserError for a file without them."""
        if not self.gives_states:
            raise UserError(f"{self.name_or_path}: the ONNX file has no {HIDDEN_STATES}, so no vectors; {BY_TORCH}")
        return run(self.encoder_session, [HIDDEN_STATES], arrays)[HIDDEN_STATES]

    def logits(self, features: Features) -> Logits:
        """Each output of the head, one array per row."""
        batches = by_length(features, PREDICT_BATCH_SIZE, MAX_PADDING_CPU)
        return outputs_by_row(
            features,
            track(batches, "predicting by ONNX Runtime", len(batches), "batches"),
            lambda rows: self.outputs(padded_arrays(features, rows, pad_id=self.pad_id)),
        )

    def vectors(self, features: Features, pooling: str) -> Logits:
        """`vectors`: for each row the vectors of its texts, (C, H)."""

        def outputs_of(rows: np.ndarray) -> Arrays:
            arrays = padded_arrays(features, rows, pad_id=self.pad_id)
            shape = arrays["input_ids"].shape[:-1]
            flat = {name: array.reshape(-1, array.shape[-1]) for name, array in arrays.items()}  # (B * C, L)
            pooled = pool(pooling, self.states(flat), flat["attention_mask"])
            return {"vectors": pooled.reshape(*shape, -1)}  # (B * C, H) -> (B, C, H)

        return outputs_by_row(features, by_length(features, PREDICT_BATCH_SIZE, inf), outputs_of)

    def predict(self, task: Task, features: Features) -> Predicted:
        """The predictions of a model that was fine-tuned for `task`, on features. Raises UserError where the logits are
        not finite."""
        outputs = self.vectors(features, task.pooling) if isinstance(task, Contrastive) else self.logits(features)
        refuse_not_finite(self.name_or_path, outputs)
        return Predicted.of(task, features, task.by_label(outputs))


def pool(pooling: str, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The vectors (B, H) of states (B, S, H) with weights (B, S), 0 for padding, as `finetune.pooling` makes them."""
    if pooling == "cls":
        return states[:, 0]
    if pooling == "max":
        return np.where(weights[..., None] == 0, -np.inf, states).max(1)
    weights = weights.astype(states.dtype)
    return np.einsum("bsh,bs->bh", states, weights) / weights.sum(1, keepdims=True)


def load(folder: Path, name: str, config: Any = None) -> OnnxModel:
    """The ONNX file `name` of a published folder. Raises UserError where a library is missing."""
    config = config or config_of(folder)
    # where the head is large, `encoder_session` cuts the encoder out by onnx
    needed = ("onnxruntime", "onnx") if str(config.architectures[0]).endswith(LARGE_HEADS) else ("onnxruntime",)
    if missing := [library for library in needed if importlib.util.find_spec(library) is None]:
        raise UserError(
            f"{folder / name} requires {' and '.join(missing)}, not installed here; pip install {' '.join(missing)}"
        )
    model = OnnxModel(folder / name, config)
    model.name_or_path = str(folder)
    return model


def config_of(folder: Path) -> Any:
    """The config in a folder, as torch's model has it."""
    values = read_json(folder / "config.json")
    if (folder / PUBLISHED).is_file() and isinstance(values, dict) and all(key in values for key in NEEDED):
        return ConfigValues(values)
    # transformers knows the defaults, and the names that other types have for the same values
    class_ = model_class(values, folder / "config.json")
    config = class_.config_class.from_dict(with_label_keys(values))
    config.architectures = [class_.__name__]
    return config


def refuse_other_inputs(file: Path, session: Any) -> None:
    """Raise UserError where a file takes anything but int64 batches of any size, of the inputs that are given here."""
    for node in session.get_inputs():
        is_given = node.name in (*MODEL_INPUTS, "attention_mask") and node.type == "tensor(int64)"
        if not is_given or any(isinstance(size, int) for size in node.shape):
            raise UserError(
                f"{file} takes {node.name} as {node.type} of the shape {node.shape}; only token ids, masks and token "
                f"types of any batch size and length are given; {BY_TORCH}"
            )


def encoder_session(file: Path) -> Any:
    """A session of the encoder alone: ONNX Runtime computes all outputs of a file, asked for or not."""
    import onnx
    from onnx.utils import Extractor

    model = onnx.load(file)
    inputs = [node.name for node in model.graph.input]
    return open_session(Extractor(model).extract_model(inputs, [HIDDEN_STATES]).SerializeToString())


def open_session(model: Path | bytes) -> Any:
    """A session of ONNX Runtime with as many threads as OMP_NUM_THREADS says, or as there are cores."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    # its plan of memory is for one shape and kept for each, and batches have many
    options.enable_mem_pattern = False
    options.log_severity_level = FATAL
    model_source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(model_source, options, providers=["CPUExecutionProvider"])


def run(session: Any, outputs: Sequence[str], inputs: Arrays) -> Arrays:
    """The named outputs of a session for some inputs."""
    # inputs that no output depends on are not in the file
    used = {node.name: inputs[node.name] for node in session.get_inputs() if node.name in inputs}
    return dict(zip(outputs, session.run(list(outputs), used), strict=True))
