"""Folders from unknown sources: their code never runs, and whatever is wrong with them is reported in one sentence."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from kobert_pipeline.checkpoint import stage as checkpoint_stage
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.serve.model import ServedModel

MARK = "its code ran"
MODELING = f"""print("{MARK}")
from transformers import BertConfig, BertForSequenceClassification
class Mine(BertForSequenceClassification): pass
class MineConfig(BertConfig): model_type = "mine"
"""


@pytest.fixture
def foreign(tiny: Any, tmp_path: Path) -> Callable[..., Path]:
    """`foreign(change)`: a copy of the published `nsmc` without its manifest, whose config is changed."""

    def made(name: str = "nsmc", **config: Any) -> Path:
        folder = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(tiny.run_dir / "publish" / name, folder, ignore=shutil.ignore_patterns("manifest.json"))
        write_json(folder / "config.json", read_json(folder / "config.json") | config)
        return folder

    return made


CODE = {
    "auto_map": {
        "AutoConfig": "modeling_mine.MineConfig",
        "AutoModelForSequenceClassification": "modeling_mine.Mine",
        "AutoModel": "modeling_mine.Mine",
    }
}


def test_the_code_of_a_folder_is_never_run_and_only_a_model_class_is_loaded(
    foreign: Callable[..., Path], kobert: Callable, tiny: Any, corpora: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asks whether to run the folder's code"))
    expected = kobert("predict", tiny.run_dir / "publish" / "nsmc", "정말 재밌다").out
    names: list[Any] = [
        ["AutoModelForSequenceClassification"], ["pipeline"], ["Trainer"], ["PreTrainedModel"], ["Mine"], ["models"],
        ["os.system"],
        ["BertConfig"], ["GPT2ForSequenceClassification"], [], [5], None, "BertForSequenceClassification",
    ]  # fmt: skip
    for named in names:
        folder = foreign(architectures=named, **CODE)
        (folder / "modeling_mine.py").write_text(MODELING, encoding="utf-8")
        for words in (["predict", folder, "정말 재밌다"], ["evaluate", folder, corpora / "reviews_test.txt"]):
            result = kobert(*words)
            assert "config.json: architectures is" in result.complaint and MARK not in result.out
    result = kobert("predict", foreign(architectures=["BertForSequenceClassification"], **CODE), "정말 재밌다")
    assert (result.code, result.out) == (0, expected), (
        "a class of transformers is loaded as such, whatever code is next to it"
    )
    said = kobert("predict", foreign(model_type="mine", **CODE), "정말 재밌다").complaint
    assert "model_type is 'mine'; 'bert' was expected" in said


def test_a_config_that_makes_no_model_is_one_sentence(foreign: Callable[..., Path], kobert: Callable) -> None:
    for config in (
        {"hidden_size": "wide"}, {"num_attention_heads": 7}, {"vocab_size": 5}, {"hidden_size": 64},
        {"id2label": {"x": 1}},
        {"max_position_embeddings": None}, {"task_specific_params": {"nsmc": {"max_length": "long"}}},
        {"num_hidden_layers": 2},
        {"id2label": {"0": "글", "1": "말"}},
    ):  # fmt: skip
        assert len(kobert("predict", foreign(**config), "정말 재밌다").complaint) > 50, config
    folder = foreign("korquad", task_specific_params={"mrc": {"stride": "wide"}})
    assert "stride" in kobert("predict", folder, "한글은 세종대왕이 만들었다.", "--question", "누가?").complaint
    for content in ("[]", "null", "{", "5"):
        folder = foreign()
        (folder / "config.json").write_text(content, encoding="utf-8")
        assert "config.json" in kobert("predict", folder, "정말 재밌다").complaint, content
    for content in ("[]", "null", '{"stages": 5}', '{"stages": {"finetune/nsmc/1": {}}, "recipe": []}'):
        folder = foreign()
        (folder / "training_manifest.json").write_text(content, encoding="utf-8")
        assert kobert("predict", folder, "정말 재밌다").code == 0, content


def test_weights_that_are_not_numbers_or_not_of_the_model_are_one_sentence(
    foreign: Callable[..., Path], kobert: Callable
) -> None:
    for name, text in {
        "nsmc": ["정말 재밌다"],
        "korquad": ["한글은 세종대왕이 만들었다.", "--question", "누가?"],
        "mlm": ["[MASK]"],
    }.items():
        for value in (float("nan"), float("inf")):
            folder = foreign(name)
            weights = load_file(folder / "model.safetensors")
            weights["bert.embeddings.LayerNorm.bias"][0] = value
            save_file(weights, folder / "model.safetensors", {"format": "pt"})
            assert (
                "scores that are not finite (NaN or infinite): its weights are damaged"
                in kobert("predict", folder, *text).complaint
            )
    folder = foreign()
    weights = load_file(folder / "model.safetensors")
    save_file(
        {key: value for key, value in weights.items() if "classifier" not in key},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    assert (
        "lacks weights of a BertForSequenceClassification: classifier.bias"
        in kobert("predict", folder, "정말").complaint
    )
    save_file(weights | {"classifier.weight": torch.zeros(3, 3)}, folder / "model.safetensors", {"format": "pt"})
    assert "classifier.weight is [3, 3] in its weights and [2, 32] by" in kobert("predict", folder, "정말").complaint
    (folder / "model.safetensors").write_bytes(b"broken" * 9)
    assert "its weights are damaged" in kobert("predict", folder, "정말").complaint


def test_a_tokenizer_without_a_limit_or_a_mask_token_is_used_or_one_sentence(
    foreign: Callable[..., Path], kobert: Callable
) -> None:
    def changed(name: str, **settings: Any) -> Path:
        folder = foreign(name)
        path = folder / "plain" / "tokenizer_config.json"
        kept = {key: value for key, value in (read_json(path) | settings).items() if value is not None}
        write_json(path, kept)
        return folder

    text, plain = "정말 재밌다 " * 99, ("--tokenizer", "plain")
    expected = kobert("predict", foreign("nsmc"), text, *plain, "--json").json
    assert kobert("predict", changed("nsmc", model_max_length=-1), text, *plain, "--json").json == expected
    folder = changed("nsmc", truncation_side="left")
    assert "the encoder did not read their beginnings" in kobert("predict", folder, text, *plain).err
    folder = changed("mlm", mask_token=None)
    complaint = kobert("predict", folder, "정말 [MASK]", *plain).complaint
    assert f"{folder}: its model fills masks, but its tokenizer has no mask token" in complaint
    assert "/v1/fill-mask" not in ServedModel("mlm", str(folder), tokenizer="plain").endpoints


@pytest.mark.parametrize(
    ("name", "is_lost"),
    [
        ("bert.encoder.layer.0.attention.self.distance_embedding.weight", True),  # relative positions
        ("bert.encoder.layer.0.output.dense.SCB", True),  # the scale of an int8 weight
        ("bert.encoder.layer.9.output.dense.weight", True),  # a layer more than the config has
        ("bert.embeddings.position_ids", False),
        ("cls.predictions.bias", False),
    ],
)
def test_weights_of_the_encoder_that_its_model_does_not_have_are_refused(
    name: str, is_lost: bool, foreign: Callable[..., Path], kobert: Callable, tmp_path: Path
) -> None:
    folder = foreign()
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {name: torch.ones(1, 32)}, folder / "model.safetensors", {"format": "pt"})
    said = f"1 of its weights, such as {name.removeprefix('bert.')}, are none of a BertModel by its config.json"
    result = kobert("predict", folder, "정말 재밌다")
    if is_lost:
        assert said in result.complaint
        with pytest.raises(UserError, match=said):
            checkpoint_stage.run(str(folder), tmp_path / "stage")
    else:
        assert result.code == 0
        assert checkpoint_stage.run(str(folder), tmp_path / "stage")["parameters"]


def test_half_an_emoji_of_a_json_file_is_read_by_every_tokenizer(tiny: Any, tmp_path: Path, kobert: Callable) -> None:
    """Such a lone surrogate cannot be encoded in UTF-8, neither for `tokenizers` nor for a terminal."""
    (tmp_path / "texts.jsonl").write_text('{"text": "정말 재밌다 \\ud83d"}\n', encoding="utf-8")
    published = tiny.run_dir / "publish"
    for name, more in (("nsmc", []), ("korquad", ["--question", "뭐가 재밌어?"])):
        folder = shutil.copytree(published / name / "plain", tmp_path / name)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(published / name / file, folder)
        for one in (folder, published / name):
            for last in ([], ["--json"]):
                result = kobert("predict", one, "--in", tmp_path / "texts.jsonl", "--column", "text", *more, *last)
                assert result.code == 0 and "\ud83d" not in result.out, result.err
        texts = [tmp_path / "texts.jsonl", "--column", "text"]
        for suffix in (".jsonl", ".parquet"):
            assert kobert("embed", published / name, *texts, "--out", tmp_path / f"{name}{suffix}").code == 0
        assert kobert("index", published / name, *texts, "--out", tmp_path / f"{name}-index").code == 0
        found = kobert("similar", published / name, "재밌다", "--in", *texts, "--by", "mean", "--json")
        assert found.code == 0 and "\ud83d" not in found.out, found.err
