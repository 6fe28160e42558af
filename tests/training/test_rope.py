"""Rotary positions and their gradients equal those of `transformers`."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kobert_pipeline.training.rope import rotary_positions, their_rotary_positions

NEEDS_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def rotate(
    function: Callable[..., Any], rounded: list[torch.dtype], computed: list[torch.dtype], device: str
) -> list[torch.Tensor]:
    """Queries and keys, views of one tensor as in the model, with their positions, and the gradient of that tensor.
    States and angles are rounded to the first two types, and given as the other two."""
    generator = torch.Generator().manual_seed(0)

    def tensor(values: torch.Tensor, number: int) -> torch.Tensor:
        return values.to(rounded[number]).to(device, computed[number])

    states = tensor(torch.randn(2, 33, 3, 4, 16, generator=generator), 0).requires_grad_()
    angles = 6 * torch.rand(2, 33, 8, generator=generator).repeat(1, 1, 2)
    query, key, _ = states.unbind(2)
    outputs = function(query.transpose(1, 2), key.transpose(1, 2), tensor(angles.cos(), 1), tensor(angles.sin(), 1))
    torch.autograd.backward(outputs, [tensor(torch.randn(2, 4, 33, 16, generator=generator), 0) for _ in outputs])
    return [*(output.detach() for output in outputs), states.grad]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
@pytest.mark.parametrize(
    ("types", "tolerance"),
    [
        ([torch.float32, torch.float32], 1e-6),
        ([torch.bfloat16, torch.float32], 2**-8),
        ([torch.bfloat16, torch.bfloat16], 2**-8),  # with residuals in bf16
    ],
)
def test_values_and_gradients_equal_those_of_transformers(
    types: list[torch.dtype], tolerance: float, device: str
) -> None:
    """In bf16, what `transformers` computes in fp32 is rounded once; itself it rounds gradients three times."""
    exact = rotate(their_rotary_positions, types, [torch.float32, torch.float32], device)
    for ours, theirs in zip(rotate(rotary_positions, types, types, device), exact, strict=True):
        assert ours.dtype == types[0]
        torch.testing.assert_close(ours.float(), theirs, rtol=tolerance, atol=1e-6)
