"""What the operators of a profiled step are said to be for."""

import pytest

from kobert_pipeline.pretrain.step_profile import Sizes, category_of

SIZES = Sizes(hidden=768, heads=12, inner=1152, vocab=64_000, tokens=32_768)


@pytest.mark.parametrize(
    ("name", "shapes", "category"),
    [
        ("aten::mm", [[32_768, 768], [768, 2304]], "matrix products"),
        ("aten::mul", [[1, 12, 32_768, 64], [1, 1, 32_768, 64]], "rotary positions, layout of q, k, v"),
        ("aten::_varlen_attn", [[32_768, 12, 64]], "attention kernel"),
        ("aten::native_layer_norm", [[1, 32_768, 768], [], [768]], "layer norms"),
        ("aten::exp", [[2048, 64_000]], "loss over the vocabulary"),
        ("aten::copy_", [[64_000, 768], [64_000, 768]], "embedding and output weights"),
        ("aten::gelu", [[1, 32_768, 1152]], "feed-forward and width of q, k, v"),
        ("aten::add", [[1, 32_768, 768], [1, 32_768, 768]], "residual additions and casts"),
        ("aten::copy_", [[768, 768], [768, 768]], "weights (casts, sums) and the rest"),
        ("Torch-Compiled Region: 0/0", [], "compiled code"),
        ("autograd::engine::evaluate_function: AddBackward0", [], "weights (casts, sums) and the rest"),
    ],
)
def test_operators_are_told_by_name_and_shape(name: str, shapes: list[list[int]], category: str) -> None:
    assert category_of(name, shapes, False, SIZES) == category
    assert category_of(name, shapes, True, SIZES) == "clipping and optimizer"
