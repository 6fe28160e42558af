"""The loss that is computed together with its gradient equals PyTorch's cross-entropy of a linear layer."""

from itertools import product

import pytest
import torch
from torch.nn.functional import cross_entropy

from kobert_pipeline.pretrain import linear_cross_entropy as module
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

ROWS, WIDTH, VOCABULARY = 13, 8, 50


def results(rows_at_once: int | None, bias: bool, dtype: torch.dtype, labels: torch.Tensor) -> list[torch.Tensor]:
    """The loss, and its gradients for the states and every weight; by PyTorch where `rows_at_once` is None."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(WIDTH, VOCABULARY, bias=bias)
    states = torch.randn(ROWS, WIDTH, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        if rows_at_once:
            loss, sampled = module.linear_cross_entropy(states, layer, labels, rows_at_once)
            assert sampled is None
        else:
            loss = cross_entropy(layer(states).float(), labels, reduction="sum", ignore_index=IGNORE_INDEX)
    (0.3 * loss).backward()
    return [loss.detach(), states.grad, *(parameter.grad for parameter in layer.parameters())]


def test_loss_and_gradients_equal_those_of_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = torch.randint(VOCABULARY, (ROWS,), generator=torch.Generator().manual_seed(1))
    some_ignored = labels.masked_fill(torch.arange(ROWS) % 3 == 0, IGNORE_INDEX)
    all_ignored = torch.full_like(labels, IGNORE_INDEX)
    tolerance = {torch.float32: 1e-6, torch.bfloat16: 2e-2}
    # one row at a time, chunks with a rest, all rows
    for rows_at_once, cached in ((ROWS, 1), (ROWS, 4 * VOCABULARY), (ROWS, 2**20), (1, 2**20), (5, 2 * VOCABULARY)):
        monkeypatch.setattr(module, "CACHED_LOGITS", cached)
        for given in (labels, some_ignored, all_ignored):
            for bias, (dtype, largest) in product((True, False), tolerance.items()):
                found, expected = (results(rows, bias, dtype, given) for rows in (rows_at_once, None))
                assert [one.dtype for one in found] == [one.dtype for one in expected]
                for one, other in zip(found, expected, strict=True):
                    torch.testing.assert_close(one, other, rtol=largest, atol=largest)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_compiled_equals_what_is_not(dtype: torch.dtype, bias: bool) -> None:
    torch.manual_seed(0)
    logits = 3 * torch.randn(ROWS, VOCABULARY).to(dtype)
    labels = torch.randint(VOCABULARY, (ROWS,)).masked_fill(torch.arange(ROWS) % 3 == 0, IGNORE_INDEX)
    plain, compiled = module.LogitsGradient(), module.LogitsGradient()
    compiled.compile(backend="aot_eager", fullgraph=True)
    results = []
    for gradient in (plain, compiled):
        of_logits, of_bias = logits.clone(), torch.ones(VOCABULARY) if bias else None
        results.append((gradient(of_logits, labels, of_bias), of_logits, of_bias))
    assert not results[0][1][0].any() and results[0][1][1].any(), "the first row has no label"
    torch.testing.assert_close(results[1], results[0])


def test_samples_are_of_the_logits_and_have_no_gradient() -> None:
    torch.manual_seed(0)
    layer, states = torch.nn.Linear(WIDTH, VOCABULARY), torch.randn(ROWS, WIDTH, requires_grad=True)
    labels = torch.randint(VOCABULARY, (ROWS,))
    for rows_at_once in (1, 5, ROWS):
        _, sampled = module.linear_cross_entropy(states, layer, labels, rows_at_once, lambda logits: logits.argmax(-1))
        assert sampled is not None and not sampled.requires_grad
        assert torch.equal(sampled, layer(states).argmax(-1))


def test_nothing_to_predict_costs_nothing() -> None:
    layer = torch.nn.Linear(WIDTH, VOCABULARY)
    states = torch.empty(0, WIDTH, requires_grad=True)
    none = torch.empty(0, dtype=torch.int64)
    loss, sampled = module.linear_cross_entropy(states, layer, none, 5, lambda logits: logits.argmax(-1))
    loss.backward()
    assert loss == 0 and not layer.weight.grad.any()
    assert sampled is not None and sampled.shape == (0,) and sampled.dtype == torch.int64
