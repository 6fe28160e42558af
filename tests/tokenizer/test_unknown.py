"""A tokenizer that does not know the texts is noticed where ids are made, with its likely cause."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from kobert_pipeline.corpus.document import Document, write_documents
from kobert_pipeline.errors import UserError
from kobert_pipeline.features import stage as features
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.files import write_json
from kobert_pipeline.inference.loading import load_tokenizer as load_for_use
from kobert_pipeline.pipeline.provenance import unknown_rate
from kobert_pipeline.shards import stage as shards
from kobert_pipeline.shards.format import Shards
from kobert_pipeline.tokenizer.loading import load_tokenizer
from kobert_pipeline.tokenizer.special_tokens import UNK_ID
from kobert_pipeline.tokenizer.unknown import count_unknown, rate

TEXTS = ["바다가 보이는 방이 좋아요", "방이 좁고 바다가 멀어요", "가방이 멀어요", "좁고 멀고 좋아요"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SYLLABLES = sorted(set("".join(TEXTS)) - {" "})
KOREAN = SPECIAL + SYLLABLES + [f"##{syllable}" for syllable in SYLLABLES]
CASED = {"do_lower_case": False}


def tokenizer_folder(folder: Path, vocabulary: list[str], settings: dict[str, Any] | None = None) -> Path:
    """What checkpoints of BERT have."""
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    write_json(folder / "config.json", {"model_type": "bert"})
    if settings is not None:
        write_json(folder / "tokenizer_config.json", settings)
    return folder


def pieces(scores: str = "") -> list[str]:
    return SPECIAL + [f"\u2581{syllable}{scores}" for syllable in SYLLABLES] + [f"{s}{scores}" for s in SYLLABLES]


def without(*syllables: str) -> list[str]:
    return [token for token in KOREAN if token.removeprefix("##") not in syllables]


def make_features(tokenizer: Path, folder: Path, texts: list[str] = TEXTS) -> dict[str, Any]:
    # a dev file must not have the texts of the training file, so it has their words in another order
    for name, order in (("train", 1), ("dev", -1)):
        rows = [f"{' '.join(text.split()[::order])}\t{index % 2}" for index, text in enumerate(texts)]
        (folder / f"{name}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    options = FeaturesOptions(task="classification", train="train.tsv", dev="dev.tsv", max_length=32)
    return features.run(options, tokenizer, folder, folder / "features")


def make_shards(tokenizer: Path, folder: Path, texts: list[str] = TEXTS) -> dict[str, Any]:
    (folder / "corpus").mkdir()
    write_documents(
        folder / "corpus" / "part-00000.parquet", [Document(str(i), "s", t, True) for i, t in enumerate(texts * 9)]
    )
    return shards.run(
        shards.ShardsOptions(held_out=0.3), folder / "corpus", tokenizer, folder / "shards", analyzed=False
    )


@pytest.mark.parametrize("make", [make_features, make_shards])
@pytest.mark.parametrize(
    ("vocabulary", "settings", "cause"),
    [
        (KOREAN, None, "decomposes Hangul"),
        (KOREAN, {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}, "decomposes Hangul"),
        (KOREAN, {"do_lower_case": False, "strip_accents": True}, "decomposes Hangul"),
        (pieces(), CASED, "vocab.txt is a SentencePiece vocabulary"),
        (pieces("\t-7.25"), CASED, "vocab.txt is a SentencePiece vocabulary"),
        (pieces(), None, "vocab.txt is a SentencePiece vocabulary"),
        (SPECIAL + [f"word{number}" for number in range(300)], CASED, "0 of its 305 tokens have Hangul"),
        (SPECIAL + ["\u1100"] + [f"word{number}" for number in range(300)], None, "made for another language"),
        (without(*"방이바다가멀좋좁"), CASED, "made from texts of another kind, or is too small"),
    ],
)  # fmt: skip
def test_texts_that_a_tokenizer_does_not_know_are_refused_with_the_cause(
    vocabulary: list[str], settings: dict[str, Any] | None, cause: str, make: Callable, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"of the tokens are unknown to the tokenizer \(such as ") as refused:
        make(tokenizer_folder(tmp_path / "tokenizer", vocabulary, settings), tmp_path)
    assert cause in str(refused.value) and len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("vocabulary", "settings", "cause"),
    [
        (KOREAN, None, "decomposes Hangul"),
        (KOREAN, {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}, "decomposes Hangul"),
        (pieces(), CASED, "vocab.txt is a SentencePiece vocabulary"),
        (KOREAN + pieces()[5:], CASED, "vocab.txt is a SentencePiece vocabulary"),
        (SPECIAL + [f"word{number}" for number in range(300)], None, None),
        (KOREAN, CASED, None),
    ],
)  # fmt: skip
def test_a_tokenizer_that_does_not_find_its_own_words_is_refused_in_use_too(
    vocabulary: list[str], settings: dict[str, Any] | None, cause: str | None, tmp_path: Path
) -> None:
    folder = tokenizer_folder(tmp_path / "tokenizer", vocabulary, settings)
    if cause is None:
        assert load_for_use(folder)
        return
    with pytest.raises(UserError, match="words of its own vocabulary: ") as refused:
        load_for_use(folder)
    assert cause in str(refused.value)


@pytest.mark.parametrize(
    ("name", "digits", "is_noted"),
    [("BertTokenizer", True, True), ("BertTokenizer", False, False), ("PreTrainedTokenizerFast", True, False)],
)
def test_a_class_that_reads_otherwise_than_tokenizer_json_is_noted(
    name: str, digits: bool, is_noted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`transformers` 5 makes some classes from the vocabulary alone; ONNX Runtime and others read the file."""
    folder = tokenizer_folder(tmp_path / "tokenizer", KOREAN, CASED)
    backend = load_tokenizer(folder).backend_tokenizer
    if digits:
        parts = [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits(individual_digits=True)]
        backend.pre_tokenizer = pre_tokenizers.Sequence(parts)
    backend.save(str(folder / "tokenizer.json"))
    special = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    write_json(folder / "tokenizer_config.json", {**CASED, **special, "tokenizer_class": name})
    load_for_use(folder)
    said = capsys.readouterr().err
    assert ("a BertTokenizer reads texts such as '2024년 3.5점' otherwise than its tokenizer.json" in said) is is_noted
    assert bool(said) is is_noted


def test_settings_are_advised_only_where_they_change_what_is_decomposed(tmp_path: Path) -> None:
    """`do_lower_case` is BERT's; other tokenizers decompose Hangul by a normalizer that no setting changes."""
    folder = tokenizer_folder(tmp_path / "tokenizer", KOREAN, CASED)
    backend = load_tokenizer(folder).backend_tokenizer
    backend.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()])
    backend.save(str(folder / "tokenizer.json"))
    special = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    write_json(folder / "tokenizer_config.json", {**special, "tokenizer_class": "PreTrainedTokenizerFast"})
    with pytest.raises(UserError, match="it decomposes Hangul before it looks words up; give a checkpoint") as refused:
        load_for_use(folder)
    assert "do_lower_case" not in str(refused.value)


@pytest.mark.parametrize(
    ("model_type", "file", "cause"),
    [
        ("bert", "spiece.model", "a BertTokenizer reads vocab.txt or tokenizer.json, and the folder has spiece.model;"),
        ("bert", "vocab.json", "a BertTokenizer reads vocab.txt or tokenizer.json, and the folder has vocab.json;"),
        ("roberta", "vocab.txt", "tokenizer.json, and the folder has vocab.txt; name the class that reads vocab.txt"),
    ],
)  # fmt: skip
def test_a_tokenizer_whose_class_expects_another_file_is_refused(
    model_type: str, file: str, cause: str, tmp_path: Path
) -> None:
    """`transformers` goes on with the special tokens alone, so that all texts would be the same."""
    folder = tokenizer_folder(tmp_path / "tokenizer", KOREAN)
    write_json(folder / "config.json", {"model_type": model_type})
    (folder / "vocab.txt").rename(folder / file)
    with pytest.raises(UserError, match="its tokenizer has no tokens but special ones, since") as refused:
        load_for_use(folder)
    assert cause in str(refused.value)


@pytest.mark.parametrize("make", [make_features, make_shards])
def test_a_few_unknown_words_are_a_warning_with_examples(
    make: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = tokenizer_folder(tmp_path / "tokenizer", without("좁"), CASED)
    counts = make(tokenizer, tmp_path)
    ids = load_tokenizer(tokenizer)(TEXTS, add_special_tokens=False)["input_ids"]
    if make is make_features:
        assert counts["train_unknown_rate"] == counts["dev_unknown_rate"] == round(2 / sum(map(len, ids)), 6)
    assert 0.05 < counts["train_unknown_rate"] < 0.1
    printed = capsys.readouterr().err
    assert "% of the tokens are unknown to the tokenizer (such as 좁고): its vocabulary was made from texts" in printed
    assert unknown_rate("x", counts) == {"unknown tokens in x": f"{counts['train_unknown_rate']:.2%}"}


@pytest.mark.parametrize("make", [make_features, make_shards])
def test_texts_that_it_knows_are_nothing_to_speak_of(
    make: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = make(tokenizer_folder(tmp_path / "tokenizer", KOREAN, CASED), tmp_path, [*TEXTS * 10, "뷁"])
    assert 0 <= counts["train_unknown_rate"] < 0.01 and "unknown" not in capsys.readouterr().err
    assert {"train_unknown", "held_out_unknown"}.isdisjoint(counts)


def test_the_rate_of_an_own_tokenizer_is_in_manifest_card_and_table(tiny: Any, kobert: Callable) -> None:
    counts = {name: manifest["counts"] for name, manifest in tiny.manifests().items()}
    ids = np.concatenate([shard.ids for shard in Shards.open(tiny.run_dir / "shards", "train").shards])
    assert counts["shards"]["train_unknown_rate"] == round(float((ids == UNK_ID).mean()), 6) > 0
    card = (tiny.run_dir / "publish" / "nsmc" / "README.md").read_text(encoding="utf-8")
    for texts, stage in (("pretraining", "shards"), ("the training examples", "features/nsmc")):
        assert f"| unknown tokens in {texts} | {counts[stage]['train_unknown_rate']:.2%} |" in card
    table = "".join(kobert("run", tiny.recipe, "--run-dir", tiny.run_dir).out.split())
    assert f"unknownrate{counts['features/nsmc']['train_unknown_rate']:.2%}" in table


def words_of_bert() -> BertTokenizerFast:
    return BertTokenizerFast(vocab={token: index for index, token in enumerate(KOREAN)})


def bytes_of_gpt2() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE({"a": 0, "<|endoftext|>": 1}, [])),
        unk_token="<|endoftext|>", bos_token="<|endoftext|>", eos_token="<|endoftext|>",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tokenizer", "ids", "expected"),
    [
        (words_of_bert, [2, 1, 5, 6, 1, 3, 0, 0], (2, 4)),
        (bytes_of_gpt2, [0, 1, 0], (0, 2)),  # the end of a text is nothing unknown
    ],
)  # fmt: skip
def test_special_tokens_are_neither_known_nor_unknown(
    tokenizer: Callable, ids: list[int], expected: tuple[int, int]
) -> None:
    assert count_unknown(np.array(ids), tokenizer()) == expected
    assert rate(*expected) == expected[0] / expected[1]
