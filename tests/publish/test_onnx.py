"""The ONNX file gives the same outputs as torch for batches of any size and length, and names no path of this
machine."""

import itertools
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers

from kobert_pipeline.config import plugins
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.files import read_json
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.publish import onnx_file, stage
from kobert_pipeline.publish.card_facts import CardFacts
from kobert_pipeline.publish.model_card import auto_class_of
from kobert_pipeline.publish.verify import SAMPLES
from kobert_pipeline.training.weight_files import ONNX, ONNX_INT8

SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 300}
NAMES = [pytest.param(name, marks=pytest.mark.slow) for name in plugins.contract("architectures").names()]


def outputs_of(folder: Path, auto: str, texts: list[str]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The named outputs of torch and of the file for a padded batch, padding set to zero."""
    tokenizer = MorphemeTokenizer.from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    model = getattr(transformers, auto).from_pretrained(folder).eval()
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        ours = {name: value.numpy() for name, value in outputs.items() if isinstance(value, torch.Tensor)}
        ours.setdefault("last_hidden_state", outputs.hidden_states[-1].numpy())
    session = onnxruntime.InferenceSession(str(folder / ONNX))
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


@pytest.mark.parametrize(
    ("name", "auto"), (("mood", "AutoModelForSequenceClassification"), ("encoder", "AutoModelForPreTraining"))
)
def test_models_are_exported_with_their_heads_and_quantized(name: Any, auto: Any, with_onnx, tmp_path_factory) -> None:
    folder = with_onnx / name
    counts = read_json(folder / "manifest.json")["counts"]
    assert 0 <= counts["onnx_max_difference"] < 1e-5
    assert counts["onnx_texts"] > 8
    assert f"{counts['onnx_max_difference']:.1e}" in (folder / "README.md").read_text(encoding="utf-8")
    for file in (ONNX, ONNX_INT8):
        assert file in json.loads((folder / "manifest.json").read_text())["files"]
        content = (folder / file).read_bytes()
        places = (str(tmp_path_factory.getbasetemp().parent), sys.prefix, "site-packages", ".py", "/tmp")
        assert not [place for place in places if place.encode() in content]
    assert (folder / ONNX_INT8).stat().st_size < (folder / ONNX).stat().st_size / 2
    agrees(folder, auto)


def test_the_card_says_what_int8_costs(with_onnx, tiny) -> None:
    """On dev, computed here once more text by text, and on held-out documents."""
    folder, dev = with_onnx / "mood", Features.load(tiny.run_dir / "features" / "nsmc" / "dev")
    counts = read_json(folder / "manifest.json")["counts"]["int8_cost"]
    starts, labels = dev.arrays["windows"].tolist(), dev.arrays["labels"]
    found = {}
    for file in (ONNX, ONNX_INT8):
        session = onnxruntime.InferenceSession(str(folder / file))
        rows = [np.array([dev.arrays["input_ids"][a:b]], np.int64) for a, b in itertools.pairwise(starts)]
        names = [node.name for node in session.get_inputs()]
        given = [{"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0} for ids in rows]
        logits = [session.run(["logits"], {name: one[name] for name in names})[0][0] for one in given]
        found[file] = np.stack(logits)
    assert 0 < np.abs(found[ONNX] - found[ONNX_INT8]).max() < 0.05
    margins = np.abs(found[ONNX][:, 0] - found[ONNX][:, 1])
    assert counts["different"] <= (margins < 0.1).sum()
    torch_score, int8_score = counts["scores"]
    assert torch_score == pytest.approx(100 * (found[ONNX].argmax(1) == labels).mean(), abs=1e-3)
    assert abs(torch_score - int8_score) <= 100 * counts["different"] / len(labels) + 1e-3
    said = f"On the {len(labels):,} examples of dev {counts['different']} predictions differ from torch's, and accuracy"
    assert said in (folder / "README.md").read_text(encoding="utf-8")
    counts = read_json(with_onnx / "encoder" / "manifest.json")["counts"]["int8_cost"]
    mean, least = counts["cosine"]
    assert 0.9 < least <= mean < 1
    said = f"The vectors of {counts['texts']:,} held-out texts have a cosine of {mean:.4f} with torch's on average"
    assert said in (with_onnx / "encoder" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_architecture_is_exported(name: str, tiny, tmp_path) -> None:
    torch.manual_seed(0)
    chosen = plugins.contract("architectures").choose({"name": name, **SMALL})
    chosen.save(chosen.model(chosen.config(1500), next(iter(chosen.heads))), tmp_path / "model")
    auto = auto_class_of(json.loads((tmp_path / "model" / "config.json").read_text()))
    facts = CardFacts("x", "x", "x", "mit", auto, [], {}, "kiwi", "surface", "kiwipiepy")
    counts = stage.run(
        stage.PublishOptions(onnx=True), facts, {}, tmp_path / "model", tiny.run_dir / "tokenizer", tmp_path / "out"
    )
    assert counts["onnx_max_difference"] < 1e-5
    agrees(tmp_path / "out", auto)


def test_a_file_that_differs_from_torch_is_refused_and_removed(with_onnx, tiny, tmp_path, monkeypatch) -> None:
    folder = Path(shutil.copytree(tiny.run_dir / "publish" / "nsmc", tmp_path / "nsmc"))
    monkeypatch.setattr(onnx_file, "TOLERANCE", -1.0)
    made = with_onnx / "mood" / ONNX  # an export takes seconds
    monkeypatch.setattr(onnx_file, "_export", lambda *given, external: shutil.copyfile(made, given[4]))
    with pytest.raises(UserError, match="differ from torch's by"):
        onnx_file.write_onnx(folder, "AutoModelForSequenceClassification", SAMPLES)
    assert not list((folder / "onnx").iterdir())


@pytest.mark.parametrize("reason", ["the library onnxgone", "multiple-choice models", "no operator for it"])
def test_a_model_that_cannot_be_exported_is_published_without_the_file(
    reason: str, tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(tiny.run_dir / "publish" / "nsmc", tmp_path / "nsmc"))
    auto = "AutoModelForMultipleChoice" if reason.startswith("multiple") else "AutoModelForSequenceClassification"
    if reason.startswith("the library"):
        monkeypatch.setattr(onnx_file, "LIBRARIES", ("onnxruntime", "onnxgone"))

    def export(*given: Any, external: bool) -> None:
        given[4].write_bytes(b"half a file")
        raise RuntimeError("no operator for it")

    monkeypatch.setattr(onnx_file, "_export", export)
    said: list[str] = []
    monkeypatch.setattr(onnx_file, "current_display", lambda: SimpleNamespace(say=said.append))
    assert onnx_file.write_onnx(folder, auto, SAMPLES, required=False) == {}
    assert not list(folder.glob("onnx/*"))
    assert len(said) == 1 and reason.split()[-1] in said[0] and "there is no ONNX file in nsmc" in said[0]
    with pytest.raises((UserError, RuntimeError), match=reason.split()[-1]):
        onnx_file.write_onnx(folder, auto, SAMPLES)


def test_libraries_that_are_missing_are_named_before_anything_is_written(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(onnx_file, "LIBRARIES", ("onnxruntime", "onnxgone"))
    facts = CardFacts(
        "x", "x", "x", "mit", "AutoModelForSequenceClassification", [], {}, "kiwi", "surface", "kiwipiepy"
    )
    model = tiny.run_dir / "finetune" / "nsmc" / "1" / "model"
    with pytest.raises(UserError, match=r"requires onnxgone, .* or set onnx: false"):
        stage.run(stage.PublishOptions(onnx=True), facts, {}, model, tiny.run_dir / "tokenizer", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def identity(folder: Path) -> Path:
    """A file whose output `x` is its input plus 0, with notes wherever an exporter leaves some."""
    kind, names = onnx.TensorProto.FLOAT, (["input_ids"], ["x"])
    function = onnx.helper.make_function(
        "mine", "same", *names, [onnx.helper.make_node("Identity", *names, doc_string="/of/me/model.py")],
        [onnx.helper.make_opsetid("", 18)],
    )  # fmt: skip
    function.doc_string = "/of/me/function.py"
    node = onnx.helper.make_node("same", *names, domain="mine", doc_string="/of/me/graph.py")
    values = [onnx.helper.make_tensor_value_info(name, kind, ["batch", "length"]) for (name,) in names]
    graph = onnx.helper.make_graph([node], "graph", values[:1], values[1:])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("mine", 1)]
    model = onnx.helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def test_no_note_of_the_exporter_stays_in_functions_either(tmp_path: Path) -> None:
    path = identity(tmp_path)
    assert path.read_bytes().count(b"/of/me/") == 3
    onnx_file._remove_source_notes(path)
    assert b"/of/me/" not in path.read_bytes()
    values = np.ones((1, 2), np.float32)
    assert np.array_equal(onnxruntime.InferenceSession(str(path)).run(None, {"input_ids": values})[0], values)


@pytest.mark.parametrize(
    ("wrapped", "difference", "texts"),
    [
        (lambda ids, mask: (ids,), 0.0, 2),
        (lambda ids, mask: (ids + 0.5,), 0.5, 2),
        (lambda ids, mask: (ids[:, :1],), float("inf"), 0),
        (lambda ids, mask: (ids * float("nan"),), float("nan"), 2),
    ],
)
def test_outputs_of_another_shape_or_that_are_not_numbers_are_no_small_difference(
    wrapped: Any, difference: float, texts: int, tmp_path: Path
) -> None:
    batch = {"input_ids": torch.ones(2, 3), "attention_mask": torch.ones(2, 3, dtype=torch.int64)}
    compared = onnx_file.compare(wrapped, identity(tmp_path), iter([batch]), ["x"])
    assert compared == pytest.approx((difference, texts), nan_ok=True)
