"""Checkpoints of other projects embed with their own tokenizers, as `transformers` computes one text at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layouts import BERT_TOKENS, KLUE_ROBERTA_TOKENS, SIZES, byte_level, modernbert, wordpiece, xlm_roberta

import kobert_pipeline as kobert_package
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import features_of_ids
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.finetune.model import build, load, logits
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.inference.embed import Embedder
from kobert_pipeline.tokenizer.special_tokens import PAD_ID

TEXTS = ["아버지가 방에 들어가셨다.", "글", "그 영화 진짜 재밌었어요ㅋㅋ 또 보고 싶다!", "", "한글 " * 300]


def bert_without_pooler(folder: Path) -> None:
    """As sentence-transformers may save an encoder: without a head, and without the pooler that it does not use."""
    from transformers import BertConfig, BertModel

    rows = wordpiece(folder, BERT_TOKENS, ("vocab.txt", "tokenizer.json"))
    config = BertConfig(vocab_size=rows + 60, max_position_embeddings=64, **SIZES)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


def roberta(folder: Path) -> None:
    """RoBERTa counts positions from its padding token on."""
    from transformers import RobertaConfig, RobertaForSequenceClassification

    rows = wordpiece(folder, KLUE_ROBERTA_TOKENS)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "type_vocab_size": 1}
    config = RobertaConfig(vocab_size=rows, max_position_embeddings=66, **ids, **SIZES)
    RobertaForSequenceClassification(config).save_pretrained(folder)


def electra(folder: Path) -> None:
    """Embeddings are narrower than the layers."""
    from transformers import ElectraConfig, ElectraForPreTraining

    rows = wordpiece(folder, BERT_TOKENS, ("vocab.txt", "tokenizer.json"))
    config = ElectraConfig(vocab_size=rows, embedding_size=16, max_position_embeddings=64, **SIZES)
    ElectraForPreTraining(config).save_pretrained(folder)


def gpt2(folder: Path) -> None:
    """No padding token, no special tokens around a text."""
    from transformers import GPT2Config, GPT2LMHeadModel

    rows = byte_level(folder)
    tokenizer = read_json(folder / "tokenizer.json")
    write_json(folder / "tokenizer.json", tokenizer | {"post_processor": None})
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    GPT2LMHeadModel(GPT2Config(vocab_size=rows, n_positions=64, n_embd=32, n_layer=2, n_head=2)).save_pretrained(folder)


def bart(folder: Path) -> None:
    """Only the encoder's states are vectors of the text."""
    from transformers import BartConfig, BartForConditionalGeneration

    rows = byte_level(folder)
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3}
    sizes = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    config = BartConfig(vocab_size=rows, max_position_embeddings=64, d_model=32, **sizes, **ids)
    BartForConditionalGeneration(config).save_pretrained(folder)


OTHERS: list[Callable[[Path], Any]] = [bert_without_pooler, roberta, electra, gpt2, bart, modernbert, xlm_roberta]


def plain_means(folder: Path, layer: int, max_length: int) -> list[np.ndarray]:
    """The mean state of each text, one at a time and without padding; zeros where it has no tokens."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    means = []
    for text in TEXTS:
        ids = tokenizer(text, truncation=True, max_length=max_length)["input_ids"]
        if not ids:
            means.append(np.zeros(32))
            continue
        with torch.no_grad():
            states = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
        means.append(states[layer][0].mean(0).numpy())
    return means


@pytest.mark.parametrize("build", OTHERS, ids=lambda build: build.__name__)
def test_vectors_are_those_of_one_text_at_a_time(build: Callable[[Path], Any], tmp_path: Path) -> None:
    torch.manual_seed(1)
    build(tmp_path)
    checkpoint = kobert_package.load(tmp_path)
    for layer in (-1, 0):
        expected = plain_means(tmp_path, layer, checkpoint.tokenizer.model_max_length)
        np.testing.assert_allclose(checkpoint.embed(TEXTS, layers=(layer,)), expected, atol=1e-5)
    columns = Embedder.load(tmp_path).embed_tokens(TEXTS)
    assert "morpheme" not in columns
    first = [number for number, index in enumerate(columns["index"]) if index == 0]
    np.testing.assert_allclose(columns["embedding"][first].mean(0), checkpoint.embed(TEXTS[0]), atol=1e-5)
    assert all(columns["text"][i] == TEXTS[0][columns["start"][i] : columns["end"][i]] for i in first)


def test_a_config_without_a_padding_token_does_not_hinder_batches(tmp_path: Path) -> None:
    """GPT-2's own config names none, and its classifier refuses batches then."""
    from transformers import AutoTokenizer, GPT2Config

    gpt2(tmp_path)
    tokenizer, end = AutoTokenizer.from_pretrained(tmp_path), GPT2Config().vocab_size
    for eos, wanted in ((7, 7), (end, PAD_ID)):  # a token that the model does not have cannot pad
        write_json(tmp_path / "config.json", read_json(tmp_path / "config.json") | {"eos_token_id": eos})
        build(Task.choose("nsmc"), tmp_path, False, FinetunePlan(), 32).save_pretrained(tmp_path / f"labels-{eos}")
        model = load(tmp_path / f"labels-{eos}")
        assert model.config.pad_token_id == wanted
        rows = [ids[:length] for length, text in enumerate(TEXTS, 4) if (ids := tokenizer(text)["input_ids"])]
        one_by_one = [model(torch.tensor([ids])).logits[0].tolist() for ids in rows]
        found = logits(model, features_of_ids(rows), 4, "cpu")["logits"]
        np.testing.assert_allclose(found, one_by_one, atol=1e-5)


def test_cls_of_a_causal_model_is_refused(tmp_path: Path) -> None:
    gpt2(tmp_path)
    with pytest.raises(UserError, match="causal model"):
        kobert_package.load(tmp_path).embed(TEXTS, "cls")


@pytest.fixture
def sentence_encoder(tmp_path: Path) -> Callable[..., Path]:
    """A folder that sentence-transformers saves, of a random encoder with a pooling and further modules."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers import models as modules

    (tmp_path / "encoder").mkdir()
    bert_without_pooler(tmp_path / "encoder")

    def made(pooling: Any, *more: str, **settings: Any) -> Path:
        parts = [modules.Transformer(str(tmp_path / "encoder"), max_seq_length=64), modules.Pooling(32, pooling)]
        parts += [modules.Dense(32, 16) if name == "Dense" else modules.Normalize() for name in more]
        SentenceTransformer(modules=parts, device="cpu", **settings).save(str(tmp_path / "saved"))
        return tmp_path / "saved"

    return made


@pytest.mark.parametrize("is_legacy", [False, True])
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_a_sentence_encoder_is_pooled_as_by_sentence_transformers(
    pooling: str, is_legacy: bool, sentence_encoder: Callable[..., Path]
) -> None:
    from sentence_transformers import SentenceTransformer

    folder = sentence_encoder(pooling, prompts={"query": "질문: "})
    if is_legacy:
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": 20, "do_lower_case": False})
        modes = {
            f"pooling_mode_{name}": name.startswith(pooling) for name in ("cls_token", "mean_tokens", "max_tokens")
        }
        write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, **modes})
    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(kobert_package.load(folder).embed(TEXTS), theirs, atol=1e-5)
    np.testing.assert_allclose(Embedder.load(folder).embed(TEXTS), theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("pooling", "more", "settings", "reason"),
    [
        ("lasttoken", (), {}, "the pooling lasttoken"), (("cls", "mean"), (), {}, r"the pooling cls\+mean"),
        ("cls", ("Dense", "Normalize"), {}, "Dense"),
        ("cls", (), {"prompts": {"query": "질문: "}, "default_prompt_name": "query"}, "the prompt '질문: '"),
    ],
)  # fmt: skip
def test_a_sentence_encoder_of_another_kind_is_refused(
    pooling: Any, more: tuple[str, ...], settings: dict[str, Any], reason: str, sentence_encoder: Callable[..., Path]
) -> None:
    loaded = kobert_package.load(sentence_encoder(pooling, *more, **settings))
    with pytest.raises(UserError, match=f"makes its vectors with {reason}, which is not done here"):
        loaded.embed(TEXTS)
    assert loaded.embed(TEXTS, pooling="mean").shape == (len(TEXTS), 32)


@pytest.mark.parametrize("content", ["[]", "{}", "5", '[{"type": "Pooling"}]', '[{"path": "", "type": 5}]'])
def test_files_of_a_sentence_encoder_that_say_nothing_are_one_sentence(
    content: str, sentence_encoder: Callable[..., Path]
) -> None:
    folder = sentence_encoder("cls")
    (folder / "modules.json").write_text(content)
    with pytest.raises(UserError, match="does not list the modules of a sentence encoder"):
        kobert_package.load(folder).embed(TEXTS)
