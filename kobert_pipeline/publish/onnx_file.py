"""The published model as `onnx/model.onnx`, for programs without torch: any number and length of texts, compared before
it counts.

PyTorch's exporter (`dynamo=True`) traces the graph; the older one is deprecated. What it notes in the file about the
source code, paths of this machine among it, is taken out.
"""

import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kobert_pipeline.errors import UserError

FILE = "onnx/model.onnx"
LIBRARIES = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-4
"""Largest difference to torch, in float32; what has been seen is a thousandth of it."""
LARGEST = 1.9e9
"""Bytes of weights that fit into one ONNX file (protobuf ends at 2 GiB); beyond them they lie beside it."""


def refuse_missing_libraries() -> None:
    """Raise UserError unless what the export needs is installed."""
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        *others, last = missing
        lacks = f"{', '.join(others)} and {last}, which are" if others else f"{last}, which is"
        raise UserError(
            f"publish: onnx: true wants {lacks} not installed; pip install 'kobert-pipeline[onnx]', or leave the "
            "option out"
        )


def write_onnx(folder: Path, auto_class: str, texts: list[str]) -> dict[str, Any]:
    """Export the model in `folder` to `onnx/model.onnx` and compare the two on `texts` in several sizes and lengths:
    `onnx_texts`, `onnx_max_difference`. Raises UserError, and leaves no file, where they differ by more than
    `TOLERANCE`."""
    import torch
    import transformers

    from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

    tokenizer = MorphemeTokenizer.from_pretrained(folder)
    model = getattr(transformers, auto_class).from_pretrained(folder).eval()
    model.config.use_cache = False  # a decoder would give its keys and values out too
    example = dict(tokenizer(texts, padding=True, return_tensors="pt"))
    with torch.no_grad():
        outputs = [name for name, value in model(**example).items() if isinstance(value, torch.Tensor)]
    wrapped = _wrapped(model, list(example), outputs)
    path = folder / FILE
    path.parent.mkdir(exist_ok=True)
    dynamic = tuple({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for _ in example)
    size = sum(parameter.numel() * 4 for parameter in model.parameters())
    _export(wrapped, example, outputs, dynamic, path, external=size > LARGEST)
    difference, number = compare(wrapped, path, batches(tokenizer, texts), outputs)
    if not difference <= TOLERANCE:
        for file in (path, path.with_name(f"{path.name}.data")):
            file.unlink(missing_ok=True)
        raise UserError(
            f"publish: {path} gives outputs that differ from torch's by {difference}, more than {TOLERANCE}; leave "
            "onnx out"
        )
    return {"onnx_texts": number, "onnx_max_difference": difference}


def _wrapped(model: Any, inputs: list[str], outputs: list[str]) -> Any:
    """The model with tensors in and out instead of names."""
    import torch

    class Wrapped(torch.nn.Module):
        """Positional inputs in the tokenizer's order; a tuple of the outputs."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            found = self.model(**dict(zip(inputs, given, strict=True)))
            return tuple(found[name] for name in outputs)

    return Wrapped().eval()


def _export(
    wrapped: Any, example: dict[str, Any], outputs: list[str], dynamic: tuple[Any, ...], path: Path, external: bool
) -> None:
    import torch

    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)  # it misses torchvision, aloud
    try:
        with torch.no_grad():
            torch.onnx.export(
                wrapped, tuple(example.values()), str(path), input_names=list(example), output_names=outputs,
                dynamic_shapes=(dynamic,), dynamo=True, external_data=external, verbose=False,
            )  # fmt: skip
    finally:
        logger.setLevel(before)
    _forget_the_source(path)


def _forget_the_source(path: Path) -> None:
    """Take out what the exporter notes of the Python source."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    for place in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info):
        del place.metadata_props[:]
        place.doc_string = ""
    for function in model.functions:
        for place in (function, *function.node, *function.value_info):
            del place.metadata_props[:]
            place.doc_string = ""
    onnx.save(model, path)


def batches(tokenizer: Any, texts: list[str]) -> Iterator[dict[str, Any]]:
    """Batches unlike the one that was exported: one text and all, short and as long as the model takes, padded on and
    off."""
    whole = " ".join(texts)
    long = whole * (1 + tokenizer.model_max_length // max(1, len(tokenizer(whole)["input_ids"])))
    for batch in ([texts[0]], texts, texts[:3], [texts[1][:3]], [long], [long, texts[0]]):
        yield dict(tokenizer(batch, padding=True, truncation=True, return_tensors="pt"))


def compare(wrapped: Any, path: Path, given: Iterator[dict[str, Any]], outputs: list[str]) -> tuple[float, int]:
    """The largest difference between torch and the file over all batches, padding left out, and the number of texts."""
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    taken = {one.name for one in session.get_inputs()}
    largest, number = 0.0, 0
    for batch in given:
        with torch.no_grad():
            expected = [value.numpy() for value in wrapped(*batch.values())]
        found = session.run(outputs, {name: value.numpy() for name, value in batch.items() if name in taken})
        real = batch["attention_mask"].numpy().astype(bool)
        for ours, theirs in zip(expected, found, strict=True):
            if ours.shape != theirs.shape:
                return float("inf"), number
            inside = real if ours.shape[:2] == real.shape else slice(None)
            largest = float(np.maximum(largest, np.abs(ours[inside] - theirs[inside]).max()))  # NaN stays NaN
        number += len(real)
    return largest, number
