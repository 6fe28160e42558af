"""Tokenizer, config and weights that disagree in ids, positions, segments or labels are refused, naming what disagrees,
and nothing is written."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, AutoModel

from kobert_pipeline.config import plugins
from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.publish.consistency import refuse_disagreement
from kobert_pipeline.publish.export import export
from kobert_pipeline.training.hf_config import POSITIONS_AFTER_PADDING, max_input_length

SMALL = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}


@pytest.fixture
def tuned(tiny, tmp_path) -> Path:
    return Path(shutil.copytree(tiny.run_dir / "finetune" / "nsmc" / "1" / "model", tmp_path / "model"))


@pytest.fixture(scope="module")
def tokenizer(tiny) -> MorphemeTokenizer:
    return MorphemeTokenizer.from_pretrained(tiny.run_dir / "tokenizer")


def change(model: Path, changes: dict[str, Any]) -> None:
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def pretrained(name: str, tmp_path: Path) -> Path:
    torch.manual_seed(0)
    chosen = plugins.contract("architectures").choose({"name": name, **SMALL})
    chosen.save(chosen.model(chosen.config(1500), chosen.heads[0]), tmp_path / name)
    return tmp_path / name


def test_output_of_the_pretrain_stage_is_consistent(tokenizer, tmp_path) -> None:
    for number, name in enumerate(plugins.contract("architectures").names()):
        place = tmp_path / str(number)
        place.mkdir()
        refuse_disagreement(pretrained(name, place), tokenizer)


WRONG_CONFIG = [
    ({"vocab_size": 1501}, ["vocab_size is 1501", "1500 in the tokenizer"]),
    ({"pad_token_id": 3}, ["pad_token_id is 3", "0 in the tokenizer"]),
    ({"bos_token_id": 7}, ["bos_token_id is 7", "2 in the tokenizer"]),
    ({"sep_token_id": 2}, ["sep_token_id is 2", "3 in the tokenizer"]),
    (
        {"max_position_embeddings": 128},
        ["position_embeddings.weight is [256, 32]", "[128, 32] (max_position_embeddings)"],
    ),
    ({"type_vocab_size": 3}, ["token_type_embeddings.weight is [2, 32]", "[3, 32] (type_vocab_size)"]),
    ({"type_vocab_size": 1}, ["token_type_embeddings.weight is [2, 32]", "[1, 32] (type_vocab_size)"]),
    ({"id2label": {"0": "a", "1": "b", "2": "c"}}, ["classifier.bias is [2]", "[3] (num_labels)"]),
    ({"num_hidden_layers": 2}, ["encoder.layer.1", "is missing"]),
    ({"num_hidden_layers": 0}, ["encoder.layer.0", "does not have"]),
    ({"max_position_embeddings": 2}, ["2 positions"]),
]


def test_a_config_that_disagrees_is_refused_and_nothing_is_written(tuned, tiny, tmp_path) -> None:
    for number, (changes, message) in enumerate(WRONG_CONFIG):
        place = tmp_path / str(number)
        place.mkdir()
        model = Path(shutil.copytree(tuned, place / "model"))
        change(model, changes)
        with pytest.raises(UserError) as refused:
            export(model, tiny.run_dir / "tokenizer", place / "out")
        assert not [word for word in message if word not in str(refused.value)], str(refused.value)
        assert not (place / "out").exists(), (changes, message)


WRONG_WEIGHTS = {
    "bert.embeddings.word_embeddings.weight": "vocab_size",
    "bert.embeddings.position_embeddings.weight": "max_position_embeddings",
    "bert.embeddings.token_type_embeddings.weight": "type_vocab_size",
    "classifier.weight": "num_labels",
}
"""{tensor: the config key that sets its number of rows}."""


def test_weights_with_a_row_too_few_are_refused(tuned, tokenizer) -> None:
    weights = load_file(tuned / "model.safetensors")
    for name in WRONG_WEIGHTS:
        save_file(weights | {name: np.ascontiguousarray(weights[name][:-1])}, tuned / "model.safetensors")
        with pytest.raises(UserError, match=rf"{name} is .*\(.*{WRONG_WEIGHTS[name]}.*\)"):
            refuse_disagreement(tuned, tokenizer)


def test_positions_of_roberta_start_after_that_of_its_padding(tokenizer, tmp_path) -> None:
    model = pretrained("roberta", tmp_path)
    assert max_input_length(json.loads((model / "config.json").read_text())) == 64
    change(model, {"max_position_embeddings": 64})
    with pytest.raises(
        UserError, match=r"position_embeddings.weight is \[65, 32\].*\[64, 32\] \(max_position_embeddings\)"
    ):
        refuse_disagreement(model, tokenizer)


@pytest.mark.parametrize("model_type", POSITIONS_AFTER_PADDING)
def test_a_model_that_counts_positions_after_its_padding_takes_so_many_tokens_and_no_more(model_type: str) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    more = {"longformer": {"attention_window": [4]}, "xmod": {"languages": ["ko"], "default_language": "ko"}}
    config = AutoConfig.for_model(
        model_type, vocab_size=9, max_position_embeddings=24, pad_token_id=1, **sizes, **more.get(model_type, {})
    )
    model, length = AutoModel.from_config(config).eval(), max_input_length(config.to_dict())
    assert length == 22 and model(input_ids=torch.full((1, length), 5)).last_hidden_state.shape[1] == length
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, length + 1), 5))


def test_tied_weights_of_which_neither_is_stored_are_missing(tokenizer, tmp_path) -> None:
    model = pretrained("bert", tmp_path)
    weights = load_file(model / "model.safetensors")
    del weights["bert.embeddings.word_embeddings.weight"]
    save_file(weights, model / "model.safetensors")
    with pytest.raises(UserError, match="is missing from"):
        refuse_disagreement(model, tokenizer)


@pytest.mark.parametrize(("content", "message"), [(b"no weights", "is damaged"), (None, "does not exist")])
def test_weights_that_cannot_be_read_are_refused(content: Any, message: Any, tuned, tokenizer) -> None:
    (tuned / "model.safetensors").unlink()
    if content:
        (tuned / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=message):
        refuse_disagreement(tuned, tokenizer)


def test_a_tokenizer_whose_special_tokens_share_an_id_is_refused(tuned, tiny) -> None:
    twins = MorphemeTokenizer.from_pretrained(tiny.run_dir / "tokenizer", mask_token="[SEP]")
    with pytest.raises(UserError, match="need different ids"):
        refuse_disagreement(tuned, twins)
