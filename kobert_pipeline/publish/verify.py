"""Load the published folder in a fresh Python process that cannot import this package, and compare ids and logits."""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kobert_pipeline.errors import UserError

SAMPLES = [
    "아버지가 방에 들어가셨다.",
    "그 영화 진짜 재밌었어요ㅋㅋ 또 보고 싶다!",
    "1443년 세종은 훈민정음(訓民正音)을 창제하였다.",
    "띄어쓰기가안된문장도 끊어 읽을 수 있을까?",
]
TOLERANCE = 1e-5
COMPARED = ("logits", "last_hidden_state")
"""The outputs of a model that are compared, by the ends of their names."""

FRESH = r"""
import json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "kobert_pipeline":
            raise ImportError("kobert_pipeline must not be needed")
sys.meta_path.insert(0, Blocked())
import torch, transformers
folder, auto, texts = sys.argv[1], sys.argv[2], json.loads(sys.stdin.read())
tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = getattr(transformers, auto).from_pretrained(folder).eval()
ids = [tokenizer(text)["input_ids"] for text in texts]
inputs = [tokenizer(text, return_tensors="pt") for text in texts]
if auto.endswith("MultipleChoice"):
    inputs = [{name: tensor[None] for name, tensor in one.items()} for one in inputs]
with torch.no_grad():
    outputs = [model(**one) for one in inputs]
wanted = ("logits", "last_hidden_state")
logits = [[value.flatten()[:2000].tolist() for key, value in output.items() if key.endswith(wanted)] for output in outputs]
print(json.dumps({"ids": ids, "logits": logits}))
"""


def verify(folder: Path, model: Path, auto_class: str) -> dict[str, float]:
    """Compare the folder in a fresh process with `model` and our tokenizer in this one. Raises UserError when they
    differ."""
    expected = outputs_here(folder, model, auto_class)
    found = outputs_there(folder, auto_class)
    if found["ids"] != expected["ids"]:
        raise UserError(f"{folder} gives other ids in a fresh process than here; it must not be published")
    differences = [
        abs(a - b)
        for ours, theirs in zip(expected["logits"], found["logits"], strict=True)
        for one, other in zip(ours, theirs, strict=True)
        for a, b in zip(one, other, strict=True)
    ]
    if not all(map(math.isfinite, differences)):
        raise UserError(
            f"{folder} gives logits that are no finite numbers; its weights are damaged, and it must not be published"
        )
    difference = max(differences)
    if difference > TOLERANCE:
        raise UserError(
            f"{folder} gives logits in a fresh process that differ by {difference}; it must not be published"
        )
    return {"verified_texts": len(SAMPLES), "max_logit_difference": difference}


def outputs_here(folder: Path, model: Path, auto_class: str) -> dict[str, Any]:
    """Ids and logits of `SAMPLES` with this package's tokenizer code and the model as training left it."""
    import torch
    import transformers

    from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    tokenizer = MorphemeTokenizer.from_pretrained(folder)
    loaded = getattr(transformers, auto_class).from_pretrained(model).eval()
    inputs = [tokenizer(text, return_tensors="pt") for text in SAMPLES]
    if auto_class.endswith("MultipleChoice"):
        inputs = [
            {name: tensor[None] for name, tensor in one.items()} for one in inputs
        ]  # (1, L) -> (1, 1, L), one candidate
    with torch.no_grad():
        outputs = [loaded(**one) for one in inputs]
    return {
        "ids": [tokenizer(text)["input_ids"] for text in SAMPLES],
        "logits": [
            [value.flatten()[:2000].tolist() for key, value in output.items() if key.endswith(COMPARED)]
            for output in outputs
        ],
    }


def outputs_there(folder: Path, auto_class: str) -> dict[str, Any]:
    """The same from a fresh process in an empty directory, with a cache of code of its own: `transformers` copies the
    tokenizer's files to a cache by the folder's name, where two publishing processes would overwrite each other's."""
    with tempfile.TemporaryDirectory() as empty:
        result = subprocess.run(
            [sys.executable, "-c", FRESH, str(folder.resolve()), auto_class],
            input=json.dumps(SAMPLES),
            capture_output=True,
            text=True,
            cwd=empty,
            env=os.environ | {"HF_MODULES_CACHE": empty},
            check=False,
        )
    if result.returncode:
        said = result.stderr.strip().splitlines() or [f"it ended with status {result.returncode} and said nothing"]
        raise UserError(f"{folder} does not load in a fresh process: {said[-1]}")
    outputs: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return outputs
