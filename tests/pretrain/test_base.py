"""A model to start from brings its own architecture: its config is taken over whole, and what a recipe says about it
must agree. A head that it lacks is said wherever the run is shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from test_starting import OLD, backend

from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.pretrain.base_config import read_config
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.stage import initial_model

SIZES = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": len(OLD)}
ENCODER = SIZES | {"intermediate_size": 48, "layer_norm_eps": 1e-3, "max_position_embeddings": 64}
ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": 66}
FULL, SLIDING = "full_attention", "sliding_attention"
BASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("mlm_nsp", "BertForPreTraining", ENCODER | {"hidden_act": "relu", "hidden_dropout_prob": 0.2}),
    "roberta": ("mlm", "RobertaForMaskedLM", ENCODER | ROBERTA),
    "xlm-roberta": ("mlm", "XLMRobertaForMaskedLM", ENCODER | ROBERTA),
    "albert": (
        "mlm_sop", "AlbertForPreTraining",
        ENCODER | {"embedding_size": 16, "num_hidden_groups": 2, "hidden_act": "silu"},
    ),
    "electra": ("mlm", "ElectraForMaskedLM", ENCODER | {"embedding_size": 16}),
    "gpt2": (
        "clm", "GPT2LMHeadModel",
        {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_inner": 48, "n_positions": 64, "vocab_size": len(OLD),
         "scale_attn_by_inverse_layer_idx": True, "activation_function": "relu"},
    ),
    "modernbert": (
        "mlm", "ModernBertForMaskedLM",
        SIZES | {"intermediate_size": 48, "max_position_embeddings": 64, "local_attention": 4, "norm_eps": 1e-3,
                 "pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3,
                 "layer_types": [SLIDING, FULL, FULL, SLIDING], "mlp_bias": True,
                 "rope_parameters": {name: {"rope_type": "default", "rope_theta": theta}
                                     for name, theta in ((FULL, 5000.0), (SLIDING, 100.0))}},
    ),
}  # fmt: skip
"""{architecture: objective, class, config}, with structural options of every kind that are not our defaults."""
OURS = {"vocab_size", "max_position_embeddings", "type_vocab_size", "model_type", "architectures", "dtype"}


def saved(folder: Path, class_name: str, values: dict[str, Any]) -> Path:
    kind = getattr(transformers, class_name)
    torch.manual_seed(1)
    model = kind(kind.config_class(**{"initializer_range": 0.5} | values))
    model.save_pretrained(folder)
    backend(OLD).save(str(folder / "morphemes.json"))
    return folder


@pytest.mark.parametrize("name", BASES)
def test_a_model_starts_with_the_config_and_the_weights_of_its_base(name: str, tmp_path: Path) -> None:
    objective, class_name, values = BASES[name]
    folder = saved(tmp_path / "base", class_name, values)
    options = PretrainOptions(objective=objective, base=str(folder), max_length=32)
    options, model, counts = initial_model(options, None, backend(OLD), folder, None)
    theirs = getattr(transformers, class_name).from_pretrained(folder)
    config, base_config = model.config.to_dict(), theirs.config.to_dict()
    differing = {key for key in config.keys() & base_config.keys() if config[key] != base_config[key]}
    assert {key for key in differing if not key.endswith(("_token_id", "_name_or_path"))} <= OURS
    assert not any("drop" in str(module) and getattr(module, "p", 0) for module in model.modules())
    ids = torch.randint(5, len(OLD), (2, 24), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ours, expected = model.eval()(input_ids=ids), theirs.eval()(input_ids=ids)
    logits = "prediction_logits" if "prediction_logits" in expected else "logits"
    assert torch.equal(getattr(ours, logits), getattr(expected, logits))
    assert float(expected[logits].std()) > 0.1, "so that equality says something"
    assert counts["weights_started_at_random"] == 0 and "new_head" not in counts
    assert options.architecture.max_position_embeddings == 64 and options.architecture.hidden_size == 32


def test_both_segments_of_a_pair_are_of_the_only_type_that_a_base_knows(tmp_path: Path) -> None:
    objective, class_name, values = BASES["roberta"]
    folder = saved(tmp_path / "base", class_name, values)
    options = PretrainOptions(objective=objective, base=str(folder), max_length=32)
    model = initial_model(options, None, backend(OLD), folder, None)[1].eval()
    ids = torch.arange(5, len(OLD))[None]
    with torch.no_grad():
        first, second = (model(input_ids=ids, token_type_ids=torch.full_like(ids, kind)).logits for kind in (0, 1))
    assert torch.equal(first, second)


def recipe(folder: Path, data: Path, **pretrain: Any) -> Path:
    content = {
        "data_dir": str(data),
        "corpus": {"sources": [{"name": "text", "path": "documents/legal.txt", "license": "CC0-1.0"}]},
        "tokenizer": {"subword": {"name": "wordpiece", "vocab_size": 1500}},
        "pretrain": {"objective": "mlm", "max_length": 32, "batch_tokens": 256, "total_tokens": 1000} | pretrain,
    }
    path = folder / "domain.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("base", "architecture", "expected"),
    [
        (
            "modernbert",
            {"num_hidden_layers": 2, "hidden_size": 32, "global_attn_every_n_layers": 3, "local_attention": 128},
            "num_hidden_layers 2 (the base has 4), global_attn_every_n_layers 3 (the base has none), "
            "local_attention 128 (the base has 4)",
        ),
        ("bert", "modernbert", "name 'modernbert' (the base has 'bert')"),
        (
            "electra",
            {"name": "bert", "hidden_size": 64, "num_attention_heads": 4},
            "name 'bert' (the base has 'electra'), hidden_size 64 (the base has 32)",
        ),
        (
            "roberta",
            {"name": "roberta", "max_position_embeddings": 66, "intermediate_size": 128},
            "max_position_embeddings 66 (the base has 64), intermediate_size 128 (the base has 48)",
        ),
    ],
)
def test_check_names_all_that_a_recipe_says_otherwise(
    base: str, architecture: Any, expected: str, tmp_path: Path, corpora: Path, kobert: Callable
) -> None:
    folder = saved(tmp_path / base, *BASES[base][1:])
    complaint = kobert("check", recipe(tmp_path, corpora, base=str(folder), architecture=architecture)).complaint
    assert f"pretrain.architecture is not that of pretrain.base {folder}: {expected}; leave" in complaint


@pytest.mark.parametrize(
    ("base", "architecture"),
    [
        ("modernbert", None),
        ("bert", {"hidden_size": 32, "num_hidden_layers": 4}),
        ("gpt2", {"name": "gpt2", "num_attention_heads": 4, "intermediate_size": 48}),
        ("xlm-roberta", "roberta"),
    ],
)
def test_a_recipe_may_say_nothing_about_the_architecture_or_what_is_so(
    base: str, architecture: Any, tmp_path: Path, corpora: Path, kobert: Callable
) -> None:
    folder = saved(tmp_path / base, *BASES[base][1:])
    stated = {"architecture": architecture} if architecture else {}
    path = recipe(tmp_path, corpora, base=str(folder), objective=BASES[base][0], **stated)
    assert "domain.yaml: valid" in kobert("check", path).out


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"architecture": {"hidden_sizes": 32}}, "unknown key 'hidden_sizes'"),
        ({"max_length": 128}, "pretrain.max_length 128 is beyond the architecture's max_position_embeddings 64"),
        ({"objective": "clm"}, "objective clm needs a model of kind 'causal', which bert does not have"),
    ],
)
def test_what_a_base_cannot_do_is_refused_in_check(
    changes: dict[str, Any], expected: str, tmp_path: Path, corpora: Path, kobert: Callable
) -> None:
    folder = saved(tmp_path / "base", *BASES["bert"][1:])
    assert expected in kobert("check", recipe(tmp_path, corpora, base=str(folder), **changes)).complaint


def test_the_objective_of_a_recipe_without_architecture_must_fit_the_default_one(
    tmp_path: Path, corpora: Path, kobert: Callable
) -> None:
    complaint = kobert("check", recipe(tmp_path, corpora, objective="clm")).complaint
    assert "pretrain.objective clm needs a model of kind 'causal', which bert does not have" in complaint


@pytest.mark.parametrize("model_type", ["t5", "llama", "splinter"])
def test_a_base_of_another_type_is_refused_in_check(
    model_type: str, tmp_path: Path, corpora: Path, kobert: Callable
) -> None:
    folder = saved(tmp_path / "base", *BASES["bert"][1:])
    write_json(folder / "config.json", read_json(folder / "config.json") | {"model_type": model_type})
    complaint = kobert("check", recipe(tmp_path, corpora, base=str(folder))).complaint
    assert f"is of the type '{model_type}', which cannot be pretrained further (allowed: albert" in complaint


def test_a_base_and_its_vocabulary_may_be_a_model_of_the_clone(tmp_path: Path, corpora: Path, kobert: Callable) -> None:
    path = recipe(tmp_path, corpora, base="mini-nsmc")
    more = ("--set", "tokenizer.base=mini-nsmc", "--set", "tokenizer.subword.vocab_size=32100")
    report = kobert("check", path, *more).out
    assert "mini-nsmc is a ModernBertForSequenceClassification without MLM head" in report
    complaint = kobert("check", path, *more, "--set", "analysis.analyzer.style=lemma").complaint
    assert "mini-nsmc was made with style 'surface', the analysis with 'lemma'" in complaint


def test_a_name_that_is_neither_here_nor_on_the_hub_is_refused_in_check(
    tmp_path: Path, corpora: Path, kobert: Callable
) -> None:
    assert "could not be fetched" in kobert("check", recipe(tmp_path, corpora, base="no/such")).complaint
    assert "neither a folder" in kobert("check", recipe(tmp_path, corpora, base="a/b/c")).complaint


def test_a_head_that_a_classifier_lacks_is_said_wherever_the_run_is_shown(
    tiny: Any, tmp_path: Path, kobert: Callable
) -> None:
    base, run_dir = tiny.run_dir / "publish" / "nsmc", tiny.copy(tmp_path / "runs" / "legal", "corpus", "analysis")
    settings = {
        "pretrain.base": base, "tokenizer.base": base, "pretrain.architecture": "bert", "pretrain.objective": "mlm",
        "pretrain.total_tokens": 4000, "features": {}, "finetune": {},
        "publish": "{mlm: {source: pretrain, onnx: false}}",
    }  # fmt: skip
    arguments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    report = kobert("check", tiny.recipe, *arguments).out
    sentence = "is a BertForSequenceClassification without MLM head, which would be learned anew"
    assert f"warning: {base} {sentence}" in report
    assert f"start from {tiny.run_dir / 'publish' / 'mlm'}, the pretrained model of the same run" in report

    result = kobert("run", tiny.recipe, "--run-dir", run_dir, "--num-workers", 1, *arguments)
    counts = read_json(run_dir / "pretrain" / "manifest.json")["counts"]
    head = counts["new_head"]
    assert head["heads"] == "MLM head" and head["loss"] == counts["held_out_before"]["mlm_loss"]
    assert head["uniform_loss"] == pytest.approx(torch.tensor(1500.0).log().item())
    assert head["loss"] == pytest.approx(head["uniform_loss"], abs=1.0)
    said = f"MLM head learned anew: loss {head['loss']:.2f} before the first step, a uniform guess has 7.31"
    assert f"note     {said}" in result.err and said in " ".join(result.out.split())
    assert f"own pretraining from {base}; {said}" in kobert("compare", run_dir).out
    assert said in (run_dir / "publish" / "mlm" / "README.md").read_text(encoding="utf-8")
    # the pretrained model of that run has the head, and nothing is said
    better = kobert("check", tiny.recipe, *arguments, "--set", f"pretrain.base={base.parent / 'mlm'}")
    assert "learned anew" not in better.out


def test_the_pretrained_model_of_a_run_that_did_not_publish_it_is_recommended(
    tiny: Any, tmp_path: Path, corpora: Path, kobert: Callable
) -> None:
    run_dir = tiny.copy(tmp_path / "runs" / "tiny", "pretrain", "publish")
    (run_dir / "publish" / "mlm").rename(tmp_path / "elsewhere")
    report = kobert("check", recipe(tmp_path, corpora, base=str(run_dir / "publish" / "nsmc"))).out
    assert f"{run_dir} has the pretrained model: add `publish: {{mlm: {{source: pretrain}}}}` to its recipe" in report


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"vocab_size": True}, "vocab_size is True"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"vocab_size": 100, "hidden_size": "wide"}, "is not the config of a model"),
    ],
)
def test_a_config_that_makes_no_model_to_start_from_is_refused(values: dict[str, Any], said: str, tmp_path: Path):
    write_json(tmp_path / "config.json", {"model_type": "bert"} | values)
    with pytest.raises(UserError, match=said) as refused:
        read_config(tmp_path)
    assert str(refused.value).startswith(f"pretrain.base: {tmp_path / 'config.json'} ")
    assert str(refused.value).endswith("give another folder")
