"""Prepacked linear layers give what PyTorch's own give, and stand aside where they do not fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import linear

from kobert_pipeline.features.format import features_of_ids
from kobert_pipeline.finetune.model import logits
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.prepack import SMALLEST, prepack
from kobert_pipeline.pretrain.architecture import Architecture


def encoder(name: str) -> Any:
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2}
    torch.manual_seed(0)
    architecture = Architecture.choose({"name": name, **sizes})
    return architecture.model(architecture.config(100), architecture.heads[0] if name == "splinter" else "mlm").eval()


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(SMALLEST, 70), st.integers(SMALLEST, 70),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_a_layer_gives_the_same(shape: list[int], inputs: int, outputs: int, bias: bool, transposed: bool) -> None:
    layer = torch.nn.Linear(inputs, outputs, bias=bias)
    states = torch.randn(*shape, inputs)
    if transposed and len(shape) > 1:
        states = states.transpose(0, 1)
    expected = linear(states, layer.weight, layer.bias).detach()
    assert prepack(torch.nn.Sequential(layer)) == 1
    with torch.inference_mode():
        torch.testing.assert_close(layer(states), expected, rtol=1e-5, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(states), linear(states, layer.weight, layer.bias))
    with torch.no_grad():
        double = linear(states.double(), layer.weight.double(), None if layer.bias is None else layer.bias.double())
    layer.double()
    torch.testing.assert_close(layer(states.double()).detach(), double)


@pytest.mark.parametrize("name", ["bert", "albert", "modernbert"])
def test_a_model_gives_the_same_and_keeps_its_weights(name: str, tmp_path: Path) -> None:
    model, plain = encoder(name), encoder(name)
    number = prepack(model)
    linears = [part for part in plain.modules() if isinstance(part, torch.nn.Linear)]
    assert number >= 4 and number == len([part for part in linears if min(part.weight.shape) >= SMALLEST]) - (
        model.get_output_embeddings() is not None
    ), "all but the layer that shares the embeddings"
    inputs = {"input_ids": torch.arange(5, 25)[None], "attention_mask": torch.ones(1, 20, dtype=torch.long)}
    with torch.inference_mode():
        torch.testing.assert_close(model(**inputs)[0], plain(**inputs)[0], rtol=1e-4, atol=1e-5)
    assert model.state_dict().keys() == plain.state_dict().keys()
    model.save_pretrained(tmp_path)
    loaded = type(plain).from_pretrained(tmp_path).eval()
    with torch.inference_mode():
        assert torch.equal(loaded(**inputs)[0], plain(**inputs)[0])


def test_predictions_of_packed_texts_use_it(tiny: Any) -> None:
    checkpoint = Checkpoint.load(tiny.run_dir / "publish" / "nsmc")
    features = features_of_ids([[2, *range(5, 5 + length), 3] for length in (3, 9, 1, 20)])
    expected = np.stack(logits(checkpoint.model, features, 16, "cpu")["logits"])
    number = prepack(checkpoint.model)
    with pytest.MonkeyPatch.context() as patch:
        calls: list[int] = []
        operation = torch.ops.mkldnn._linear_pointwise

        def counted(*given: Any) -> torch.Tensor:
            calls.append(1)
            return operation(*given)

        patch.setattr(torch.ops.mkldnn, "_linear_pointwise", counted)
        found = np.stack(logits(checkpoint.model, features, 16, "cpu")["logits"])
    assert len(calls) == number > 0
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_pytorch_without_the_operation_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    model = encoder("bert")
    assert prepack(model) == 0
    assert not any("forward" in vars(part) for part in model.modules() if isinstance(part, torch.nn.Linear))
