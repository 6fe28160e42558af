"""A tiny BERT to pretrain, and the folders that the stage reads."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from synthetic_shards import articles, reviews, shard_of
from tokenizers import Tokenizer, models
from transformers import BertForPreTraining

from kobert_pipeline.morphemes.morpheme_tokenizer import VOCABULARY_FILE
from kobert_pipeline.pretrain.architectures.bert import Bert
from kobert_pipeline.shards.format import write_shard

VOCAB_SIZE = 200


@pytest.fixture
def tiny_bert() -> Callable[..., BertForPreTraining]:
    """A BERT of two layers and width 32 over 200 tokens; the seed gives the weights, keywords change the config."""

    def build(seed: int = 0, **changes: float) -> BertForPreTraining:
        torch.manual_seed(seed)
        sizes = Bert(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, max_position_embeddings=128)
        config = sizes.config(VOCAB_SIZE)
        config.update(changes)
        return sizes.model(config, "pretraining")

    return build


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Folders with shards, which use seven of the 200 tokens that their tokenizer has."""
    for number in range(2):
        write_shard(
            tmp_path / "shards", f"train-{number:05d}", shard_of(articles(6) + reviews(3), vocab_size=12, seed=number)
        )
        write_shard(
            tmp_path / "shards", f"held_out-{number:05d}", shard_of(articles(2), vocab_size=12, seed=10 + number)
        )
    (tmp_path / "tokenizer").mkdir()
    vocabulary = {f"token{number}": number for number in range(200)}
    Tokenizer(models.WordPiece(vocabulary, unk_token="token1")).save(str(tmp_path / "tokenizer" / VOCABULARY_FILE))
    return tmp_path / "shards", tmp_path / "tokenizer"
