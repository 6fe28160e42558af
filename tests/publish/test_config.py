"""The config of a published model has the keys that other versions and servers read, and they say the same."""

import json
from pathlib import Path

import pytest
from transformers import AutoConfig

from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.pretrain.architectures.modernbert import ModernBert
from kobert_pipeline.publish.export import with_older_keys, write_config

SIZE = {"num_hidden_layers": 5, "hidden_size": 32, "num_attention_heads": 2}


@pytest.mark.parametrize("every", [1, 2, 3])
def test_older_keys_of_a_modernbert_say_what_the_new_ones_do(every: int, tmp_path: Path) -> None:
    config = ModernBert(**SIZE, global_attn_every_n_layers=every, local_attention=32).config(1000)
    config.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    written = json.loads(path.read_text())
    older = with_older_keys(written | {"id2label": {"0": "a", "1": "b", "2": "c"}})
    assert older.items() >= {
        "global_attn_every_n_layers": every, "num_labels": 3, "layer_norm_eps": config.norm_eps,
        "global_rope_theta": config.rope_parameters["full_attention"]["rope_theta"],
        "local_rope_theta": config.rope_parameters["sliding_attention"]["rope_theta"],
    }.items()  # fmt: skip
    # without the new ones transformers makes the same config of them, as its older versions do
    write_config(path, {key: value for key, value in older.items() if key not in ("layer_types", "rope_parameters")})
    read = AutoConfig.from_pretrained(tmp_path)
    assert (read.layer_types, read.rope_parameters) == (config.layer_types, config.rope_parameters)
    assert read.num_labels == 3


def test_other_configs_stay_as_they_are(tmp_path: Path) -> None:
    Bert(**SIZE).config(1000).save_pretrained(tmp_path)
    before = (tmp_path / "config.json").read_bytes()
    write_config(tmp_path / "config.json", with_older_keys(json.loads(before)))
    assert (tmp_path / "config.json").read_bytes() == before
