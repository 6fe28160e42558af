"""The loss and gradient that the CPU computes in one matrix equal PyTorch's cross-entropy of a linear layer."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from kobert_pipeline.pretrain import linear_cross_entropy as module
from kobert_pipeline.tokenizer.special_tokens import IGNORE_INDEX

ROWS, WIDTH, VOCABULARY = 13, 8, 50


def results(fast: bool, bias: bool, dtype: torch.dtype, labels: torch.Tensor) -> list[torch.Tensor]:
    """The loss, and its gradients for the states and every weight."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(WIDTH, VOCABULARY, bias=bias)
    states = torch.randn(ROWS, WIDTH, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        if fast:
            loss = module.linear_cross_entropy(states, layer, labels)
        else:
            loss = cross_entropy(layer(states).float(), labels, reduction="sum", ignore_index=IGNORE_INDEX)
    (0.3 * loss).backward()
    return [loss.detach(), states.grad, *(parameter.grad for parameter in layer.parameters())]


def test_loss_and_gradients_equal_those_of_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = torch.randint(VOCABULARY, (ROWS,), generator=torch.Generator().manual_seed(1))
    some_ignored = labels.masked_fill(torch.arange(ROWS) % 3 == 0, IGNORE_INDEX)
    all_ignored = torch.full_like(labels, IGNORE_INDEX)
    tolerance = {torch.float32: 1e-6, torch.bfloat16: 2e-2}
    for chunk in (1, 4 * VOCABULARY, 2**20):  # one row at a time, chunks with a rest, all rows
        monkeypatch.setattr(module, "CHUNK_NUMBERS", chunk)
        for given in (labels, some_ignored, all_ignored):
            for bias in (True, False):
                for dtype, largest in tolerance.items():
                    found, expected = (results(fast, bias, dtype, given) for fast in (True, False))
                    assert [one.dtype for one in found] == [one.dtype for one in expected]
                    for one, other in zip(found, expected, strict=True):
                        torch.testing.assert_close(one, other, rtol=largest, atol=largest)


def test_nothing_to_predict_costs_nothing() -> None:
    layer = torch.nn.Linear(WIDTH, VOCABULARY)
    states = torch.empty(0, WIDTH, requires_grad=True)
    loss = module.linear_cross_entropy(states, layer, torch.empty(0, dtype=torch.int64))
    loss.backward()
    assert loss == 0 and not layer.weight.grad.any()
