"""A model that was trained for the tokenizer without an analyzer is published with it as the folder's own: it loads
without the flag, without Kiwi and without this package, and the tokenizer with Kiwi is used by its name."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kobert_pipeline
from kobert_pipeline.files import read_json
from kobert_pipeline.runs.manifest import verify

TEXTS = ["아버지가 방에 들어가셨다.", "재밌었어요ㅋㅋ  또 보고\t싶다!", "1443년 세종(世宗)", "띄어쓰기가안된문장"]
WITHOUT_KIWI = """
import json, sys
for name in ("kobert_pipeline", "kiwipiepy"):
    sys.modules[name] = None
from transformers import AutoTokenizer, pipeline
folder, texts = sys.argv[1], json.loads(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(folder)
scores = pipeline("text-classification", folder, top_k=None)(texts)
print(json.dumps({"ids": tokenizer(texts)["input_ids"], "scores": scores}))
"""


def scores_of(rows: list[dict[str, Any]]) -> list[list[float]]:
    return [[row["scores"][name] for name in sorted(row["scores"])] for row in rows]


def test_it_loads_without_flag_kiwi_and_package(without_kiwi: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_KIWI, str(without_kiwi), json.dumps(TEXTS)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    alone = json.loads(done.stdout.splitlines()[-1])
    checkpoint = kobert_pipeline.load(without_kiwi, backend="torch")
    assert alone["ids"] == checkpoint.tokenizer(TEXTS)["input_ids"]
    theirs = [[row["score"] for row in sorted(rows, key=lambda row: row["label"])] for rows in alone["scores"]]
    np.testing.assert_allclose(theirs, scores_of(checkpoint.predict(TEXTS)), atol=1e-4)


def test_transformers_4_knows_the_class_of_its_tokenizer(without_kiwi: Path) -> None:
    assert read_json(without_kiwi / "tokenizer_config.json")["tokenizer_class"] == "PreTrainedTokenizerFast"


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_each_tokenizer_is_that_of_the_run(without_kiwi: Path, backend: str) -> None:
    run_dir = without_kiwi.parents[1]
    model = run_dir / "finetune" / "nsmc" / published_seed(without_kiwi) / "model"
    for name, folder in {None: "tokenizer/plain", "kiwi": "tokenizer"}.items():
        of_run = kobert_pipeline.load(model, run_dir / folder)
        loaded = kobert_pipeline.load(without_kiwi, name, backend)
        assert loaded.tokenizer(TEXTS)["input_ids"] == of_run.tokenizer(TEXTS)["input_ids"]
        np.testing.assert_allclose(scores_of(loaded.predict(TEXTS)), scores_of(of_run.predict(TEXTS)), atol=1e-4)
    both = [kobert_pipeline.load(without_kiwi, name, backend).tokenizer(TEXTS)["input_ids"] for name in (None, "kiwi")]
    assert both[0] != both[1]


def published_seed(without_kiwi: Path) -> str:
    stages = read_json(without_kiwi / "training_manifest.json")["stages"]
    return next(name.rpartition("/")[2] for name in stages if name.startswith("finetune/nsmc/"))


def test_evaluate_gives_the_score_of_the_test(without_kiwi: Path, corpora: Path, kobert: Callable[..., Any]) -> None:
    recipe = read_json(without_kiwi / "training_manifest.json")
    counts = recipe["stages"][f"finetune/nsmc/{published_seed(without_kiwi)}"]["counts"]
    test = corpora / recipe["recipe"]["features"]["nsmc"]["test"]
    results = [
        json.loads(kobert("evaluate", without_kiwi, test, "--backend", "torch", "--json", *more).out)["clean"]["scores"]
        for more in ((), ("--tokenizer", "kiwi"))
    ]
    assert results[0]["accuracy"] == pytest.approx(counts["test"]["accuracy"])
    assert set(results[1]) == {"accuracy"}


def test_its_files_and_card(without_kiwi: Path) -> None:
    verify(without_kiwi)
    assert {path.name for path in without_kiwi.glob("*.py")} == set()
    assert {path.name for path in without_kiwi.iterdir() if path.is_dir()} == {"kiwi", "logs", "onnx"}
    assert (without_kiwi / "kiwi" / "LICENSE").is_file()
    card = (without_kiwi / "README.md").read_text(encoding="utf-8")
    assert 'pipeline("text-classification", "PATH/TO/THIS/FOLDER")' in card
    assert "40% of the training examples were tokenized so" in card
    assert "--tokenizer kiwi" in card


def test_another_name_is_refused(without_kiwi: Path, kobert: Callable[..., Any]) -> None:
    complaint = kobert("predict", without_kiwi, "글", "--tokenizer", "mecab").complaint
    assert "--tokenizer mecab is no folder" in complaint
    assert "(kiwi)" in complaint
