"""Layer-wise learning-rate decay, compared with layers listed by hand for every architecture."""

import re
from itertools import product
from pathlib import Path

import pytest
import torch
import transformers

from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.encoder_layers import layerwise_lr_decay
from kobert_pipeline.finetune.model import TaskModule, build
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.training.optimizer import optimizer_of, set_learning_rate

DECAY, LAYERS = 0.8, 3
BERT_LIKE = (r"\.(embeddings|embeddings_project)\.", r"\.encoder\.layer\.(\d+)\.")
BY_HAND = {  # what are embeddings, what is a layer and its number; everything else is the head's side
    "bert": BERT_LIKE,
    "roberta": BERT_LIKE,
    "electra": BERT_LIKE,
    "albert": (r"\.(embeddings|embedding_hidden_mapping_in)\.", r"\.albert_layer_groups\.(\d+)\."),
    "modernbert": (r"\.embeddings\.", r"model\.layers\.(\d+)\."),
    "roformer": (r"\.(embeddings|embed_positions)\.", BERT_LIKE[1]),
    "gpt2": (r"\.(wte|wpe)\.", r"transformer\.h\.(\d+)\."),
}
HEADS = ("AutoModelForSequenceClassification", "AutoModelForQuestionAnswering", "AutoModelForTokenClassification")


def a_model(name: str, auto_class: str = HEADS[0]) -> torch.nn.Module:
    sizes = {"num_hidden_layers": LAYERS, "hidden_size": 32, "num_attention_heads": 2}
    config = Architecture.choose({"name": name, **sizes}).config(100)
    return getattr(transformers, auto_class).from_config(getattr(config, "discriminator", config))


def test_every_architecture_is_listed_by_hand() -> None:
    assert set(BY_HAND) == set(Architecture.names())


def test_shares_equal_those_by_hand() -> None:
    for name, auto_class in product(BY_HAND, HEADS):
        if auto_class in Architecture.choose(name).unsupported_heads:
            continue
        model = a_model(name, auto_class)
        embeddings, layer = BY_HAND[name]
        top = 1 if name == "albert" else LAYERS  # one layer's weights, passed three times
        expected = {}
        for parameter, _ in model.named_parameters():
            if found := re.search(layer, f".{parameter}"):
                expected[parameter] = DECAY ** (top - int(found[1]))
            else:
                expected[parameter] = DECAY ** (top + 1) if re.search(embeddings, f".{parameter}") else 1.0
        given = layerwise_lr_decay(model, DECAY)
        assert {parameter: given[value] for parameter, value in model.named_parameters()} == pytest.approx(expected), (
            auto_class,
            name,
        )
        assert {round(share, 6) for share in expected.values()} == {round(DECAY**i, 6) for i in range(top + 2)}, (
            auto_class,
            name,
        )


def test_groups_learn_at_their_share_and_hold_every_parameter_once() -> None:
    for name, optimizer in product(BY_HAND, ["adamw", "muon"]):
        module = TaskModule(a_model(name, "AutoModelForQuestionAnswering"))
        by_parameter = layerwise_lr_decay(module.model, DECAY)
        made = optimizer_of(module, FinetunePlan(optimizer=optimizer, weight_decay=0.3), by_parameter)
        set_learning_rate(made, 0.5)
        held = [parameter for group in made.param_groups for parameter in group["params"]]
        trained = {parameter for parameter in module.parameters() if parameter.requires_grad}
        assert len(held) == len(set(held)) and set(held) == trained, (optimizer, name)
        for group in made.param_groups:
            for parameter in group["params"]:
                assert group["lr"] == pytest.approx(0.5 * by_parameter[parameter]), (optimizer, name)
                assert group["weight_decay"] == (0.3 if parameter.ndim > 1 else 0.0), (optimizer, name)


def test_a_step_is_as_long_as_its_layer_learns(prepared: Path, pretrained: Path) -> None:
    """AdamW's first step moves every weight by its learning rate, times its gradient's sign, as long as nothing
    decays."""
    torch.manual_seed(0)
    plan = FinetunePlan(layerwise_lr_decay=0.5, weight_decay=0.0, dropout=0.0)
    module = TaskModule(build(Task.choose("nsmc"), pretrained, False, plan, 32))
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    optimizer = optimizer_of(module, plan, layerwise_lr_decay(module.model, plan.layerwise_lr_decay))
    set_learning_rate(optimizer, 0.01)
    ids = torch.arange(5, 45).view(4, 10)
    (
        100
        * module({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([0, 1, 0, 1])})[0]
    ).backward()
    optimizer.step()
    moved = {name: (parameter - before[name]).abs().max().item() for name, parameter in module.named_parameters()}
    assert moved["model.classifier.weight"] == pytest.approx(0.01, rel=1e-2)
    assert moved["model.bert.encoder.layer.0.output.dense.weight"] == pytest.approx(0.005, rel=1e-2)
    assert moved["model.bert.embeddings.word_embeddings.weight"] == pytest.approx(0.0025, rel=1e-2)


def test_without_decay_the_groups_and_the_fingerprint_are_those_of_before() -> None:
    module = TaskModule(a_model("bert"))
    groups = optimizer_of(module, FinetunePlan()).param_groups
    assert [group["weight_decay"] for group in groups] == [0.01, 0.0]
    assert all("lr_scale" not in group for group in groups)
    assert not {"layerwise_lr_decay", "early_stopping_patience"} & set(FinetunePlan().dump())
    assert (
        FinetunePlan(layerwise_lr_decay=0.9, early_stopping_patience=2).dump().items()
        >= {"layerwise_lr_decay": 0.9}.items()
    )
