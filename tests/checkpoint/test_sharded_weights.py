"""A checkpoint whose weights are in several files, as `transformers` saves large models, is read as one in a single
file."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import RemoteEntryNotFoundError
from layouts import SIZES, made
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification

from kobert_pipeline.checkpoint import source, stage
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, sha256, write_json
from kobert_pipeline.inference.loading import load_model
from kobert_pipeline.pretrain.starting import base_files
from kobert_pipeline.training.weight_files import INDEX, ONNX, WEIGHTS, weight_files

COMMIT = "c" * 40
UNLISTED = "model-99999-of-99999.safetensors"


def sharded(folder: Path, auto: str) -> Path:
    """The same checkpoint with its weights in parts, and a file that looks like one but is not listed."""
    import transformers

    model = getattr(transformers, auto).from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(weight_files(folder)) > 3
    shutil.copy(folder / weight_files(folder)[1], folder / UNLISTED)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint with its weights in one file, and the same with several."""
    place = tmp_path_factory.mktemp("sharded")
    whole = made("modernbert", place)
    return whole, sharded(Path(shutil.copytree(whole, place / "sharded")), "AutoModelForMaskedLM")


def test_the_stage_joins_the_parts_and_records_each(folders: tuple[Path, Path], tmp_path: Path) -> None:
    found, expected = [], []
    for folder, results in zip(folders, (expected, found), strict=True):
        counts = stage.run(str(folder), tmp_path / folder.name)
        results += [counts, load_file(tmp_path / folder.name / "model" / WEIGHTS)]
    assert found[1].keys() == expected[1].keys()
    assert all(torch.equal(found[1][name], tensor) for name, tensor in expected[1].items())
    names = {"config.json", "tokenizer.json", "tokenizer_config.json", *weight_files(folders[1])}
    assert INDEX in names and UNLISTED not in names
    assert found[0]["files_sha256"] == {name: sha256(folders[1] / name) for name in names}
    assert {path.name for path in stage.raw_files(str(folders[1]))} == names
    assert found[0]["parameters"] == expected[0]["parameters"]


def test_predictions_are_those_of_the_weights_in_one_file(tmp_path: Path) -> None:
    model = BertForSequenceClassification(BertConfig(vocab_size=900, **SIZES)).eval()
    model.save_pretrained(tmp_path)
    loaded = load_model(sharded(tmp_path, "BertForSequenceClassification"), with_tokenizer=False)
    ids = torch.arange(5, 50)[None]
    assert torch.equal(loaded(ids).logits, model(ids).logits)


def spoilt(index: Any) -> Any:
    return lambda folder: write_json(folder / INDEX, index)


SPOILT = {
    "lacks model-00002-of-": lambda folder: next(folder.glob("model-00002-of-*")).unlink(),
    "is not a JSON file": lambda folder: (folder / INDEX).write_text("{", encoding="utf-8"),
    "model.safetensors.index.json is not an index of weights": spoilt([]),
    "is not an index of weights": spoilt({"weight_map": {}}),
    "is not an index": spoilt({"weight_map": {"a": ["model.safetensors"]}}),
    "in the same folder": spoilt({"weight_map": {"a": "../other/model.safetensors"}}),
    "ending in .safetensors": spoilt({"weight_map": {"a": "pytorch_model.bin"}}),
}


@pytest.mark.parametrize("said", SPOILT)
def test_a_missing_part_and_a_wrong_index_are_refused_in_one_sentence(
    said: str, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders[1], tmp_path / "spoilt"))
    SPOILT[said](folder)
    for read in (source.checkpoint_files, base_files, load_model):
        with pytest.raises(UserError) as refused:
            read(folder)
        assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_damaged_part_is_named(folders: tuple[Path, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders[1], tmp_path / "damaged"))
    part = weight_files(folder)[2]
    (folder / part).write_bytes((folder / part).read_bytes()[:-9])
    with pytest.raises(UserError, match=f"{part}: its weights are damaged"):
        stage.run(str(folder), tmp_path / "out")


def test_every_listed_part_is_fetched_from_the_hub_once(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, fetched = tmp_path / COMMIT, list[str]()
    kept.mkdir()

    def download(repo: str, name: str, revision: str) -> None:
        if not (folders[1] / name).is_file():
            raise RemoteEntryNotFoundError(name, response=SimpleNamespace(headers={}, request=None))
        shutil.copy(folders[1] / name, kept / name)
        fetched.append(name)

    def snapshot(repo: str, revision: str | None, allow_patterns: list[str]) -> str:
        for name in {path.name for path in folders[1].iterdir()} & set(allow_patterns):
            shutil.copy(folders[1] / name, kept / name)
        return str(kept)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    for _ in range(2):
        assert source.locate("some/bert") == kept
        assert fetched == weight_files(folders[1])
    (kept / fetched[-1]).unlink()  # as after an interruption
    source.locate("some/bert")
    assert fetched == [*weight_files(folders[1]), fetched[-1]]
    assert {path.name for path in source.checkpoint_files(kept)} == {path.name for path in kept.iterdir()}
    (folders[1] / "onnx").mkdir()
    (kept / "onnx").mkdir()
    assert source.locate("some/bert", weights=ONNX) == kept, "whether there is such a file is for the caller to say"
    (folders[1] / ONNX).write_bytes(b"onnx")
    source.locate("some/bert", weights=ONNX)
    assert fetched[-1] == ONNX and not {*fetched} - {ONNX, *weight_files(folders[1])}
    assert read_json(kept / INDEX) == read_json(folders[1] / INDEX)
