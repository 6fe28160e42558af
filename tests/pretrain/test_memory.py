"""The estimated peak memory of pretraining against counted peaks, and what `kobert check` says of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.cli.formatting import memory_sentence
from kobert_pipeline.pipeline.check import pretraining_memory
from kobert_pipeline.pipeline.stages import plan
from kobert_pipeline.pretrain import losses
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.memory import USABLE, MemoryModel
from kobert_pipeline.pretrain.options import PretrainOptions

COUNTED = Path(__file__).parents[2] / "docs" / "results" / "engine" / "memory.json"
SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads")
BASE = {"name": "bert", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12}
GIB = 2**30


def memory_model(row: dict[str, Any]) -> MemoryModel:
    masked = {"mlm_probability": row["mlm_probability"]} if row["mlm_probability"] else {}
    options = PretrainOptions(
        objective={"name": row["objective"], **masked},
        architecture={"name": row["architecture"], **{name: row[name] for name in SIZES}},
    )
    bf16, muon = row["mixed_precision"] == "bf16", row["optimizer"] == "muon"
    return MemoryModel(options.architecture, options.objective, row["vocab_size"], bf16, muon)


def counted_rows() -> Iterator[dict[str, Any]]:
    yield from json.loads(COUNTED.read_text(encoding="utf-8"))["rows"]


def test_estimates_are_within_15_percent_of_every_counted_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list(counted_rows())
    assert len({(row["objective"], row["architecture"]) for row in rows}) == 7
    for row in rows:
        with monkeypatch.context() as patch:
            if row["logits_chunk_size"]:
                patch.setattr(losses, "CHUNK_LOGITS", row["logits_chunk_size"] * row["vocab_size"])
            peak = memory_model(row).peak(row["tokens"])
        assert peak.total == pytest.approx(row["counted_bytes"], rel=0.15), row


def test_parameters_are_those_of_a_built_model() -> None:
    import torch

    for row in counted_rows():
        if row["tokens"] == 16384 and row["vocab_size"] == 32_000:
            architecture, objective, vocab_size, *_ = memory_model(row)
            with torch.device("meta"):
                model = architecture.model(architecture.config(vocab_size), objective.head)
            built = sum(parameter.numel() for parameter in model.parameters())
            estimate = architecture.parameter_count(vocab_size, objective.head)
            assert estimate == pytest.approx(built, rel=0.08), (
                row
            )  # ALBERT's one layer makes its biases and pooler count


@pytest.mark.parametrize("name", ["bert", "roformer", "modernbert"])
def test_rotary_positions_are_no_parameters(name: str) -> None:
    import torch

    architecture = Architecture.choose({"name": name, "max_position_embeddings": 2048})
    with torch.device("meta"):
        model = architecture.model(architecture.config(32_000), "masked")
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert architecture.parameter_count(32_000, "masked") == pytest.approx(trained, rel=0.01)


def test_muon_saves_one_moment_of_the_matrices_that_it_takes() -> None:
    import torch

    from kobert_pipeline.training.optimizer import hidden_matrices

    for row in counted_rows():
        if row["tokens"] == 16384 and row["vocab_size"] == 32_000 and row["optimizer"] == "adamw":
            adamw, muon = (memory_model(row | {"optimizer": name}) for name in ("adamw", "muon"))
            with torch.device("meta"):
                model = adamw.architecture.model(adamw.architecture.config(32_000), adamw.objective.head)
            saved = adamw.peak(1024).weights - muon.peak(1024).weights
            assert saved == pytest.approx(4 * sum(one.numel() for one in hidden_matrices(model)), rel=0.15), row


def test_as_many_tokens_fit_as_the_estimate_allows() -> None:
    for row in counted_rows():
        model = memory_model(row)
        tokens = model.tokens_that_fit(24 * GIB)
        assert tokens % 1024 == 0
        assert model.peak(tokens).total <= USABLE * 24 * GIB < model.peak(tokens + 1024).total
    huge = PretrainOptions(architecture=BASE | {"hidden_size": 12 * 1024, "num_hidden_layers": 96})
    assert MemoryModel(huge.architecture, huge.objective, 64_000, True).tokens_that_fit(80 * GIB) == 0


def test_a_chunk_of_logits_is_all_that_a_larger_vocabulary_adds() -> None:
    options = PretrainOptions(architecture=BASE)
    small, large = (MemoryModel(options.architecture, options.objective, v, True).peak(131_072) for v in (2**16, 2**17))
    assert small.logits == large.logits == 10 * 2**29
    assert small.activations == large.activations


def test_recipe_base_fits_80_gb_and_says_what_fits_less() -> None:
    given = {(): (43, "fits 80 GB; 51,200 tokens fit 24 GB, 104,448 tokens fit 40 GB (set pretrain.plan.")}
    given |= {("pretrain.plan.max_tokens_per_device=262_144",): (79, "does not fit 80 GB; 51,200 tokens fit 24 GB, ")}
    given |= {("pretrain.plan.max_tokens_per_device=16_384",): (9, "fits 24 GB, 40 GB, 80 GB.")}
    for settings, (gib, verdict) in given.items():
        recipe, _ = plan("base", list(settings), None, None)
        memory = pretraining_memory(recipe)
        assert memory and memory["bytes"] == memory["weights"] + memory["activations"] + memory["logits"]
        sentence = memory_sentence(memory)
        assert f"Pretraining needs about {gib} GiB of GPU memory for {memory['tokens']:,} tokens" in sentence
        assert verdict in sentence
        assert "\n" not in sentence


def test_fsdp_shards_weights_over_the_ranks_but_not_activations() -> None:
    options = PretrainOptions(architecture=BASE)
    whole, two, many = (
        MemoryModel(options.architecture, options.objective, 64_000, True, shards=ranks).peak(16_384)
        for ranks in (1, 2, 1024)
    )
    assert whole[1:] == two[1:] == many[1:]
    # what is not sharded: weights, 16-bit copies and gradients of embeddings and heads (50 M) and two of twelve layers
    parameters = options.architecture.parameter_count(64_000, options.objective.head)
    assert many.weights == pytest.approx(10 * (parameters - 85e6 * 10 / 12), rel=0.02)
    assert whole.weights > two.weights > whole.weights / 2


def test_check_counts_fsdp(kobert: Any) -> None:
    deep, fsdp = "pretrain.architecture.num_hidden_layers=12", ("--set", "pretrain.plan.fsdp=true")
    plain, sharded = (
        kobert("check", "tiny", "--set", deep, *more, "--json").json["pretraining_memory"] for more in ((), fsdp)
    )
    assert (plain["fsdp_ranks"], sharded["fsdp_ranks"]) == (1, 2)
    assert sharded["weights"] < plain["weights"]
    printed = kobert("check", "tiny", *fsdp).out
    assert "of memory on each of 2 GPUs (FSDP; more GPUs need less each) for 4,096 tokens" in printed


def test_check_prints_the_memory_of_a_recipe_that_pretrains(kobert: Any) -> None:
    printed = kobert("check", "tiny").out
    memory = kobert("check", "tiny", "--json").json["pretraining_memory"]
    assert memory["tokens"] == 4096
    assert f"Pretraining needs about {memory['bytes'] / 2**20:.0f} MiB of memory for 4,096 tokens" in printed
    assert "without a GPU that is main memory" in printed
    assert "fit" not in printed.splitlines()[-1], "a small model needs no advice"
    for name in ("nsmc", "korquad"):  # these start from a checkpoint
        recipe, _ = plan(name, None, None, None)
        assert pretraining_memory(recipe) is None
