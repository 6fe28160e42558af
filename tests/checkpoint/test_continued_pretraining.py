"""A checkpoint of another project is pretrained further with its own tokenizer: the same ids, whole words masked, all
weights taken over, and a folder that plain `transformers` loads."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from layouts import byte_level, made

from kobert_pipeline.corpus.document import Document, document_parts, in_split, read_documents
from kobert_pipeline.errors import UserError
from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.inference.fill_mask import in_letters
from kobert_pipeline.pretrain.continued import load
from kobert_pipeline.pretrain.loader import Loader
from kobert_pipeline.pretrain.masking import replace
from kobert_pipeline.pretrain.model import LossModule
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.pretrain.tensor_batch import to_device
from kobert_pipeline.shards.format import DOCUMENT, EOJEOL, MORPHEME, PARAGRAPH, SENTENCE, Shards
from kobert_pipeline.shards.stage import ShardsOptions
from kobert_pipeline.shards.stage import run as write_shards
from kobert_pipeline.shards.unanalyzed import boundaries_of, make_shard
from kobert_pipeline.tokenizer.loading import load_tokenizer, special_ids
from kobert_pipeline.tokenizer.special_tokens import OUR_IDS

WHOLE = ("klue-bert", "klue-roberta", "modernbert", "roformer", "xlm-roberta")
"""Layouts that bring the weights of their head for masked tokens."""
WORDS = ("klue-roberta", "modernbert", "xlm-roberta")
"""WordPiece, with other ids than BERT's, byte-level BPE and SentencePiece."""
SLOW = ("klue-bert", "koelectra-v3", "kpfbert", "modernbert", "roformer", "xlm-roberta")


def recipe(folder: Path, checkpoint: Path, data: Path, **more: Any) -> Path:
    content = {
        "checkpoint": str(checkpoint), "data_dir": str(data), "checkpoint_license": "MIT",
        "corpus": {"sources": [
            {"name": "text", "path": "documents/legal.txt", "license": "CC0-1.0"},
            {"name": "text", "path": "documents/news.txt", "license": "CC0-1.0"},
        ]},
        "shards": {"held_out": 0.3},
        "features": {"nsmc": {"task": "nsmc", "train": "reviews_test.txt", "dev_share": 0.3, "max_length": 32,
                              "license": "CC0-1.0"}},
        "pretrain": {"objective": "mlm", "max_length": 64, "batch_tokens": 512, "total_tokens": 4000},
        "finetune": {"nsmc": {"baseline": "none", "plan": {"epochs": 1, "batch_size": 16}}},
        "publish": {"mlm": {"source": "pretrain", "onnx": False}, "nsmc": {"source": "nsmc", "onnx": False}},
    } | more  # fmt: skip
    path = folder / "further.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def masked_text(tokenizer: Any) -> str:
    return f"이 {tokenizer.mask_token} 정말 좋다."


@pytest.mark.parametrize("layout", ["klue-roberta", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_checkpoint_is_pretrained_further_with_its_own_tokenizer(
    layout: str, corpora: Path, tmp_path: Path, kobert: Callable
) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

    checkpoint, run_dir = made(layout, tmp_path), tmp_path / "runs" / layout
    result = kobert("run", recipe(tmp_path, checkpoint, corpora), "--run-dir", run_dir, "--num-workers", 1, "--json")
    rows = result.json["stages"]
    assert [row["stage"] for row in rows] == [
        "checkpoint", "corpus", "shards", "features", "pretrain", "finetune", "publish", "publish",
    ]  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    special = special_ids(tokenizer)
    # the ids are those that the tokenizer gives for each document
    expected = [
        tokenizer(row.text, add_special_tokens=False)["input_ids"]
        for part in document_parts(run_dir / "corpus") for row in read_documents(part) if not in_split(row.id, 0.3)
    ]  # fmt: skip
    shards = Shards.open(run_dir / "shards", "train", special)
    assert np.concatenate([shard.ids for shard in shards.shards]).tolist() == [id_ for ids in expected for id_ in ids]

    counts = rows[4]["counts"]
    assert counts["held_out_after"]["loss"] < counts["held_out_before"]["loss"]
    assert (counts["weights_started_at_random"] == 0) is (layout in WHOLE)
    options = PretrainOptions(objective="mlm", max_length=64, batch_tokens=512)
    architecture, model, _ = load(options.objective, 64, run_dir / "checkpoint" / "model")
    if layout in WHOLE:
        plain = AutoModelForMaskedLM.from_pretrained(run_dir / "checkpoint" / "model").eval()
        old = plain.state_dict()
        assert all(torch.equal(value, old[name]) for name, value in model.state_dict().items())
        # the loss before the first step is that of transformers on the same masked sequences
        loader = Loader(Shards.open(run_dir / "shards", "held_out", special), options, len(tokenizer), 0)
        batch = loader.batch(0)
        module = LossModule(model, options.objective, architecture).eval()
        with torch.no_grad():
            loss = float(module(to_device(batch))[0])
        assert loss == pytest.approx(loss_by_transformers(plain, batch), rel=1e-4)

    folder = run_dir / "publish" / "mlm"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"Further pretrained from `{layout}`" in card and "trust_remote_code" not in card
    assert not list(folder.glob("*.py")) and "analysis" not in read_json(folder / "training_manifest.json")["recipe"]
    text = masked_text(tokenizer)
    theirs = [row["token_str"] for row in pipeline("fill-mask", str(folder), top_k=3)(text)]
    found = kobert("predict", folder, text, "--top-k", 3, "--json").json
    whole = [token for token in theirs if layout == "modernbert" and "\ufffd" not in token]  # letters, not bytes
    ours = [
        token if token in whole else tokenizer.decode([tokenizer.convert_tokens_to_ids(token)])
        for token in found["masks"][0]
    ]
    assert ours == theirs


@pytest.mark.parametrize(("token", "letters"), [("ĠìĺģíĻĶ", " 영화"), ("ìĺ", "ìĺ"), ("[SEP]", "[SEP]")])
def test_tokens_over_bytes_are_shown_in_letters_where_they_are_whole(token: str, letters: str, tmp_path: Path) -> None:
    byte_level(tmp_path)
    assert in_letters(load_tokenizer(tmp_path), token) == letters


def loss_by_transformers(model: Any, batch: Any) -> float:
    """One sequence at a time, with the model's own positions and token types."""
    total, start = 0.0, 0
    labels = np.full(len(batch.input_ids), -100)
    labels[batch.masked_positions] = batch.labels
    for length in batch.lengths.tolist():
        ids, wanted = (torch.from_numpy(array[start : start + length])[None] for array in (batch.input_ids, labels))
        start += length
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
        total += float(torch.nn.functional.cross_entropy(logits, wanted[0], ignore_index=-100, reduction="sum"))
    return total / len(batch.labels)


TEXTS = [
    Document("a", "s", "그 영화를 보았다. 정말 재미있었다!\n두 번째 문단은 (짧다).", True),
    Document("b", "s", "최고의 영화\n별로였다", False),
    Document("c", "s", "[MASK]는 글자이다", True),
]


@pytest.mark.parametrize("layout", WORDS)
def test_masked_units_are_whole_words_of_the_tokenizer(layout: str, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(made(layout, tmp_path))
    backend, special = tokenizer.backend_tokenizer, special_ids(tokenizer)
    backend.encode_special_tokens = True
    shard = make_shard(backend, TEXTS)
    assert not set(shard.ids.tolist()) & set(special.every) - {tokenizer.unk_token_id}

    def starting(bit: int) -> list[str]:
        """The text of each unit."""
        places = np.flatnonzero(shard.boundaries & bit)
        ids = np.split(shard.ids, places[1:])
        return ["".join(tokenizer.decode(part.tolist()).split()) for part in ids]

    assert len(starting(DOCUMENT)) == 3
    assert len(starting(PARAGRAPH)) == 5, "two of the first, two reviews, one"
    assert len(starting(SENTENCE)) == 6
    eojeols = [word for row in TEXTS for word in row.text.split()]
    # the marker's letters are [UNK] in the small vocabularies, but they are no special token
    assert starting(EOJEOL)[:-2] == eojeols[:-2] and len(starting(EOJEOL)) == len(eojeols)
    words = [
        word for row in TEXTS for text in row.text.split("\n")
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)
    ]  # fmt: skip
    units = len(starting(MORPHEME))
    # byte-level BPE has the line break of an ordered document as a word of its own
    assert units == len(words) + (layout == "modernbert")
    # SentencePiece leaves punctuation attached, so its words are the eojeols
    assert (units > len(eojeols)) is (layout != "xlm-roberta")

    options = PretrainOptions(objective={"name": "mlm", "mlm_probability": 0.4}, max_length=64, batch_tokens=64)
    loader = Loader(Shards([shard], special), options, len(tokenizer), 1)
    for step in range(20):
        batch = loader.batch(step)
        assert set(batch.input_ids[np.cumsum(batch.lengths) - 1].tolist()) == {special.sep}
        assert set(batch.input_ids[batch.starts].tolist()) == {special.cls}
        # of a word either all tokens are predicted or none
        predicted = np.zeros(len(batch.input_ids), bool)
        predicted[batch.masked_positions] = True
        whole = batch.input_ids.copy()
        whole[batch.masked_positions] = batch.labels
        inside = whole != special.sep
        inside[batch.starts] = False
        assert whole[inside].tolist() == shard.ids.tolist()
        word = np.cumsum((shard.boundaries & MORPHEME) != 0)
        for number in np.unique(word[predicted[inside]]):
            assert predicted[inside][word == number].all()


def test_random_replacements_are_never_special_tokens_wherever_those_are() -> None:
    special = OUR_IDS._replace(mask=9, every=(0, 3, 9))
    positions = np.arange(5000)
    made_ids = replace(np.full(5000, 1), positions, 10, np.random.default_rng(1), 0.0, 1.0, special)
    assert set(made_ids.tolist()) == {1, 2, 4, 5, 6, 7, 8}
    assert set(replace(np.full(50, 1), positions[:50], 10, np.random.default_rng(1), 1.0, 0.0, special)) == {9}
    # ours as ever: drawn from the ids after the special tokens
    drawn = np.random.default_rng(2)
    drawn.random(50)
    ours = replace(np.full(50, 7), positions[:50], 90, np.random.default_rng(2), 0.0, 1.0)
    assert ours.tolist() == drawn.integers(5, 90, 50).tolist()


def test_what_cannot_be_pretrained_further_is_refused_in_one_sentence(
    corpora: Path, tmp_path: Path, kobert: Callable
) -> None:
    checkpoint = made("klue-roberta", tmp_path)

    def complaint(start: Path, **more: Any) -> str:
        return str(kobert("check", recipe(tmp_path, start, corpora, **more)).complaint)

    plain = {"total_tokens": 4000, "objective": "mlm"}
    for changes, said in [
        ({"tokenizer": {"subword": "bpe"}}, "also tokenizer; leave one out"),
        ({"pretrain": plain | {"base": str(checkpoint)}}, "also pretrain.base; leave one out"),
        ({"pretrain": plain | {"architecture": "roberta"}}, "also pretrain.architecture; leave one out"),
        ({"pretrain": {"objective": "mlm_nsp"}}, "mlm_nsp, for which"),
        ({"pretrain": {"objective": "rtd"}}, "rtd, with which a checkpoint cannot be pretrained further; set"),
        ({"pretrain": {"objective": "clm"}}, "clm, with which a checkpoint cannot be pretrained further; set"),
        ({"pretrain": plain | {"max_length": 129}}, "129, but"),
        ({"features": {"nsmc": {"task": "nsmc", "train": "reviews_test.txt", "max_length": 129}}}, "has 128 positions"),
        ({"corpus": None, "publish": {}}, "also shards, pretrain; leave that out, or name the corpus"),
    ]:
        assert said in complaint(checkpoint, **changes)
    config = read_json(checkpoint / "config.json")
    for other, said in [
        ({"model_type": "t5"}, "is of the type 't5', which cannot be pretrained further (allowed: albert, bert"),
        ({"model_type": "gpt2"}, "mlm, for which {checkpoint} (of the type gpt2) has no head; give another"),
        ({"max_position_embeddings": None}, "has no max_position_embeddings"),
    ]:
        write_json(checkpoint / "config.json", config | other)
        assert said.format(checkpoint=checkpoint) in complaint(checkpoint)


def test_a_pretrained_classifier_is_saved_without_what_was_for_its_head(tmp_path: Path) -> None:
    checkpoint = made("modernbert", tmp_path)
    of_head = {
        "task_specific_params": {"nsmc": {"max_length": 16}}, "problem_type": "single_label_classification",
        "id2label": {"0": "나쁨", "1": "보통", "2": "좋음"}, "label2id": {"나쁨": 0, "보통": 1, "좋음": 2},
    }  # fmt: skip
    config = read_json(checkpoint / "config.json")
    write_json(checkpoint / "config.json", config | of_head)
    options = PretrainOptions(objective="mlm", max_length=64, batch_tokens=512)
    load(options.objective, 64, checkpoint)[1].save_pretrained(tmp_path / "saved")
    saved = read_json(tmp_path / "saved" / "config.json")
    assert not {name: saved[name] for name in of_head if saved.get(name) is not None}
    assert saved["hidden_size"] == config["hidden_size"]


def test_a_tokenizer_that_cannot_serve_pretraining_is_refused(tiny: Any, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tiny.run_dir / "tokenizer")
    tokenizer.mask_token = None
    with pytest.raises(UserError, match="no token for mask, which pretraining with masks needs"):
        special_ids(tokenizer)
    with pytest.raises(UserError, match="one over morphemes, which needs the stages analysis and tokenizer"):
        write_shards(ShardsOptions(), tiny.run_dir / "corpus", tiny.run_dir / "tokenizer", tmp_path, analyzed=False)


def test_a_text_without_eojeols_or_tokens_has_no_boundaries() -> None:
    assert boundaries_of(" \n", SimpleNamespace(ids=[5])).tolist() == [0]
    assert boundaries_of("가", SimpleNamespace(ids=[])).tolist() == []
