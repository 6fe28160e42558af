"""The attention of checkpoints of other projects, with their own tokenizers, is that of `transformers`, and their
tokens are shown without tags."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layouts import BERT_TOKENS, SIZES, byte_level, wordpiece
from test_embed_any_checkpoint import OTHERS, gpt2

from kobert_pipeline.errors import UserError
from kobert_pipeline.visualize.attention import UNITS, Attention
from kobert_pipeline.visualize.tokenization import tokenization_of

TEXTS = ["아버지가 방에 들어가셨다.", "그 영화 진짜 재밌었어요ㅋㅋ 또 보고 싶다!"]


def fnet(folder: Path) -> None:
    """Fourier transforms in place of attention."""
    from transformers import FNetConfig, FNetForMaskedLM

    rows = wordpiece(folder, BERT_TOKENS, ("vocab.txt", "tokenizer.json"))
    sizes = {name: size for name, size in SIZES.items() if name != "num_attention_heads"}
    FNetForMaskedLM(FNetConfig(vocab_size=rows, max_position_embeddings=64, **sizes)).save_pretrained(folder)


def longformer(folder: Path) -> None:
    """Windows of attention, which are not from every token to every other."""
    from transformers import LongformerConfig, LongformerForMaskedLM

    rows = wordpiece(folder, BERT_TOKENS, ("vocab.txt", "tokenizer.json"))
    config = LongformerConfig(vocab_size=rows, max_position_embeddings=64, attention_window=4, **SIZES)
    LongformerForMaskedLM(config).save_pretrained(folder)


@pytest.mark.parametrize("build", OTHERS, ids=lambda build: build.__name__)
def test_attention_is_that_of_transformers(build: Callable[[Path], Any], tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    torch.manual_seed(1)
    build(tmp_path)
    found = Attention.load(tmp_path, TEXTS)
    model = AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    inputs = AutoTokenizer.from_pretrained(tmp_path)(*TEXTS, truncation=True, max_length=64, return_tensors="pt")
    if getattr(model.config, "type_vocab_size", 1) == 1:
        inputs.pop("token_type_ids", None)  # RoBERTa has a single type, and BERT's tokenizer gives two
    with torch.no_grad():
        expected = torch.cat(model(**inputs, output_attentions=True).attentions).numpy()
    np.testing.assert_allclose(found.weights, expected, atol=1e-6)
    for unit in UNITS:
        matrix = found.matrix(0, None, unit)
        np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-5)
        assert len(matrix) == len(found.units[unit])
    labels = "".join(unit.label for unit in found.units["characters"] if unit.side is not None)
    assert labels == "".join(TEXTS).replace(" ", ""), "bytes and pieces of one character are one unit"
    assert not found.by_morpheme


def test_attention_of_a_causal_model_is_lower_triangular(tmp_path: Path) -> None:
    gpt2(tmp_path)
    weights = Attention.load(tmp_path, TEXTS[:1]).weights
    assert np.triu(weights, 1).max() == 0
    np.testing.assert_array_equal(weights[:, :, 0, 0], 1)


@pytest.mark.parametrize("build", [fnet, longformer])
def test_a_model_whose_attention_cannot_be_read_is_refused(build: Callable[[Path], None], tmp_path: Path) -> None:
    build(tmp_path)
    with pytest.raises(UserError, match="has no attention from every token to every other"):
        Attention.load(tmp_path, TEXTS)


def test_a_text_without_tokens_is_refused(tmp_path: Path) -> None:
    gpt2(tmp_path)
    with pytest.raises(UserError, match="no tokens"):
        Attention.load(tmp_path, [""])


def test_tokens_without_tags_have_no_column_of_them(tmp_path: Path) -> None:
    byte_level(tmp_path)
    page = tokenization_of(tmp_path, [*TEXTS, "<b>글</b> 😀"])
    marked = [re.sub(r"</?mark.*?>", "", text) for text in re.findall(r'<p class="text" lang="ko">(.*?)</p>', page)]
    assert marked == [*TEXTS, "&lt;b&gt;글&lt;/b&gt; 😀"], "bytes of one character share a mark"
    assert ">token</th>" in page and ">tag</th>" not in page and "verb or adjective" not in page
