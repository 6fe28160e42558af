"""The files that hold a model's weights in the format of `transformers`: one, or an index and the parts that it
lists. Beside them the folder may hold the same model for ONNX Runtime."""

import re
from pathlib import Path

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PART = re.compile(r"[\w.-]+\.safetensors")
"""A part's name, which leads to no other folder."""
ONNX, ONNX_INT8 = "onnx/model.onnx", "onnx/model_quantized.onnx"
"""The model for ONNX Runtime in float32 and in int8, under the names that are usual on the Hub."""
HIDDEN_STATES = "last_hidden_state"
"""The output of these files from which the vectors of texts are made."""


def weight_files(folder: Path) -> list[str]:
    """The names of the files in `folder` that hold its weights: `WEIGHTS`, or else `INDEX` and the parts that it lists;
    none where there is neither. Raises UserError where a part is missing."""
    if (folder / WEIGHTS).is_file():
        return [WEIGHTS]
    if not (folder / INDEX).is_file():
        return []
    parts = listed_parts(folder)
    if missing := [name for name in parts if not (folder / name).is_file()]:
        raise UserError(
            f"{folder} lacks {', '.join(missing[:3])}, {len(missing)} of the {len(parts)} parts that {INDEX} lists; "
            "copy it again"
        )
    return [INDEX, *parts]


def listed_parts(folder: Path) -> list[str]:
    """The names of the parts that the index in `folder` lists. Raises UserError where it lists none, or a file
    elsewhere."""
    index = read_json(folder / INDEX)
    by_tensor = index.get("weight_map") if isinstance(index, dict) else None
    names = list(by_tensor.values()) if isinstance(by_tensor, dict) else []
    if not names or not all(isinstance(name, str) and PART.fullmatch(name) for name in names):
        raise UserError(
            f"{folder / INDEX} is not an index of weights (its weight_map must name a file ending in .safetensors in "
            "the same folder for each tensor); copy the checkpoint again"
        )
    return sorted(set(names))
