"""Weights published in bfloat16 are half as large, and load and compute in float32."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from kobert_pipeline.files import read_json
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.publish.onnx_file import store_in_bfloat16, write_onnx
from kobert_pipeline.publish.verify import SAMPLES


@pytest.fixture(scope="module")
def published(tiny, kobert, tmp_path_factory):
    """The run, and the folder of its sentiment model and its encoder, published in bfloat16 and verified."""
    run_dir = tiny.copy_before(tmp_path_factory.mktemp("bfloat16") / "runs" / "tiny", "publish")
    settings = ["--set", "publish={mood: {source: nsmc, dtype: bfloat16}, encoder: {dtype: bfloat16}}"]
    result = kobert("publish", tiny.recipe, "--run-dir", run_dir, *settings)
    assert result.code == 0, result.err
    return run_dir, run_dir / "publish"


def test_the_file_is_half_as_large_and_holds_the_rounded_weights(published) -> None:
    run_dir, folder = published
    for name, model in (
        ("mood", run_dir / "finetune" / "nsmc" / "1" / "model"),
        ("encoder", run_dir / "pretrain" / "model"),
    ):
        exact, rounded = load_file(model / "model.safetensors"), load_file(folder / name / "model.safetensors")
        assert {value.dtype for value in rounded.values()} == {torch.bfloat16}
        assert all(torch.equal(value.bfloat16(), rounded[name]) for name, value in exact.items())
        sizes = [(place / "model.safetensors").stat().st_size for place in (model, folder / name)]
        assert sizes[1] < 0.6 * sizes[0]
        modes = {(folder / name / file).stat().st_mode for file in ("model.safetensors", "config.json")}
        assert len(modes) == 1, "whoever may read the config may read the weights"


def test_it_loads_and_computes_in_float32_here_and_in_transformers(published) -> None:
    run_dir, folder = published
    plain = AutoModelForSequenceClassification.from_pretrained(folder / "mood").eval()
    exact = AutoModelForSequenceClassification.from_pretrained(run_dir / "finetune" / "nsmc" / "1" / "model").eval()
    for parameter in exact.parameters():
        parameter.data = parameter.bfloat16().float()
    ids = torch.tensor([[2, 9, 30, 41, 3]])
    outputs = [model(ids).logits for model in (exact, plain, Checkpoint.load(folder / "mood").model)]
    assert {output.dtype for output in outputs} == {torch.float32}
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0])


@pytest.fixture(scope="module")
def exported(published: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with an ONNX file whose weights are in float32."""
    copy = Path(shutil.copytree(published[1] / "mood", tmp_path_factory.mktemp("exported") / "mood"))
    write_onnx(copy, "AutoModelForSequenceClassification", SAMPLES)
    return copy


@pytest.mark.parametrize("external", [False, True])
def test_its_onnx_file_is_half_as_large_and_computes_the_same(
    external: bool, published: Any, exported: Path, tmp_path: Path
) -> None:
    path = tmp_path / "onnx" / "model.onnx"
    copy = Path(shutil.copytree(exported, tmp_path, dirs_exist_ok=True))
    if external:
        onnx.save(onnx.load(path), path, save_as_external_data=True, location="model.onnx.data")
    ids = np.array([[2, 9, 30, 41, 3]])
    before = outputs_of(path, ids)
    size = sum(file.stat().st_size for file in path.parent.glob("model.onnx*"))
    store_in_bfloat16(copy)
    assert sum(file.stat().st_size for file in path.parent.glob("model.onnx*")) < 0.7 * size
    assert (path.parent / "model.onnx.data").is_file() == external
    for now, then in zip(outputs_of(path, ids), before, strict=True):
        assert np.array_equal(now, then)
    if not external:
        assert path.stat().st_size == (published[1] / "mood" / "onnx" / "model.onnx").stat().st_size, (
            "publish does so too"
        )


def outputs_of(path: Path, ids: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(path))
    values = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return session.run(None, {node.name: values[node.name] for node in session.get_inputs()})


def test_the_card_says_what_rounding_costs(published) -> None:
    _, folder = published
    cost = read_json(folder / "mood" / "manifest.json")["counts"]["bfloat16_cost"]
    assert cost["texts"] > 10
    assert abs(cost["scores"][0] - cost["scores"][1]) <= 100 * cost["different"] / cost["texts"] + 1e-3
    card = " ".join((folder / "mood" / "README.md").read_text(encoding="utf-8").split())
    assert "The weights are stored in bfloat16 and computed in float32." in card
    assert f"{cost['different']} predictions differ from those of the trained weights, and accuracy is" in card
    mean, least = read_json(folder / "encoder" / "manifest.json")["counts"]["bfloat16_cost"]["cosine"]
    assert 0.99 < least <= mean < 1
