"""The ONNX file gives the same outputs as torch for batches of any size and length, and names no path of this
machine."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from kobert_pipeline.config import plugins
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.publish import onnx_file, stage
from kobert_pipeline.publish.card_facts import CardFacts
from kobert_pipeline.publish.model_card import auto_class_of
from kobert_pipeline.publish.verify import SAMPLES

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 300}
NAMES = [pytest.param(name, marks=pytest.mark.slow) for name in plugins.contract("architectures").names()]


def outputs_of(folder: Path, auto: str, texts: list[str]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The named outputs of torch and of the file for a padded batch, padding set to zero."""
    tokenizer = MorphemeTokenizer.from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    model = getattr(transformers, auto).from_pretrained(folder).eval()
    with torch.no_grad():
        ours = {name: value.numpy() for name, value in model(**inputs).items() if isinstance(value, torch.Tensor)}
    session = onnxruntime.InferenceSession(str(folder / onnx_file.FILE))
    names = [one.name for one in session.get_outputs()]
    theirs = dict(zip(names, session.run(None, {name: value.numpy() for name, value in inputs.items()}), strict=True))
    real = inputs["attention_mask"].numpy()
    for found in (ours, theirs):
        for name, value in found.items():
            if value.shape[:2] == real.shape:
                found[name] = value * real.reshape(*real.shape, *([1] * (value.ndim - 2)))
    return ours, theirs


BATCHES = [[SAMPLES[0]], ["글"], SAMPLES, SAMPLES * 3, [" ".join(SAMPLES * 20), "짧다"]]


def agrees(folder: Path, auto: str) -> None:
    for texts in BATCHES:
        ours, theirs = outputs_of(folder, auto, texts)
        assert set(ours) == set(theirs)
        for name, value in ours.items():
            np.testing.assert_allclose(theirs[name], value, atol=1e-5)


@pytest.fixture(scope="module")
def run_dir(tiny, tmp_path_factory) -> Path:
    """The tiny run before its publishing."""
    return tiny.copy_before(tmp_path_factory.mktemp("onnx") / "runs" / "tiny", "publish")


def test_a_fine_tuned_model_is_exported_with_its_head(run_dir, tiny, tmp_path, kobert, published_here) -> None:
    settings = ["--set", "publish={mood: {source: nsmc, onnx: true}}"]
    counts = kobert("publish", tiny.recipe, "--run-dir", run_dir, *settings, "--json").json["stages"][0]["counts"]
    folder = run_dir / "publish" / "mood"
    assert 0 <= counts["onnx_max_difference"] < 1e-5
    assert counts["onnx_texts"] > 8
    assert f"{counts['onnx_max_difference']:.1e}" in (folder / "README.md").read_text(encoding="utf-8")
    assert onnx_file.FILE in json.loads((folder / "manifest.json").read_text())["files"]
    content = (folder / onnx_file.FILE).read_bytes()
    assert not [place for place in (str(run_dir), sys.prefix, "site-packages", ".py") if place.encode() in content]
    agrees(folder, "AutoModelForSequenceClassification")


@pytest.mark.parametrize("name", NAMES)
def test_every_architecture_is_exported(name: str, tiny, tmp_path) -> None:
    torch.manual_seed(0)
    chosen = plugins.contract("architectures").choose({"name": name, **SMALL})
    chosen.save(chosen.model(chosen.config(1500), chosen.heads[0]), tmp_path / "model")
    auto = auto_class_of(json.loads((tmp_path / "model" / "config.json").read_text()))
    facts = CardFacts("x", "x", "x", "mit", auto, [], {}, "kiwi", "surface", "kiwipiepy")
    counts = stage.run(
        stage.PublishOptions(onnx=True), facts, {}, tmp_path / "model", tiny.run_dir / "tokenizer", tmp_path / "out"
    )
    assert counts["onnx_max_difference"] < 1e-5
    agrees(tmp_path / "out", auto)


def test_a_file_that_differs_from_torch_is_refused_and_removed(run_dir, tiny, tmp_path, monkeypatch) -> None:
    folder = Path(shutil.copytree(tiny.run_dir / "publish" / "nsmc", tmp_path / "nsmc"))
    monkeypatch.setattr(onnx_file, "TOLERANCE", -1.0)
    made = run_dir / "publish" / "mood" / onnx_file.FILE
    if made.exists():  # by the test before; an export takes seconds
        monkeypatch.setattr(onnx_file, "_export", lambda *given, external: shutil.copyfile(made, given[4]))
    with pytest.raises(UserError, match="differ from torch's by"):
        onnx_file.write_onnx(folder, "AutoModelForSequenceClassification", SAMPLES)
    assert not list((folder / "onnx").iterdir())


def test_libraries_that_are_missing_are_named_before_anything_is_written(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(onnx_file, "LIBRARIES", ("onnxruntime", "onnxgone"))
    facts = CardFacts(
        "x", "x", "x", "mit", "AutoModelForSequenceClassification", [], {}, "kiwi", "surface", "kiwipiepy"
    )
    model = tiny.run_dir / "finetune" / "nsmc" / "1" / "model"
    with pytest.raises(UserError, match=r"requires onnxgone, .* pip install 'kobert-pipeline\[onnx\]'"):
        stage.run(stage.PublishOptions(onnx=True), facts, {}, model, tiny.run_dir / "tokenizer", tmp_path / "out")
    assert not (tmp_path / "out").exists()
