"""The last layer for the first token alone, compared with the whole layer of `transformers`."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from kobert_pipeline.features.format import Features, features_of_ids
from kobert_pipeline.finetune.encoder_layers import FIRST_TOKEN_CLASSES, first_token_view, keep_first_token
from kobert_pipeline.finetune.model import logits
from kobert_pipeline.pretrain.architecture import Architecture

FAMILIES = ("bert", "roberta", "electra")


def two_models(
    name: str, attention: str, auto_class: str = "AutoModelForSequenceClassification", dropout: float = 0.0
) -> list[torch.nn.Module]:
    """The model, and one with the same weights whose last layer is shortened."""
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4}
    config = Architecture.choose({"name": name, **sizes}).config(100)
    config = getattr(config, "discriminator", config)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
    plain, short = (getattr(transformers, auto_class).from_config(config) for _ in range(2))
    short.load_state_dict(plain.state_dict())
    for model in (plain, short):
        model.set_attn_implementation(attention)
    keep_first_token(short)
    return [plain, short]


def rows_of(lengths: list[int]) -> Features:
    rng = np.random.default_rng(1)
    return features_of_ids([rng.integers(5, 100, length).tolist() for length in lengths])


def a_batch(lengths: list[int]) -> dict[str, torch.Tensor]:
    width = max(lengths)
    mask = torch.tensor([[int(place < length) for place in range(width)] for length in lengths])
    ids = torch.randint(5, 100, mask.shape, generator=torch.Generator().manual_seed(1)) * mask
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.arange(len(lengths)) % 2}


def test_loss_logits_and_all_gradients_equal_those_of_the_whole_layer() -> None:
    for name, lengths, attention in product(FAMILIES, [[9, 9, 9], [3, 12, 7, 1], [1]], ["sdpa", "eager"]):
        plain, short = two_models(name, attention)
        found, expected = (model(**a_batch(lengths)) for model in (short, plain))
        torch.testing.assert_close(found.logits, expected.logits, rtol=1e-5, atol=1e-6)
        for output in (found, expected):
            (100 * output.loss).backward()
        for (parameter, one), two in zip(short.named_parameters(), plain.parameters(), strict=True):
            assert (one.grad is None) == (two.grad is None), parameter
            if one.grad is not None:
                torch.testing.assert_close(
                    one.grad,
                    two.grad,
                    rtol=1e-4,
                    atol=1e-5,
                    msg=lambda text, parameter=parameter: f"{parameter}: {text}",
                )


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_bf16_logits_are_as_near_as_those_of_the_whole_layer(attention: Any) -> None:
    plain, short = two_models("bert", attention)
    exact = plain(**a_batch([3, 12, 7])).logits
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = (model(**a_batch([3, 12, 7])).logits.float() for model in (short, plain))
    assert (found - exact).abs().max() < 2 * (expected - exact).abs().max() + 1e-3, attention


def test_dropout_is_still_there_in_training_and_not_in_evaluation() -> None:
    _, short = two_models("bert", "eager", dropout=0.5)
    batch = a_batch([5, 8])
    one, two = (short.train()(**batch).logits for _ in range(2))
    assert not torch.equal(one, two)
    assert torch.equal(short.eval()(**batch).logits, short(**batch).logits)


def test_the_last_state_is_that_of_the_first_token_alone() -> None:
    _, short = two_models("bert", "sdpa")
    assert short.base_model(input_ids=torch.arange(5, 15)[None]).last_hidden_state.shape == (1, 1, 32)


def test_other_models_stay_as_they_are() -> None:
    for name, auto_class in [("bert", "AutoModelForQuestionAnswering"), ("bert", "AutoModelForTokenClassification")] + [
        (name, "AutoModelForSequenceClassification") for name in ("albert", "modernbert", "gpt2")
    ]:
        plain, short = two_models(name, "sdpa", auto_class)
        assert type(plain).__name__ not in FIRST_TOKEN_CLASSES, (name, auto_class)
        batch = {key: value for key, value in a_batch([6, 6]).items() if key != "labels"}
        for model in (plain, short):
            model.config.pad_token_id = 0
        for one, two in zip(short.eval()(**batch).values(), plain.eval()(**batch).values(), strict=True):
            if isinstance(one, torch.Tensor):
                assert torch.equal(one, two), (name, auto_class)


def test_what_is_saved_is_the_plain_model(tmp_path) -> None:
    plain, short = two_models("electra", "sdpa")
    short.save_pretrained(tmp_path)
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    batch = a_batch([4, 7])
    torch.testing.assert_close(again(**batch).logits, plain.eval()(**batch).logits)


def test_predictions_use_it_and_leave_the_model_as_it_is() -> None:
    features = rows_of([3, 12, 7, 1, 30])
    for name in FAMILIES:
        plain, _ = two_models(name, "sdpa")
        view = first_token_view(plain.eval())
        inputs = {"input_ids": torch.tensor([features.arrays["input_ids"][:3].tolist()])}
        expected = plain(**inputs).logits
        torch.testing.assert_close(view(**inputs).logits, expected, rtol=1e-5, atol=1e-6)
        assert view.base_model(**inputs).last_hidden_state.shape == (1, 1, 32)
        found = logits(plain, features, 2, "cpu")["logits"]
        starts = features.arrays["windows"]
        for row, values in enumerate(found):
            ids = torch.tensor([features.arrays["input_ids"][starts[row] : starts[row + 1]].tolist()])
            np.testing.assert_allclose(values, plain(input_ids=ids).logits[0].detach(), rtol=1e-5, atol=1e-6)
        # the model itself still has all states, and its weights are those of the view
        assert plain.base_model(**inputs).last_hidden_state.shape == (1, 3, 32)
        assert torch.equal(plain(**inputs).logits, expected)
        assert [id(one) for one in view.parameters()] == [id(one) for one in plain.parameters()]


def test_the_view_of_another_model_is_the_model() -> None:
    plain, _ = two_models("bert", "sdpa", "AutoModelForTokenClassification")
    assert first_token_view(plain) is plain
