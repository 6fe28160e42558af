"""How many tokens a model takes, by its config."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel

from kobert_pipeline.training.hf_config import POSITIONS_AFTER_PADDING, max_input_length


@pytest.mark.parametrize(
    ("padding", "length"),
    [({}, 22), ({"pad_token_id": None}, 22), ({"pad_token_id": 0}, 23), ({"pad_token_id": 2}, 21)],
)
def test_a_config_of_roberta_may_leave_its_padding_out(padding: dict[str, Any], length: int) -> None:
    assert max_input_length({"model_type": "roberta", "max_position_embeddings": 24} | padding) == length


@pytest.mark.parametrize("model_type", POSITIONS_AFTER_PADDING)
def test_a_model_that_counts_positions_after_its_padding_takes_so_many_tokens_and_no_more(model_type: str) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    more = {"longformer": {"attention_window": [4]}, "xmod": {"languages": ["ko"], "default_language": "ko"}}
    config = AutoConfig.for_model(
        model_type, vocab_size=9, max_position_embeddings=24, pad_token_id=1, **sizes, **more.get(model_type, {})
    )
    model, length = AutoModel.from_config(config).eval(), max_input_length(config.to_dict())
    assert length == 22 and model(input_ids=torch.full((1, length), 5)).last_hidden_state.shape[1] == length
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, length + 1), 5))
