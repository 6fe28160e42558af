"""Export the published model to `onnx/model.onnx`, for programs without torch, and compare the two; quantize it.

The file accepts batches of any size and length. PyTorch's `dynamo` exporter is used, since the older one is deprecated;
the notes it leaves in the file about the Python source, local paths included, are removed.
"""

import importlib.util
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError
from kobert_pipeline.progress import current_display
from kobert_pipeline.training.weight_files import HIDDEN_STATES, ONNX, ONNX_INT8

LIBRARIES = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-4
"""Largest accepted difference from torch's outputs, in float32; actual differences are about a thousandth of it."""
FEWEST_NUMBERS = 1024
"""Numbers of a tensor that is stored in fewer bits."""
MAX_INLINE_BYTES = 1.9e9
"""Larger weights go to `model.onnx.data`: a protobuf file is limited to 2 GiB."""


def refuse_missing_libraries() -> None:
    """Raise UserError unless the libraries of the export are installed."""
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"publish: the option onnx requires {' and '.join(missing)}, not installed here; install what is "
            "missing, or set onnx: false"
        )


def write_onnx(folder: Path, auto_class: str, texts: list[str], required: bool = True) -> dict[str, Any]:
    """Export the model in `folder` to `onnx/model.onnx` and compare the two on `texts`, in several batches.

    Returns the counts `onnx_texts` and `onnx_max_difference`. Where they differ by more than `TOLERANCE`, or the model
    cannot be exported, the file is removed: raises the error if it is `required`, else says so and returns {}.
    """
    try:
        refuse_missing_libraries()
        if auto_class.endswith("MultipleChoice"):
            raise UserError("publish: multiple-choice models cannot be exported to ONNX yet")
        return _exported(folder, auto_class, texts)
    except Exception as error:  # the exporter raises what the model's code and its own do
        for file in (folder / ONNX, (folder / ONNX).with_name(f"{Path(ONNX).name}.data")):
            file.unlink(missing_ok=True)
        if required:
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        current_display().say(f"note     there is no ONNX file in {folder.name}: {reason}")
        return {}


def _exported(folder: Path, auto_class: str, texts: list[str]) -> dict[str, Any]:
    """The counts of `write_onnx`."""
    import torch
    import transformers

    from kobert_pipeline.tokenizer.loading import load_tokenizer
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    tokenizer = load_tokenizer(folder)
    model = getattr(transformers, auto_class).from_pretrained(folder, dtype=torch.float32).eval()
    model.config.use_cache = False  # otherwise a decoder also returns its keys and values
    # of several texts, since torch.export takes a size of 1 for a constant; (B, S) each
    example = dict(tokenizer(texts, padding=True, return_tensors="pt"))
    with torch.no_grad():
        model_output = model(**example, output_hidden_states=True)
    outputs = [name for name, value in model_output.items() if isinstance(value, torch.Tensor)]
    # last, so that a head's own output stays the first; a model with a decoder has none of this name
    outputs += [HIDDEN_STATES] if HIDDEN_STATES not in outputs and "hidden_states" in model_output else []
    wrapped = _with_positional_inputs(model, list(example), outputs)
    path = folder / ONNX
    path.parent.mkdir(exist_ok=True)
    dynamic = tuple({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for _ in example)
    size = sum(parameter.numel() * 4 for parameter in model.parameters())
    _export(wrapped, example, outputs, dynamic, path, external=size > MAX_INLINE_BYTES)
    difference, text_count = compare(wrapped, path, batches(tokenizer, texts), outputs)
    if not difference <= TOLERANCE:  # NaN, too
        raise UserError(
            f"publish: {path} gives outputs that differ from torch's by {difference}, more than {TOLERANCE}; set "
            "onnx: false"
        )
    return {"onnx_texts": text_count, "onnx_max_difference": difference}


def write_int8(folder: Path) -> None:
    """Quantize `onnx/model.onnx` dynamically to `onnx/model_quantized.onnx`: weights of matrix products and embeddings
    are int8, activations become so while it runs."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    model = onnx.load(folder / ONNX)
    add_pre_process_metadata(model)  # without this note the quantizer warns, and by that sets up logging
    # the quantizer transposes weights, and would find the noted shapes of the originals
    del model.graph.value_info[:]
    # with 7 bits no sum overflows 16 bits, as it could on a CPU without VNNI: the results are the same everywhere
    quantize_dynamic(model, folder / ONNX_INT8, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


def store_in_bfloat16(folder: Path) -> None:
    """Store the weights of `onnx/model.onnx` that bfloat16 can hold exactly as such: half the bytes, from which ONNX
    Runtime makes the same float32 numbers once, when it loads the file."""
    import onnx
    from onnx import TensorProto, helper

    path = folder / ONNX
    beside = path.with_name(f"{path.name}.data")
    external = beside.is_file()
    model = onnx.load(path)
    # onnx appends to a file of weights that exists, so the old ones would stay in it
    beside.unlink(missing_ok=True)
    casts = []
    for tensor in model.graph.initializer:
        # ONNX stores raw data as little-endian
        bits = np.frombuffer(tensor.raw_data, "<u4") if tensor.data_type == TensorProto.FLOAT else np.empty(0, "<u4")
        # a few numbers (of a norm, or made by the exporter) are not worth a node
        # bfloat16 is the upper half of a float32, so nothing is lost where the lower half is zero
        if len(bits) >= FEWEST_NUMBERS and not (bits & 0xFFFF).any():
            casts.append(helper.make_node("Cast", [f"{tensor.name}.bf16"], [tensor.name], to=TensorProto.FLOAT))
            tensor.name, tensor.data_type = f"{tensor.name}.bf16", TensorProto.BFLOAT16
            tensor.raw_data = (bits >> 16).astype("<u2").tobytes()
    # ONNX requires a node to come before those that read its output
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, path, save_as_external_data=external, location=beside.name)


def _with_positional_inputs(model: Any, inputs: list[str], outputs: list[str]) -> Any:
    """The model as a module that takes and returns tensors by position: the exporter's names and dynamic shapes are by
    position, too."""
    import torch

    class Wrapped(torch.nn.Module):
        """Inputs in the tokenizer's order -> a tuple of outputs."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            result = self.model(**dict(zip(inputs, tensors, strict=True)), output_hidden_states=True)
            return tuple(result[name] if name in result else result.hidden_states[-1] for name in outputs)

    return Wrapped().eval()


def _export(
    wrapped: Any, example: dict[str, Any], outputs: list[str], dynamic: tuple[Any, ...], path: Path, external: bool
) -> None:
    import torch

    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it warns that torchvision is not installed, which text models do not need
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of the exporter about its own code
            torch.onnx.export(
                wrapped, tuple(example.values()), str(path), input_names=list(example), output_names=outputs,
                dynamic_shapes=(dynamic,), dynamo=True, external_data=external, verbose=False,
            )  # fmt: skip
    finally:
        logger.setLevel(level)
    _remove_source_notes(path)


def _remove_source_notes(path: Path) -> None:
    """Remove the exporter's notes about the Python source, which name paths of this machine."""
    import onnx

    # the weights of a large model stay in their own file, to which the saved one still refers
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    for item in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info):
        del item.metadata_props[:]
        item.doc_string = ""
    for function in model.functions:
        for item in (function, *function.node, *function.value_info):
            del item.metadata_props[:]
            item.doc_string = ""
    onnx.save(model, path)


def batches(tokenizer: Any, texts: list[str]) -> Iterator[dict[str, Any]]:
    """Batches that differ from the exported one: of one and of several texts, short and as long as the model accepts,
    with and without padding. They catch a size that the exporter took for a constant."""
    joined = " ".join(texts)
    long = joined * (1 + tokenizer.model_max_length // max(1, len(tokenizer(joined)["input_ids"])))
    for batch in ([texts[0]], texts, texts[:3], [texts[1][:3]], [long], [long, texts[0]]):
        yield dict(tokenizer(batch, padding=True, truncation=True, return_tensors="pt"))


def compare(wrapped: Any, path: Path, batches: Iterator[dict[str, Any]], outputs: list[str]) -> tuple[float, int]:
    """The largest difference between torch and the ONNX file over all batches, padding excluded, and the number of
    texts."""
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    used = {node.name for node in session.get_inputs()}  # inputs that no output depends on are not in the file
    largest, texts = 0.0, 0
    for batch in batches:
        with torch.no_grad():
            expected = [value.numpy() for value in wrapped(*batch.values())]
        actual = session.run(outputs, {name: value.numpy() for name, value in batch.items() if name in used})
        real = batch["attention_mask"].numpy().astype(bool)  # (B, S)
        for ours, theirs in zip(expected, actual, strict=True):
            if ours.shape != theirs.shape:
                return float("inf"), texts
            # outputs per token are (B, S, ...); those per text have no padding
            inside = real if ours.shape[:2] == real.shape else slice(None)
            largest = float(np.maximum(largest, np.abs(ours[inside] - theirs[inside]).max()))  # NaN stays NaN
        texts += len(real)
    return largest, texts
