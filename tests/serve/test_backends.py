"""`kobert serve --backend`: ONNX Runtime gives torch's answers through the same code, in int8 nearly the same, and what
it cannot do is one sentence."""

import base64
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from checkpoints import checkpoints
from held_model import wait_until
from starlette.testclient import TestClient

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.inference.loading import BACKENDS
from kobert_pipeline.publish.onnx_file import write_int8, write_onnx
from kobert_pipeline.publish.verify import SAMPLES
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.model import ServedModel
from kobert_pipeline.serve.service import Service
from kobert_pipeline.training.weight_files import ONNX, ONNX_INT8

TEXTS = ["정말 재밌다", "", "두 시간이 아까웠다. " * 40, "배우들 연기가 좋았다", "ㅋㅋ 😀", "뷁"]
MARK = "its code ran"
AUTO = {"korquad": "QuestionAnswering", "ner": "TokenClassification"}


@pytest.fixture(scope="module")
def exported(tiny: Any, with_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`exported(name)`: a folder with the ONNX files of a checkpoint, and without its other weights."""
    place = tmp_path_factory.mktemp("exported")
    made = {"nsmc": with_onnx / "mood", "mlm": with_onnx / "encoder"}
    sources, found = checkpoints(tiny.run_dir, place / "made") | made, dict[str, Path]()

    def export(name: str) -> Path:
        if name not in found:
            folder = Path(shutil.copytree(sources[name], place / name, ignore=shutil.ignore_patterns("manifest.json")))
            if name not in made:
                write_onnx(folder, f"AutoModelFor{AUTO[name]}", SAMPLES)
                write_int8(folder)
            (folder / "model.safetensors").rename(place / f"{name}.safetensors")
            found[name] = folder
        return found[name]

    return export


@pytest.fixture(scope="module")
def client(exported: Any, tiny: Any) -> Iterator[TestClient]:
    """A server of two checkpoints with each backend, as MODEL-BACKEND; those of ONNX Runtime have no other weights."""
    folders = {
        f"{name}-{backend}": str(tiny.run_dir / "publish" / name if backend == "torch" else exported(name))
        for name in ("nsmc", "mlm")
        for backend in BACKENDS
    }

    def load(name: str, folder: str) -> ServedModel:
        return ServedModel(name, folder, backend=name.partition("-")[2])

    service = Service(folders, Limits(), load)
    with TestClient(create_app(service)) as client:
        wait_until(lambda: service.ready or not service.alive, 60)
        assert service.ready, service.failure
        yield client


def ask(client: TestClient, path: str, model: str, **fields: Any) -> Any:
    response = client.post(f"/v1/{path}", json={"model": model, **fields})
    assert response.status_code == 200, response.text
    return response.json()["data"]


def vectors(client: TestClient, model: str, given: Any) -> np.ndarray:
    rows = ask(client, "embeddings", model, input=given, encoding_format="base64")
    return np.stack([np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in rows])


def test_float32_gives_the_answers_of_torch(client: TestClient) -> None:
    for given in (TEXTS, TEXTS[0], [[2, 30, 400, 3], [2, 3]]):
        rows = {backend: ask(client, "classify", f"nsmc-{backend}", input=given) for backend in ("torch", "onnx")}
        assert equal(rows["onnx"], rows["torch"])
        for name in ("nsmc", "mlm"):
            found = [vectors(client, f"{name}-{backend}", given) for backend in ("onnx", "torch")]
            np.testing.assert_allclose(*found, atol=1e-5)
    asked: dict[str, dict[str, Any]] = {
        "fill-mask": {"input": ["이 영화 [MASK] 재밌다", "[MASK] [MASK]"], "top_k": 3},
        "tokenize": {"input": TEXTS},
        "similar": {"query": "연기", "texts": TEXTS, "by": "hybrid"},
    }
    for path, fields in asked.items():
        rows = {backend: ask(client, path, f"mlm-{backend}", **fields) for backend in ("torch", "onnx")}
        assert equal(rows["onnx"], rows["torch"]), path


def test_int8_gives_nearly_the_answers_of_torch(client: TestClient) -> None:
    given = [text for text in TEXTS if text]
    rows = [ask(client, "classify", f"nsmc-{backend}", input=given) for backend in ("torch", "onnx-int8")]
    differences = [
        abs(ours["scores"][key] - int8["scores"][key])
        for ours, int8 in zip(*rows, strict=True)
        for key in ours["scores"]
    ]
    assert 0 < max(differences) < 0.02, "it is quantized, and close"
    for name in ("nsmc", "mlm"):
        ours, int8 = (vectors(client, f"{name}-{backend}", TEXTS) for backend in ("torch", "onnx-int8"))
        cosines = (ours * int8).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(int8, axis=1)
        assert 0.99 < cosines.min() < 0.9999999


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "path", "fields"),
    [("korquad", "answer", {"question": "누가 만들었나?"}), ("ner", "tag", {})],
)
def test_answers_and_entities_are_those_of_torch(
    name: str, path: str, fields: Any, exported: Any, tiny: Any, tmp_path: Path
) -> None:
    folders = {"torch": checkpoints(tiny.run_dir, tmp_path)[name], "onnx": exported(name)}
    texts = [text or "글" for text in TEXTS]
    rows = []
    for backend, folder in folders.items():
        model = ServedModel(name, str(folder), backend=backend)
        assert model.endpoints[0] == f"/v1/{path}"
        if name == "korquad":
            rows.append(model.predict([{**fields, "context": text, "answers": []} for text in texts]))
        else:
            rows.append(model.predict([{"text": text, "entities": []} for text in texts]))
    assert equal(rows[1], rows[0])
    assert any(row.get("answer") or row.get("entities") for row in rows[0])


def test_windows_are_read_as_by_torch(exported: Any, tiny: Any) -> None:
    folders = {"torch": tiny.run_dir / "publish" / "nsmc", "onnx": exported("nsmc")}
    models = [ServedModel("x", str(folder), "windows", backend) for backend, folder in folders.items()]
    examples = [{"text": text, "label": 0} for text in TEXTS]
    assert equal(models[1].predict(examples), models[0].predict(examples))
    for (one, tokens), (other, expected) in zip(models[1].embed(TEXTS), models[0].embed(TEXTS), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
        assert tokens == expected


def test_vectors_of_a_pretrained_model_cost_no_logits(client: TestClient) -> None:
    models = client.app.state.service.models  # type: ignore[attr-defined]
    for backend in ("onnx", "onnx-int8"):
        encoder = models[f"mlm-{backend}"].embedder.encoder.model.encoder_session
        assert [node.name for node in encoder.get_outputs()] == ["last_hidden_state"]
        assert encoder is not models[f"mlm-{backend}"].model.session
        nsmc = models[f"nsmc-{backend}"].model
        assert nsmc.encoder_session is nsmc.session


def test_what_needs_torch_says_so(client: TestClient) -> None:
    for model in ("nsmc-onnx", "nsmc-onnx-int8"):
        refused = client.post("/v1/attention", json={"model": model, "input": "글"})
        assert (refused.status_code, refused.json()["error"]["message"]) == (
            400, "/v1/attention needs torch; start the server with --backend torch",
        )  # fmt: skip
    fields = {"model": "mlm-onnx", "query": "글", "texts": ["글"], "by": "first-last"}
    refused = client.post("/v1/similar", json=fields)
    assert refused.status_code == 422
    assert refused.json()["error"]["message"].startswith("layers before the last are not in an ONNX file")


def test_what_cannot_be_served_is_one_sentence(
    exported: Any, tiny: Any, kobert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def complaint(folder: Path, backend: str = "onnx") -> str:
        said: str = kobert("serve", folder, "--port", 0, "--backend", backend).complaint
        return said

    plain = tiny.run_dir / "publish" / "nsmc"
    assert f"has no {ONNX}; publish it with onnx: true, or give --backend torch" in complaint(plain)
    assert f"has no {ONNX_INT8}; publish it with onnx: int8, or" in complaint(plain, "onnx-int8")
    folder = Path(shutil.copytree(exported("nsmc"), tmp_path / "nsmc"))
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", config | {"architectures": ["BertForMultipleChoice"]})
    assert "chooses between candidates, which no ONNX file does yet; give --backend torch" in complaint(folder)
    write_json(folder / "config.json", config)
    model = onnx.load(folder / ONNX)
    del model.graph.output[:]
    model.graph.node.append(onnx.helper.make_node("Identity", [model.graph.input[0].name], ["pooler_output"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("pooler_output", onnx.TensorProto.INT64, None))
    onnx.save(model, folder / ONNX)
    assert "has no output that a path needs; publish it again" in complaint(folder)
    (folder / ONNX).write_bytes(b"broken")
    assert "does not load" in complaint(folder)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    assert "requires onnxruntime, not installed here; pip install onnxruntime" in complaint(exported("nsmc"))


def test_nothing_of_a_folder_is_run_or_read_from_elsewhere(
    exported: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(exported("nsmc"), tmp_path / "nsmc"))
    config = read_json(folder / "config.json")
    (folder / "mine.py").write_text(f'print("{MARK}")\nclass Mine: pass\n', encoding="utf-8")
    write_json(folder / "config.json", config | {"auto_map": {"AutoConfig": "mine.Mine", "AutoModel": "mine.Mine"}})
    assert "/v1/classify" in ServedModel("x", str(folder), backend="onnx").endpoints
    assert MARK not in capsys.readouterr().out
    (tmp_path / "elsewhere").write_bytes(bytes(10**6))
    model = onnx.load(folder / ONNX)
    weight = next(one for one in model.graph.initializer if one.raw_data and one.data_type == 1 and len(one.dims) == 2)
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../../elsewhere")
    (folder / ONNX).write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match="does not load"):
        ServedModel("x", str(folder), backend="onnx")


def equal(found: Any, expected: Any) -> bool:
    """Whether JSON values are equal, but for the last digit of numbers."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(equal(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(equal, found, expected))
    return found == (pytest.approx(expected, abs=2e-4) if isinstance(expected, float) else expected)
