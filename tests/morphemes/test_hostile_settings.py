"""A damaged tokenizer folder raises one sentence that names the file: a ValueError, since users load it by
`transformers`."""

import json
import shutil

import pytest
import transformers

from kobert_pipeline.errors import UserError
from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE, MorphemeTokenizer
from kobert_pipeline.morphemes.settings import read_settings
from kobert_pipeline.tokenizer.growing import load_base

CONFIG = "tokenizer_config.json"
SETTINGS = [
    {"analyzer": "../../evil"},
    {"analyzer": 5},
    {"analyzer": None},
    {"analyzer_version": ["x"]},
    {"style": "loud"},
    {"style": {}},
    {"user_words": "가"},
    {"user_words": [["가", "NNG"]]},
    {"user_words": [["가", "NO_SUCH_TAG", 1.0]], "style": "form"},
    {"model_max_length": "long"},
    {"model_max_length": True},
    {"padding_side": "middle"},
    {"truncation_side": 3},
    {"model_input_names": 7},
    {"mask_token": 9},
    {"mask_token": {"content": "[MASK]", "nonsense": 1}},
    {"pad_token": "[NO_SUCH_TOKEN]"},
    {"extra_special_tokens": 4},
    {"extra_special_tokens": [{}]},
    {"encode": 1},
    {"chat_template": 5},
    {"split_special_tokens": "yes"},
]
"""What the settings of a tokenizer may not hold."""


@pytest.fixture
def spoilt(front_end, tmp_path):
    """`spoilt(name, content)`: a copy of the tokenizer's folder with another file `name`, text or bytes."""

    def make(name, content):
        folder = shutil.copytree(front_end.tokenizer, tmp_path / "spoilt", dirs_exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return make


def complaint(folder):
    """The one sentence of a folder that does not load."""
    with pytest.raises(ValueError) as raised:
        tokenizer = MorphemeTokenizer.from_pretrained(folder)
        tokenizer("가")
    said = str(raised.value)
    assert said and "\n" not in said and len(said) < 700, said
    return said


def test_settings_that_make_no_tokenizer_are_refused_in_a_sentence(front_end, spoilt):
    settings = json.loads((front_end.tokenizer / CONFIG).read_text(encoding="utf-8"))
    for change in SETTINGS:
        complaint(spoilt(CONFIG, json.dumps(settings | change)))
    for text in (
        "",
        "{",
        "[]",
        "null",
        "5",
        '{"style": ',
        "[" * 100_000,
        '{"model_max_length": ' + "9" * 5000 + "}",
        b"\xff\xfe{",
    ):
        assert CONFIG in complaint(spoilt(CONFIG, text))
    with pytest.raises(ValueError, match=r"style is 5, it must be str|style is '5', it must be str"):
        transformers.AutoTokenizer.from_pretrained(
            spoilt(CONFIG, json.dumps(settings | {"style": 5})), trust_remote_code=True
        )


def test_settings_that_say_nothing_are_the_defaults(front_end, tokenizer, spoilt):
    auto_map = {"auto_map": json.loads((front_end.tokenizer / CONFIG).read_text(encoding="utf-8"))["auto_map"]}
    for settings in ({}, auto_map):
        assert (
            MorphemeTokenizer.from_pretrained(spoilt(CONFIG, json.dumps(settings)))("무대 [MASK]").input_ids
            == tokenizer("무대 [MASK]").input_ids
        )


def test_a_vocabulary_that_is_none_is_refused_in_a_sentence(front_end, spoilt):
    saved = json.loads((front_end.tokenizer / VOCABULARY_FILE).read_text(encoding="utf-8"))
    vocabulary = saved["model"]["vocab"]

    def changed(**model):
        return json.dumps(saved | {"model": saved["model"] | model})

    without = {token: number for number, token in enumerate(vocabulary) if token != "[MASK]"}
    unmasked = saved | {"model": saved["model"] | {"vocab": without}, "added_tokens": []}
    texts = {
        "broken": "{", "a list": "[]", "empty": "", "bytes": b"\x00\xff", "deep": "[" * 100_000,
        "no model": json.dumps(saved | {"model": {}}), "no mask": json.dumps(unmasked),
        "no vocabulary": changed(vocab={}),
        "ids of words": changed(vocab={"a": "b"}), "a negative id": changed(vocab=vocabulary | {"끝": -1}),
        "a huge id": changed(vocab=vocabulary | {"끝": 4_000_000_000}), "another unknown": changed(unk_token="<none>"),
    }  # fmt: skip
    for name, text in texts.items():
        folder = spoilt(VOCABULARY_FILE, text)
        assert VOCABULARY_FILE in complaint(folder), name
    with pytest.raises(UserError, match="is not a vocabulary"):
        load_base(spoilt(VOCABULARY_FILE, "{"), {"analyzer": "kiwi", "style": "surface"})


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000])
def test_settings_that_are_not_json_are_named(text, spoilt):
    path = spoilt(CONFIG, text) / CONFIG
    with pytest.raises(ValueError, match="is not JSON") as refused:
        read_settings(path, MorphemeTokenizer)
    assert str(path) in str(refused.value)
