"""A published ONNX file in the place of the torch model, computed by ONNX Runtime on the CPU.

Its outputs are read as those of the `transformers` model that the folder's config names, so that predicting, embedding
and filling masks have one implementation. No code of the folder is run: only the operators of ONNX Runtime are known.
"""

import importlib.util
from pathlib import Path
from typing import Any

import torch
from transformers.utils.generic import ModelOutput

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json
from kobert_pipeline.training.hf_config import model_class
from kobert_pipeline.training.weight_files import HIDDEN_STATES

NOT_OF_THE_HEAD = (HIDDEN_STATES, "pooler_output")
"""Outputs that an encoder without a head has, too."""

LARGE_HEADS = ("ForPreTraining", "ForMaskedLM", "LMHeadModel")
"""Suffixes of models whose head gives logits of the whole vocabulary, which cost more than the encoder."""
LIBRARIES = ("onnxruntime", "onnx")
FATAL = 4
"""The only level of messages that ONNX Runtime prints; errors are raised as exceptions."""


class OnnxEncoder(torch.nn.Module):
    """The encoder below the head: `last_hidden_state` (B, S, H), and nothing of the layers before."""

    def __init__(self, session: Any, config: Any, is_causal: bool) -> None:
        super().__init__()
        self.session, self.config, self.is_causal, self.name_or_path = session, config, is_causal, ""

    def forward(self, output_hidden_states: bool = False, **inputs: torch.Tensor) -> ModelOutput:
        """The last hidden states, also as the only ones of `hidden_states`."""
        outputs = run(self.session, [HIDDEN_STATES], inputs)
        return ModelOutput(outputs | {"hidden_states": (outputs[HIDDEN_STATES],)})


class OnnxModel(torch.nn.Module):
    """An ONNX file with the config of the model that it was exported from. It has no weights of torch.

    `class_name` is the class of that model, `head_outputs` are the names of its head's outputs, and `gives_states` says
    whether the file has what vectors are made of.
    """

    def __init__(self, file: Path, found: Any, config: Any) -> None:
        super().__init__()
        with torch.device("meta"):  # the modules without weights, which only the file has
            modules = list(found(config).modules())
        self.session, self.config, self.class_name, self.name_or_path = open_session(file), config, found.__name__, ""
        outputs = [node.name for node in self.session.get_outputs()]
        self.head_outputs = [name for name in outputs if name not in NOT_OF_THE_HEAD]
        self.gives_states = HIDDEN_STATES in outputs
        is_causal = any(getattr(module, "is_causal", False) for module in modules)
        separate = self.gives_states and found.__name__.endswith(LARGE_HEADS)
        self.base_model = OnnxEncoder(encoder_session(file) if separate else self.session, config, is_causal)

    def get_encoder(self) -> OnnxEncoder:
        """The encoder, as `transformers` calls it where there is a decoder, too."""
        return self.base_model

    def forward(self, **inputs: torch.Tensor) -> ModelOutput:
        """The outputs of the head."""
        return ModelOutput(run(self.session, self.head_outputs, inputs))


def load(folder: Path, name: str) -> OnnxModel:
    """The ONNX file `name` of a published folder. Raises UserError where a library is missing."""
    if missing := [library for library in LIBRARIES if importlib.util.find_spec(library) is None]:
        raise UserError(
            f"{folder / name} requires {' and '.join(missing)}, not installed here; pip install 'kobert-pipeline[onnx]'"
        )
    found = model_class(read_json(folder / "config.json"), folder / "config.json")
    return OnnxModel(folder / name, found, found.config_class.from_pretrained(folder))


def encoder_session(file: Path) -> Any:
    """A session of the encoder alone: ONNX Runtime computes all outputs of a file, also those that nobody asks for."""
    import onnx
    from onnx.utils import Extractor

    model = onnx.load(file)
    inputs = [node.name for node in model.graph.input]
    return open_session(Extractor(model).extract_model(inputs, [HIDDEN_STATES]).SerializeToString())


def open_session(model: Path | bytes) -> Any:
    """A session of ONNX Runtime with as many threads as torch has, which `OMP_NUM_THREADS` sets."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    # its plan of memory is for one shape and kept for each, and batches have many
    options.enable_mem_pattern = False
    options.log_severity_level = FATAL
    given = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


def run(session: Any, outputs: list[str], inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The named outputs."""
    # inputs that no output depends on are not in the file
    given = {node.name: inputs[node.name].numpy() for node in session.get_inputs() if node.name in inputs}
    values = session.run(outputs, given)
    return {name: torch.from_numpy(value) for name, value in zip(outputs, values, strict=True)}
