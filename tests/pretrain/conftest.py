"""One thread, and a tiny BERT to pretrain."""

from collections.abc import Callable

import pytest
import torch
from transformers import BertForPreTraining

from kobert_pipeline.pretrain.architectures.bert import Bert

torch.set_num_threads(1)

VOCAB_SIZE = 200


@pytest.fixture
def tiny_bert() -> Callable[..., BertForPreTraining]:
    """A BERT of two layers and width 32 over 200 pieces; the seed gives the weights, keywords change the config."""

    def build(seed: int = 0, **changes: float) -> BertForPreTraining:
        torch.manual_seed(seed)
        sizes = Bert(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, max_position_embeddings=128)
        config = sizes.config(VOCAB_SIZE)
        config.update(changes)
        return sizes.model(config, "pretraining")

    return build
