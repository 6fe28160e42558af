"""Predictions of packed texts, compared with the model of `transformers` and one text at a time."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.finetune.model import drop_unsupported_inputs, logits
from kobert_pipeline.finetune.packed import PACKED_CLASSES, packed, packed_view
from kobert_pipeline.pretrain.architecture import Architecture

LENGTHS = [3, 12, 7, 1, 30, 12, 16, 17]


def a_model(name: str, auto_class: str = "AutoModelForSequenceClassification", **options: Any) -> Any:
    """A small model, so random that every token changes the logits."""
    sizes = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4}
    config = Architecture.choose({"name": name, **sizes, **options}).config(100)
    config = getattr(config, "discriminator", config)
    config.initializer_range = 0.3
    torch.manual_seed(0)
    return getattr(transformers, auto_class).from_config(config).eval()


def pairs() -> Features:
    """Rows of these lengths with two segments, and [PAD]'s id among the tokens."""
    rng = np.random.default_rng(1)
    features = features_of_ids([rng.integers(0, 100, length).tolist() for length in LENGTHS])
    features.arrays["token_type_ids"] = rng.integers(0, 2, sum(LENGTHS))
    return features


@torch.no_grad()
def alone(model: Any, features: Features) -> np.ndarray:
    """The logits of each row by itself, (n, labels)."""
    rows = zip(features.arrays["windows"][:-1], features.arrays["windows"][1:], strict=True)
    inputs = [
        {name: torch.as_tensor(features.arrays[name][a:b])[None].long() for name in ("input_ids", "token_type_ids")}
        for a, b in rows
    ]
    outputs = [model(**drop_unsupported_inputs(model, one)) for one in inputs]
    return np.concatenate([output.logits.float().numpy() for output in outputs])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bert", {}),
        ("electra", {}),
        ("roberta", {}),
        ("modernbert", {"local_attention": 8}),
        ("modernbert", {"local_attention": 8, "classifier_pooling": "mean"}),
    ],
)
def test_logits_are_those_of_each_text_alone(name: str, options: dict[str, Any]) -> None:
    model = a_model(name, **options)
    features = pairs()
    if name == "roberta":  # is not packed, since its positions count what is not [PAD]; it has one segment
        features = features_of_ids([[5 + number] * length for number, length in enumerate(LENGTHS)])
    assert (type(model).__name__ in PACKED_CLASSES) == (packed_view(model, "cpu") is not None) == (name != "roberta")
    expected = alone(model, features)
    for batch_size in (64, 3):
        found = np.stack(logits(model, features, batch_size, "cpu")["logits"])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(alone(model, features), expected)  # the model itself is as it was


def test_layers_compute_no_padding_and_the_last_one_only_first_tokens() -> None:
    model, seen = a_model("bert"), []
    for layer in model.bert.encoder.layer:
        layer.intermediate.register_forward_hook(lambda part, given, out: seen.append(out.shape[1]))
    logits(model, pairs(), 64, "cpu")
    assert seen == [sum(LENGTHS), sum(LENGTHS), len(LENGTHS)]


def test_bf16_and_empty_rows_are_not_packed() -> None:
    model, seen = a_model("bert"), []
    model.bert.embeddings.register_forward_hook(lambda part, given, out: seen.append(out.shape[:2]))
    logits(model, features_of_ids([[5, 6, 7], [8]]), 64, "cpu", bf16=True)
    rows = features_of_ids([[5, 6, 7], [], [8]])
    found = np.stack(logits(model, rows, 64, "cpu")["logits"])
    assert seen == [(2, 3), (3, 3)]
    np.testing.assert_allclose(found[[0, 2]], alone(model, features_of_ids([[5, 6, 7], [8]])), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["electra", "modernbert"])
def test_the_view_shares_the_weights_and_leaves_the_model_as_it_is(name: str) -> None:
    model = a_model(name)
    view = packed_view(model, "cpu")
    assert {id(one) for one in view.parameters()} == {id(one) for one in model.parameters()}
    inputs = drop_unsupported_inputs(model, packed(pairs(), np.arange(len(LENGTHS))))
    assert view(**inputs).logits.shape == (len(LENGTHS), 2)
    assert model.base_model(input_ids=torch.tensor([[5, 6, 7]])).last_hidden_state.shape == (1, 3, 32)
    assert model.config._attn_implementation != "packed"


def test_other_models_and_devices_have_no_view() -> None:
    assert packed_view(a_model("bert", "AutoModelForTokenClassification"), "cpu") is None
    assert packed_view(a_model("albert"), "cpu") is None
    model = a_model("bert")
    assert packed_view(model, "cuda") is None
    model.config.is_decoder = True
    assert packed_view(model, "cpu") is None
