"""However another tool stored a checkpoint, the run's copy of it has one form: float32, PyTorch's names of weights, and
a model type. So it is trained in float32 and published."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from layouts import made
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

from kobert_pipeline.checkpoint import stage
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.finetune.feature_based import FeatureBasedModel
from kobert_pipeline.finetune.model import build
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.inference.loading import load_model
from kobert_pipeline.pipeline.disk_space import weights_of
from kobert_pipeline.tokenizer.loading import load_tokenizer
from kobert_pipeline.training.weight_files import PICKLED_WEIGHTS, WEIGHTS, canonical_name, weight_files

HALF = [torch.float16, torch.bfloat16]


def store_as(folder: Path, dtype: torch.dtype, **options: Any) -> Path:
    """The checkpoint in `folder` with its weights, and what its config says of them, in `dtype`."""
    auto = read_json(folder / "config.json")["architectures"][0]
    model = getattr(transformers, auto).from_pretrained(folder).to(dtype)
    (folder / PICKLED_WEIGHTS).unlink(missing_ok=True)
    model.save_pretrained(folder, **options)
    return folder


def pickle_weights(folder: Path) -> Path:
    torch.save(load_file(folder / WEIGHTS), folder / PICKLED_WEIGHTS)
    (folder / WEIGHTS).unlink()
    return folder


def edit_config(folder: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    config = read_json(folder / "config.json")
    edit(config)
    write_json(folder / "config.json", config)
    return folder


STORED = {
    "one-file": lambda folder, dtype: store_as(folder, dtype),
    "parts": lambda folder, dtype: store_as(folder, dtype, max_shard_size="20KB"),
    "pickled": lambda folder, dtype: pickle_weights(store_as(folder, dtype)),
    "torch-dtype": lambda folder, dtype: edit_config(
        store_as(folder, dtype), lambda config: config.update(torch_dtype=config.pop("dtype"))
    ),
    # as after a conversion of the file alone
    "config-of-another": lambda folder, dtype: edit_config(
        store_as(folder, dtype), lambda config: config.update(dtype="float32")
    ),
}


def stored_tensors(folder: Path) -> dict[str, torch.Tensor]:
    names = [name for name in weight_files(folder) if name.endswith(".safetensors")]
    parts = [load_file(folder / name) for name in names] or [torch.load(folder / PICKLED_WEIGHTS)]
    return {name: tensor for part in parts for name, tensor in part.items()}


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("stored", STORED)
def test_the_copy_holds_the_same_values_in_float32(stored: str, dtype: torch.dtype, tmp_path: Path) -> None:
    folder = STORED[stored](made("koelectra-v3", tmp_path), dtype)
    stage.run(str(folder), tmp_path / "out")
    copy = load_file(tmp_path / "out" / "model" / WEIGHTS)
    originals = stored_tensors(folder)
    assert {tensor.dtype for tensor in originals.values() if tensor.is_floating_point()} == {dtype}
    assert copy.keys() == originals.keys()
    for name, tensor in originals.items():
        torch.testing.assert_close(copy[name], tensor.float(), rtol=0, atol=0)
    config = read_json(tmp_path / "out" / "model" / "config.json")
    assert config["dtype"] == "float32" and "torch_dtype" not in config
    assert transformers.AutoModel.from_pretrained(tmp_path / "out" / "model").dtype == torch.float32


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize(("from_scratch", "frozen"), [(False, False), (True, False), (False, True)])
def test_a_model_stored_in_half_precision_is_trained_in_float32(
    from_scratch: bool, frozen: bool, dtype: torch.dtype, tmp_path: Path
) -> None:
    """Also where the folder was not copied by the stage, such as a run's of an earlier version."""

    def built(folder: Path) -> Any:
        torch.manual_seed(5)
        return build(Task.choose("nsmc"), folder, from_scratch, FinetunePlan(), 32, frozen)

    half = store_as(made("kcbert", tmp_path / "half"), dtype)
    full = store_as(made("kcbert", tmp_path / "full"), dtype)
    store_as(full, torch.float32)
    states = [built(folder).state_dict() for folder in (half, full)]
    assert {value.dtype for value in states[0].values() if value.is_floating_point()} == {torch.float32}
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    model = built(half)
    model.save_pretrained(tmp_path / "saved")
    assert read_json(tmp_path / "saved" / ("feature_based.json" if frozen else "config.json"))["dtype"] == "float32"
    loaded = (FeatureBasedModel if frozen else type(model)).from_pretrained(tmp_path / "saved")
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_a_file_of_half_precision_needs_as_much_disk_space(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = store_as(made("kcbert", tmp_path), torch.float32)
    expected = weights_of(str(folder))
    assert weights_of(str(store_as(folder, dtype))) == pytest.approx(expected, rel=0.1)


def tensorflow_names(folder: Path) -> Path:
    """The checkpoint with the names that normalization layers have in TensorFlow."""
    tensors = load_file(folder / WEIGHTS)
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in tensors.items()
    }
    assert renamed.keys() != tensors.keys()
    save_file(renamed, folder / WEIGHTS, {"format": "pt"})
    return folder


@pytest.mark.parametrize("pickled", [False, True])
def test_weights_with_the_names_of_tensorflow_are_trained_and_published(pickled: bool, tmp_path: Path) -> None:
    folder = store_as(made("kcbert", tmp_path), torch.float32)
    expected = load_file(folder / WEIGHTS)
    tensorflow_names(folder)
    if pickled:
        pickle_weights(folder)
    stage.run(str(folder), tmp_path / "out")
    copy = load_file(tmp_path / "out" / "model" / WEIGHTS)
    assert copy.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in copy.items())
    trained = tmp_path / "trained"
    build(Task.choose("nsmc"), tmp_path / "out" / "model", False, FinetunePlan(), 32).save_pretrained(trained)
    _, info = transformers.AutoModelForSequenceClassification.from_pretrained(trained, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"),
        ("cls.predictions.transform.LayerNorm.beta", "cls.predictions.transform.LayerNorm.bias"),
        ("encoder.layer_norm.gamma", "encoder.layer_norm.weight"),
        ("layers.0.attn_norm.weight", "layers.0.attn_norm.weight"),
        ("layers.0.gamma", "layers.0.gamma"),  # such as a scale of a layer, which PyTorch calls so, too
    ],
)
def test_only_normalization_layers_are_renamed(name: str, canonical: str) -> None:
    assert canonical_name(name) == canonical


Tensors = dict[str, torch.Tensor]


def pickled(wrap: Callable[[Tensors], Any]) -> Callable[[Path, Tensors], None]:
    return lambda folder, tensors: torch.save(wrap(tensors), folder / PICKLED_WEIGHTS)


def prefixed(prefix: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {prefix + name: tensor.clone() for name, tensor in tensors.items()}


def in_parts(folder: Path, tensors: Tensors) -> None:
    names = list(tensors)
    parts = {f"pytorch_model-0000{n}-of-00003.bin": names[n - 1 :: 3] for n in (1, 2, 3)}
    for part, of_part in parts.items():
        torch.save({name: tensors[name] for name in of_part}, folder / part)
    weight_map = {name: part for part, of_part in parts.items() for name in of_part}
    write_json(folder / f"{PICKLED_WEIGHTS}.index.json", {"metadata": {}, "weight_map": weight_map})


WRAPPED: dict[str, Callable[[Path, Tensors], None]] = {
    "pickled": pickled(dict),
    "pickled-parts": in_parts,
    "pickled-parameters": pickled(lambda tensors: {name: torch.nn.Parameter(t) for name, t in tensors.items()}),
    "DistributedDataParallel": pickled(prefixed("module.")),
    "compiled": lambda folder, tensors: save_file(prefixed("_orig_mod.")(tensors), folder / WEIGHTS, {"format": "pt"}),
    "compiled-layer": pickled(
        lambda tensors: {name.replace(".0.", ".0._orig_mod."): tensor for name, tensor in tensors.items()}
    ),
    "Lightning": pickled(
        lambda tensors: {
            "epoch": 3, "state_dict": prefixed("net.")(tensors) | {"loss.weight": torch.ones(2)},
            "optimizer_states": [{"state": {0: {"step": torch.ones(1)}}}],
        }
    ),
    "training-script": pickled(lambda tensors: {"model_state_dict": prefixed("module.")(tensors), "loss": 0.5}),
}  # fmt: skip
"""{who stored the weights: how}"""


@pytest.mark.parametrize("layout", ["kcbert", "kpfbert", "modernbert", "xlm-roberta"])
@pytest.mark.parametrize("stored", WRAPPED)
def test_weights_are_read_alike_however_they_were_stored(stored: str, layout: str, tmp_path: Path) -> None:
    folder = made(layout, tmp_path)
    expected, tensors = load_model(folder).state_dict(), stored_tensors(folder)
    for name in weight_files(folder):
        (folder / name).unlink()
    WRAPPED[stored](folder, tensors)
    loaded = load_model(folder).state_dict()
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in expected.items())
    stage.run(str(folder), tmp_path / "out")
    copy = load_file(tmp_path / "out" / "model" / WEIGHTS)
    assert copy.keys() - {"loss.weight"} == tensors.keys()
    assert all(torch.equal(copy[name], tensor) for name, tensor in tensors.items())


def test_two_encoders_in_one_file_are_not_taken_for_one(tmp_path: Path) -> None:
    folder = made("kcbert", tmp_path)
    tensors = stored_tensors(folder)
    pickled(lambda tensors: prefixed("query.")(tensors) | prefixed("passage.")(tensors))(folder, tensors)
    with pytest.raises(UserError, match="lacks weights of a BertForMaskedLM"):
        load_model(folder)
    with pytest.raises(UserError, match=r"the weights lack .* tensors of a BertModel"):
        stage.run(str(folder), tmp_path / "out")


@pytest.mark.parametrize("layout", ["kcbert", "xlm-roberta"])
def test_embeddings_under_the_name_of_the_output_layer_are_read(layout: str, tmp_path: Path) -> None:
    """They are tied, and some tools store one of the two names."""
    folder = made(layout, tmp_path)
    expected, tensors = load_model(folder).state_dict(), stored_tensors(folder)
    [embeddings] = [name for name in tensors if name.endswith("word_embeddings.weight")]
    output = "lm_head.decoder.weight" if layout == "xlm-roberta" else "cls.predictions.decoder.weight"
    for name in weight_files(folder):
        (folder / name).unlink()
    save_file(
        {output if name == embeddings else name: tensor.clone() for name, tensor in tensors.items()},
        folder / WEIGHTS,
        {"format": "pt"},
    )
    loaded = load_model(folder).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in expected.items())
    stage.run(str(folder), tmp_path / "out")
    assert torch.equal(load_file(tmp_path / "out" / "model" / WEIGHTS)[embeddings], tensors[embeddings])


def leave_adapter(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "adapter_model.safetensors")
    write_json(folder / "adapter_config.json", {"base_model_name_or_path": "klue/bert-base", "peft_type": "LORA"})


def leave_in_folder(folder: Path) -> None:
    (folder / "checkpoint-500").mkdir()
    (folder / WEIGHTS).rename(folder / "checkpoint-500" / WEIGHTS)


NO_WEIGHTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "adapter": (leave_adapter, "it is an adapter of klue/bert-base, so merge it into that model first"),
    "TensorFlow": (lambda folder: (folder / WEIGHTS).rename(folder / "tf_model.h5"), "tf_model.h5 is for TensorFlow"),
    "Flax": (lambda folder: (folder / WEIGHTS).rename(folder / "flax_model.msgpack"), "is for Flax.* from_flax=True"),
    "part": (lambda folder: (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors"),
             "model-00001-of-00002.safetensors is a part of one, which needs model.safetensors.index.json"),
    "pickled part": (lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model-00001-of-00002.bin"),
                     "pytorch_model-00001-of-00002.bin is a part of one, which needs pytorch_model.bin.index.json"),
    "Trainer": (leave_in_folder, "give one of the folders in it, such as checkpoint-500"),
}  # fmt: skip


@pytest.mark.parametrize(("remove", "way"), NO_WEIGHTS.values(), ids=NO_WEIGHTS)
def test_what_is_there_in_place_of_weights_is_named_with_the_way(
    remove: Callable[[Path], object], way: str, tmp_path: Path
) -> None:
    folder = store_as(made("kcbert", tmp_path), torch.float32)
    remove(folder)
    for use in (load_model, lambda folder: stage.run(str(folder), tmp_path / "out")):
        with pytest.raises(UserError, match=way):
            use(folder)


@pytest.mark.parametrize("mark", [".base_layer.", ".lora_A.default."])
def test_an_adapter_that_is_not_merged_is_refused(mark: str, tmp_path: Path) -> None:
    folder = store_as(made("kcbert", tmp_path), torch.float32)
    tensors = {name.replace(".query.", f".query{mark}"): tensor for name, tensor in load_file(folder / WEIGHTS).items()}
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    for use in (load_model, lambda folder: stage.run(str(folder), tmp_path / "out")):
        with pytest.raises(UserError, match=r"weights of an adapter beside .*; merge it into that model first"):
            use(folder)


def test_an_adapter_beside_whole_weights_is_refused(tmp_path: Path) -> None:
    folder = store_as(made("kcbert", tmp_path), torch.float32)
    write_json(folder / "adapter_config.json", {"base_model_name_or_path": "klue/bert-base", "peft_type": "LORA"})
    for use in (load_model, lambda folder: stage.run(str(folder), tmp_path / "out")):
        with pytest.raises(UserError, match=r"has an adapter \(adapter_config.json\) beside the weights of its model"):
            use(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "vocab.txt"])
@pytest.mark.parametrize(
    ("encoding", "problem"),
    [("utf-8-sig", "begins with a byte order mark"), ("cp949", "is not in UTF-8"), ("utf-16", "is not in UTF-8")],
)
def test_a_file_that_an_editor_saved_otherwise_is_named(name: str, encoding: str, problem: str, tmp_path: Path) -> None:
    folder = made("kcbert", tmp_path)
    if name == "config.json":
        edit_config(folder, lambda config: config.update(id2label={"0": "부정", "1": "긍정"}))
        config = read_json(folder / name)
        (folder / name).write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    elif name == "tokenizer_config.json":
        (folder / name).write_text('{"do_lower_case": false, "name": "바다"}', encoding="utf-8")
    text = (folder / name).read_text(encoding="utf-8")
    (folder / name).write_bytes(text.encode(encoding, "replace"))
    with pytest.raises(UserError, match=rf"{name}.* (?:{problem}|is not a JSON file in UTF-8)"):
        stage.run(str(folder), tmp_path / "out")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"state_dict": {}, "epoch": 3}, "names are under none of its keys"),
        ({"student": {"a": torch.ones(1)}, "teacher": {"a": torch.ones(1)}}, "under student, teacher of its keys"),
        ({"state_dict": {"a": torch.ones(1)}, "hyper_parameters": Path("data")}, "it holds a pathlib."),
        (torch.nn.Linear(1, 1), "it holds a torch.nn.modules.linear.Linear"),
        ([torch.ones(1)], "under none of its keys"),
    ],
)
def test_what_is_not_one_state_of_tensors_is_refused(state: Any, reason: str, tmp_path: Path, kobert: Callable) -> None:
    folder = made("kcbert", tmp_path)
    torch.save(state, folder / PICKLED_WEIGHTS)
    complaint = kobert("predict", folder, "[MASK]").complaint
    assert reason in complaint and "save the model's state_dict() alone as pytorch_model.bin" in complaint


def test_a_training_state_beside_the_config_is_named(tmp_path: Path, kobert: Callable) -> None:
    folder = made("kcbert", tmp_path)
    (folder / PICKLED_WEIGHTS).rename(folder / "epoch=3.ckpt")
    way = "lacks model.safetensors (or pytorch_model.bin; if epoch=3.ckpt holds them, call it pytorch_model.bin)"
    with pytest.raises(UserError, match=re.escape(way)):
        stage.run(str(folder), tmp_path / "out")
    assert "if epoch=3.ckpt holds them" in kobert("predict", folder, "[MASK]").complaint


@pytest.mark.parametrize("layout", ["kcbert", "klue-roberta", "koelectra-v3", "xlm-roberta"])
def test_a_missing_model_type_is_that_of_the_class(
    layout: str, tmp_path: Path, kobert: Callable, corpora: Path
) -> None:
    folder = made(layout, tmp_path)
    expected, tokenizer = read_json(folder / "config.json")["model_type"], load_tokenizer(folder)
    edit_config(folder, lambda config: config.pop("model_type"))
    if layout in ("kcbert", "koelectra-v3"):  # as older files, whose config alone says which tokenizer it is
        settings = read_json(folder / "tokenizer_config.json")
        write_json(folder / "tokenizer_config.json", {k: v for k, v in settings.items() if k != "tokenizer_class"})
    stage.run(str(folder), tmp_path / "out")
    assert read_json(tmp_path / "out" / "model" / "config.json")["model_type"] == expected
    text = "그 영화 진짜 재밌었어요ㅋㅋ abc"
    assert load_tokenizer(tmp_path / "out" / "tokenizer")(text)["input_ids"] == tokenizer(text)["input_ids"]
    recipe = tmp_path / "r.yaml"
    write_json(recipe, {
        "checkpoint": str(folder), "data_dir": str(corpora), "finetune": {"nsmc": {}},
        "features": {"nsmc": {"task": "nsmc", "train": "reviews_train.txt", "max_length": 512}},
    })  # fmt: skip
    positions = 100 if layout == "kcbert" else 128
    assert f"max_length is 512, but {folder} has {positions} positions" in kobert("check", recipe).complaint


def test_a_fine_tuned_model_without_model_type_predicts(tmp_path: Path, kobert: Callable) -> None:
    folder = made("kcbert", tmp_path)
    transformers.BertForSequenceClassification.from_pretrained(folder).save_pretrained(folder)
    expected = kobert("predict", folder, "좋아요", "--json").json["scores"]
    edit_config(folder, lambda config: config.pop("model_type"))
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False})
    assert kobert("predict", folder, "좋아요", "--json").json["scores"] == expected


@pytest.mark.parametrize("architectures", [None, [], ["NoSuchModel"], ["AutoModel"], "BertModel"])
def test_a_config_that_names_no_type_and_no_class_is_refused(architectures: object, tmp_path: Path) -> None:
    folder = edit_config(made("kcbert", tmp_path), lambda config: config.pop("model_type"))
    edit_config(folder, lambda config: config.update(architectures=architectures))
    with pytest.raises(UserError, match=r'config\.json is not .* no model_type, .* such as "model_type": "bert"'):
        stage.run(str(folder), tmp_path / "out")


def test_a_template_for_chats_is_no_part_of_a_tokenizer(tmp_path: Path) -> None:
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "글": 1}, unk_token="[UNK]"))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", chat_template="{{ messages }}"
    )
    tokenizer.save_pretrained(tmp_path / "all")
    stage.save_tokenizer(tokenizer, tmp_path / "saved")
    names = [{path.name for path in (tmp_path / folder).iterdir()} for folder in ("all", "saved")]
    assert names[0] - names[1] == {"chat_template.jinja"} and "tokenizer.json" in names[1]
