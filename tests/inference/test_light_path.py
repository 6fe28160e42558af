"""Predictions by ONNX Runtime and `tokenizers` alone: torch's answers, in a process that can import neither torch nor
transformers nor an analyzer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import kobert_pipeline as kobert_package
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.finetune import onnx_model
from kobert_pipeline.inference import loading
from kobert_pipeline.inference.loading import AUTO, BY_ONNX, TORCH, choose_backend
from kobert_pipeline.training.weight_files import HIDDEN_STATES, ONNX

TEXTS = ["정말 재밌다", "두 시간이 아까웠다. " * 40, "배우들 연기가 좋았다\tㅋㅋ 😀", "뷁", ""]
WITHOUT = """
import sys
for name in ("torch", "transformers", "kiwipiepy", "datasets", "sklearn"): sys.modules[name] = None
"""
IN_PYTHON = f"""{WITHOUT}
import json
import kobert_pipeline as kobert
texts = json.loads(sys.argv[3])
checkpoint, encoder = kobert.load(sys.argv[1]), kobert.load(sys.argv[2])
print(json.dumps({{
    "labels": checkpoint.predict(texts), "windows": checkpoint.predict(texts, long="windows"),
    "vectors": checkpoint.embed(texts).tolist(), "cls": encoder.embed(texts, pooling="cls").tolist(),
    "max": encoder.embed(texts, pooling="max", long="windows").tolist(),
    "masks": encoder.predict(["이 영화 [MASK] 재밌다", "[MASK] [MASK]"], top_k=3),
}}))
"""
COMMAND = f"""{WITHOUT}
from kobert_pipeline.cli.main import app
sys.argv = ["kobert", *sys.argv[1:]]
app()
"""


def same(ours: Any, theirs: Any) -> None:
    """Equal but for rounding of numbers."""
    if isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=2e-4)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key])
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    else:
        assert ours == theirs


def test_python_answers_as_torch_does(light: dict[str, Path], fresh: Any) -> None:
    done = fresh(IN_PYTHON, light["mood"], light["encoder"], json.dumps(TEXTS))
    assert done.code == 0, done.err
    found = json.loads(done.out.splitlines()[-1])
    mood, encoder = (kobert_package.load(light[name], backend=TORCH) for name in ("mood", "encoder"))
    same(found["labels"], mood.predict(TEXTS))
    same(found["windows"], mood.predict(TEXTS, long="windows"))
    same(found["masks"], encoder.predict(["이 영화 [MASK] 재밌다", "[MASK] [MASK]"], top_k=3))
    np.testing.assert_allclose(found["vectors"], mood.embed(TEXTS), atol=1e-5)
    np.testing.assert_allclose(found["cls"], encoder.embed(TEXTS, pooling="cls"), atol=1e-5)
    np.testing.assert_allclose(found["max"], encoder.embed(TEXTS, pooling="max", long="windows"), atol=1e-5)


def test_commands_answer_as_torch_does(light: dict[str, Path], fresh: Any, kobert: Any, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(text.replace("\t", " ") for text in TEXTS[:4]), encoding="utf-8")
    rows = "".join(f"{number}\t{text.split()[0]}\t{number % 2}\n" for number, text in enumerate(TEXTS[:4]))
    (tmp_path / "reviews.txt").write_text("id\tdocument\tlabel\n" + rows, encoding="utf-8")
    for words in (
        ("predict", light["mood"], "--in", tmp_path / "texts.txt", "--json"),
        ("embed", light["mood"], tmp_path / "texts.txt"),
    ):
        done = fresh(COMMAND, *words)
        assert done.code == 0, done.err
        torch = kobert(*words, "--backend", "torch").out
        same([json.loads(line) for line in done.out.splitlines()], [json.loads(line) for line in torch.splitlines()])
    # scikit-learn computes the scores of both
    scored = [
        kobert("evaluate", light["mood"], tmp_path / "reviews.txt", "--backend", backend, "--json").json
        for backend in ("onnx", "torch")
    ]
    same(*scored)


@pytest.mark.parametrize(
    ("lacks", "expected"),
    [("nothing", BY_ONNX), ("file", TORCH), ("library", TORCH), ("CPU", TORCH), ("publishing", TORCH)],
)
def test_auto_is_onnx_where_that_is_as_good(
    lacks: str, expected: str, light: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(light["mood"], tmp_path / "mood"))
    if lacks == "file":
        (folder / ONNX).unlink()
    if lacks == "library":
        monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    if lacks == "CPU":
        monkeypatch.setattr(loading, "DRIVER", folder / ONNX)
    assert choose_backend(str(folder), folder if lacks == "publishing" else None) == expected
    if lacks == "nothing":
        assert kobert_package.load(folder, backend=AUTO).model.class_name == "BertForSequenceClassification"


def test_layers_before_the_last_are_read_by_torch(light: dict[str, Path], kobert: Any, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("글", encoding="utf-8")
    words = ("embed", light["encoder"], tmp_path / "texts.txt", "--layers", "-2")
    assert kobert(*words).code == 0
    assert "give --backend torch" in kobert(*words, "--backend", "onnx").complaint


def test_an_onnx_file_of_another_program_is_read_for_what_it_has(
    light: dict[str, Path], kobert: Any, tmp_path: Path
) -> None:
    """Exporters write the outputs of the head or the states, seldom both."""
    (tmp_path / "texts.txt").write_text("정말 재밌다", encoding="utf-8")
    folders = {}
    for kept in ("logits", HIDDEN_STATES):
        folder = folders[kept] = Path(shutil.copytree(light["mood"], tmp_path / kept))
        model = onnx.load(folder / ONNX)
        for node in [node for node in model.graph.output if node.name != kept]:
            model.graph.output.remove(node)
        onnx.save(model, folder / ONNX)
    labels, states = folders.values()
    words = ("embed", labels, tmp_path / "texts.txt")
    assert kobert(*words).out == kobert(*words, "--backend", "torch").out
    assert (
        "has no last_hidden_state, so no vectors; give --backend torch" in kobert(*words, "--backend", "onnx").complaint
    )
    assert kobert("predict", labels, "정말 재밌다").code == 0
    assert kobert("predict", states, "글").out == kobert("predict", states, "글", "--backend", "torch").out
    assert (
        "has no output of a head, such as logits; give --backend torch"
        in kobert("predict", states, "글", "--backend", "onnx").complaint
    )


def rename_output(model: Any) -> None:
    """Let the output of the head be `output_0`, as exporters do that are not told its name."""
    model.graph.node.append(onnx.helper.make_node("Identity", ["logits"], ["output_0"]))
    next(node for node in model.graph.output if node.name == "logits").name = "output_0"


def fix_shape(model: Any) -> None:
    """Let the file take one text of 16 tokens."""
    for node in model.graph.input:
        for dimension, size in zip(node.type.tensor_type.shape.dim, (1, 16), strict=True):
            dimension.dim_value = size


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (rename_output, "has no output of a head, such as logits; give --backend torch"),
        (fix_shape, "of the shape [1, 16]; only"),
    ],
)
def test_auto_is_torch_where_the_onnx_file_has_another_form(
    change: Callable[[Any], None], reason: str, light: dict[str, Path], kobert: Any, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(light["mood"], tmp_path / "mood"))
    model = onnx.load(folder / ONNX)
    change(model)
    onnx.save(model, folder / ONNX)
    words = ("predict", folder, "정말 재밌다")
    assert kobert(*words).out == kobert(*words, "--backend", "torch").out
    refused = kobert(*words, "--backend", "onnx")
    assert (refused.code, reason in refused.complaint, str(folder) in refused.complaint) == (2, True, True)
    with (folder / ONNX).open("wb"):  # a file that does not load at all
        assert kobert(*words).code == 0


@pytest.mark.parametrize(
    "labels",
    [{"id2label": ["나쁨", "좋음"]}, {"label2id": {"나쁨": 0, "좋음": 1}}, {"num_labels": 2}],
    ids=["list", "label2id", "num_labels"],
)
def test_the_config_of_another_program_is_read_as_torch_reads_it(
    labels: dict[str, Any], light: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(light["mood"], tmp_path / "mood"))
    for name in ("manifest.json", onnx_model.PUBLISHED):
        (folder / name).unlink(missing_ok=True)
    config = read_json(folder / "config.json")
    dropped = ("id2label", "label2id", "num_labels", "task_specific_params")
    write_json(folder / "config.json", {key: config[key] for key in config if key not in dropped} | labels)
    ours, theirs = (kobert_package.load(folder, backend=backend).predict(TEXTS[:2]) for backend in ("onnx", "torch"))
    same(ours, theirs)


def test_a_config_that_leaves_defaults_out_has_those_of_transformers(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32})
    config = onnx_model.config_of(tmp_path)
    distil = {"model_type": "distilbert", "architectures": ["DistilBertModel"], "dim": 32, "vocab_size": 9}
    write_json(tmp_path / "config.json", distil)
    assert onnx_model.config_of(tmp_path).hidden_size == 32
    assert (config.hidden_size, config.num_hidden_layers, config.architectures) == (32, 12, ["BertModel"])
    with pytest.raises(AttributeError, match="no_such_value"):
        config.no_such_value  # noqa: B018


@pytest.mark.parametrize(("pooling", "vector"), [("cls", [1, 8]), ("max", [3, 8]), ("mean", [2, 6])])
def test_padding_is_in_no_vector(pooling: str, vector: list[float]) -> None:
    states = np.array([[[1, 8], [3, 4], [9, 9]]], np.float32)
    assert onnx_model.pool(pooling, states, np.array([[1, 1, 0]])).tolist() == [vector]
