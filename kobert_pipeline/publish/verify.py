"""Load the published folder in a fresh Python process that cannot import this package, and compare its token ids and
logits with this process's."""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kobert_pipeline.checkpoint.source import TOKENIZER_CONFIG
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.settings import VOCABULARY_FILE

SAMPLES = [
    "아버지가 방에 들어가셨다.",
    "그 영화 진짜 재밌었어요ㅋㅋ 또 보고 싶다!",
    "1443년 세종은 훈민정음(訓民正音)을 창제하였다.",
    "띄어쓰기가안된문장도 끊어 읽을 수 있을까?",
]
TOLERANCE = 1e-5
COMPARED = ("logits", "last_hidden_state")
"""Suffixes of the names of the outputs that are compared (`start_logits`, `prediction_logits`, ...)."""

# it repeats `COMPARED` and the limit in `outputs_here`, since it cannot import them
FRESH = r"""
import json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "kobert_pipeline":
            raise ImportError("kobert_pipeline must not be needed")
sys.meta_path.insert(0, Blocked())
import torch, transformers
folder, auto, (tokenizers, texts) = sys.argv[1], sys.argv[2], json.loads(sys.stdin.read())
tokenizers = [transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=code) for path, code in tokenizers]
tokenizer = tokenizers[0]
model = getattr(transformers, auto).from_pretrained(folder).eval()
ids = [[each(text)["input_ids"] for text in texts] for each in tokenizers]
inputs = [tokenizer(text, return_tensors="pt") for text in texts]
if auto.endswith("MultipleChoice"):
    inputs = [{name: tensor[None] for name, tensor in batch.items()} for batch in inputs]
with torch.no_grad():
    outputs = [model(**batch) for batch in inputs]
compared = ("logits", "last_hidden_state")
tensors = [[value for key, value in output.items() if key.endswith(compared)] for output in outputs]
logits = [[value.flatten()[:2000].tolist() for value in values] for values in tensors]
print(json.dumps({"ids": ids, "logits": logits}))
"""


def verify(folder: Path, model: Path, auto_class: str, dtype: str = "float32") -> dict[str, float]:
    """Compare the folder, loaded in a fresh process, with `model`, its weights rounded to `dtype`, and its tokenizers
    in this one. Returns counts for the manifest. Raises UserError when they differ."""
    tokenizers = tokenizers_in(folder)
    expected = outputs_here(tokenizers, model, auto_class, dtype)
    actual = outputs_in_fresh_process(folder, tokenizers, auto_class)
    if actual["ids"] != expected["ids"]:
        raise UserError(
            f"{folder} gives other token ids in a fresh process than here; do not publish it, and report the bug"
        )
    differences = [
        abs(ours - theirs)
        for our_text, their_text in zip(expected["logits"], actual["logits"], strict=True)
        for our_output, their_output in zip(our_text, their_text, strict=True)
        for ours, theirs in zip(our_output, their_output, strict=True)
    ]
    # max() below could miss a NaN
    if not all(map(math.isfinite, differences)):
        raise UserError(
            f"{folder} gives logits that are not finite, so its weights are damaged; run the stage that trained it "
            "again with --redo"
        )
    difference = max(differences)
    if difference > TOLERANCE:
        raise UserError(
            f"{folder} gives logits in a fresh process that differ by {difference}, more than {TOLERANCE}; do not "
            "publish it, and report the bug"
        )
    return {"verified_texts": len(SAMPLES), "max_logit_difference": difference}


def tokenizers_in(folder: Path) -> list[Path]:
    """The folders of the tokenizers in a published folder, its own first."""
    return [folder, *sorted(path.parent for path in folder.glob(f"*/{TOKENIZER_CONFIG}"))]


def outputs_here(tokenizers: list[Path], model: Path, auto_class: str, dtype: str = "float32") -> dict[str, Any]:
    """Token ids of `SAMPLES` by each tokenizer with this package's code, and by the first one's the logits of the model
    as training saved it, its weights rounded to `dtype`. Raises UserError where weights are missing."""
    import torch
    import transformers

    from kobert_pipeline.tokenizer.loading import load_tokenizer
    from kobert_pipeline.training.log import quiet_transformers

    quiet_transformers()
    loaded_tokenizers = [load_tokenizer(path) for path in tokenizers]
    tokenizer = loaded_tokenizers[0]
    load = getattr(transformers, auto_class).from_pretrained
    loaded, info = load(model, dtype=torch.float32, output_loading_info=True)
    # a pooler that nothing reads may be missing
    if missing := sorted(name for name in info["missing_keys"] if not name.startswith("pooler.")):
        raise UserError(
            f"{model} has no weights for {', '.join(missing):.200}; run the stage that trained it again with --redo"
        )
    loaded.eval()
    for parameter in loaded.parameters():
        # rounded here, too, so that a difference can only be a fault of the folder
        parameter.data = parameter.to(getattr(torch, dtype)).float()
    inputs = [tokenizer(text, return_tensors="pt") for text in SAMPLES]
    if auto_class.endswith("MultipleChoice"):
        # (1, S) -> (1, 1, S), a question with one choice
        inputs = [{name: tensor[None] for name, tensor in batch.items()} for batch in inputs]
    with torch.no_grad():
        outputs = [loaded(**batch) for batch in inputs]
    # 2,000 numbers of each output show a difference; MLM logits of all tokens would be too many to send
    tensors = [[value for key, value in output.items() if key.endswith(COMPARED)] for output in outputs]
    return {
        "ids": [[each(text)["input_ids"] for text in SAMPLES] for each in loaded_tokenizers],
        "logits": [[value.flatten()[:2000].tolist() for value in values] for values in tensors],
    }


def outputs_in_fresh_process(folder: Path, tokenizers: list[Path], auto_class: str) -> dict[str, Any]:
    """Token ids and logits of `SAMPLES` from a fresh process that cannot import this package. The code of a tokenizer
    is trusted only where it has some, so that the others are shown to need none."""
    needed = [(str(path.resolve()), (path / VOCABULARY_FILE).is_file()) for path in tokenizers]
    # `transformers` copies a tokenizer's code to a cache by the folder's name, where two publishing processes would
    # overwrite each other's, so the process gets a cache of its own
    # it starts in that empty folder, since `python -c` finds modules of the current one first
    with tempfile.TemporaryDirectory() as empty:
        result = subprocess.run(
            [sys.executable, "-c", FRESH, str(folder.resolve()), auto_class],
            input=json.dumps([needed, SAMPLES]),
            capture_output=True,
            text=True,
            cwd=empty,
            env=os.environ | {"HF_MODULES_CACHE": empty},
            check=False,
        )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit code {result.returncode} without a message"]
        raise UserError(f"{folder} does not load in a fresh process: {lines[-1]}")
    # libraries may print before
    outputs: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return outputs
