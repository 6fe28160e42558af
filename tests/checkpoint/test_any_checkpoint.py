"""Checkpoints of other projects are fine-tuned, evaluated, published and compared as our own, with their own
tokenizers."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from layouts import LAYOUTS, TEXTS, made
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import SplinterConfig, SplinterModel

from kobert_pipeline.checkpoint.source import base_model_of
from kobert_pipeline.features.format import features_of_ids
from kobert_pipeline.features.tasks.korquad import KorQuad
from kobert_pipeline.features.tasks.nsmc import Nsmc
from kobert_pipeline.files import read_json, sha256, write_json
from kobert_pipeline.finetune.distill import encode_for_student
from kobert_pipeline.inference.tokens import token_rows
from kobert_pipeline.tokenizer.loading import compose_hangul, load_tokenizer, vocabulary_in
from kobert_pipeline.tokenizer.tokenizers_only import TokenizersOnly, is_enough

REVIEWS = {"train": "reviews_train.txt", "test": "reviews_test.txt"}
QUESTIONS = {"train": "qa_dev.json"}
FAST = ("klue-roberta", "modernbert")
"""Two unlike layouts: BERT's tokenizer on RoBERTa's ids and positions, and byte-level BPE; the others are slow."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, corpora: Path) -> Path:
    """A few reviews and questions."""
    folder = tmp_path_factory.mktemp("data")
    for name, rows in (("reviews_train.txt", 61), ("reviews_test.txt", 25)):
        lines = (corpora / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:rows]), encoding="utf-8")
    shutil.copy(corpora / "qa_dev.json", folder)
    return folder


def recipe(folder: Path, checkpoint: object, data: Path, **more: Any) -> Path:
    """A recipe that fine-tunes a checkpoint on both tasks."""
    plan = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3}
    content = {
        "checkpoint": str(checkpoint), "data_dir": str(data),
        "features": {
            "nsmc": {"task": "nsmc", "dev_share": 0.2, "max_length": 32} | REVIEWS,
            # so short that contexts have several windows
            "korquad": {"task": {"name": "korquad", "stride": 16}, "dev_share": 0.3, "max_length": 64} | QUESTIONS,
        },
        "finetune": {"nsmc": {"plan": plan, "baseline": "none"}, "korquad": {"plan": plan}},
        "publish": {"nsmc": {"source": "nsmc", "onnx": False}},
    } | more  # fmt: skip
    path = folder / "foreign.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def accuracy_by_transformers(model: Path, tokenizer: Any, file: Path, max_length: int) -> float:
    """A review at a time, with nothing of this package but its reading of NSMC's file."""
    from transformers import AutoModelForSequenceClassification

    network = AutoModelForSequenceClassification.from_pretrained(model).eval()
    examples = Nsmc().read(file)
    right = 0
    for example in examples:
        inputs = tokenizer(example["text"], truncation=True, max_length=max_length, return_tensors="pt")
        if "roberta" in network.config.model_type:
            inputs.pop("token_type_ids", None)
        with torch.no_grad():
            right += int(network(**inputs).logits.argmax()) == example["label"]
    return 100 * right / len(examples)


def answer_by_transformers(network: Any, tokenizer: Any, question: str, context: str, stride: int) -> str:
    """The span of the best window by the sum of its logits, plainly."""
    inputs = tokenizer(
        question, context, truncation="only_second", max_length=64, stride=stride, return_overflowing_tokens=True,
        return_offsets_mapping=True, padding=True, return_tensors="pt",
    )  # fmt: skip
    offsets = inputs.pop("offset_mapping").tolist()
    inputs.pop("overflow_to_sample_mapping")
    sides = [inputs.sequence_ids(i) for i in range(len(offsets))]
    if "roberta" in network.config.model_type:
        inputs.pop("token_type_ids", None)
    with torch.no_grad():
        outputs = network(**inputs)
    best, found = -float("inf"), ""
    for i, side in enumerate(sides):
        inside = [token for token, one in enumerate(side) if one == 1]
        for first in inside:
            for last in inside:
                score = float(outputs.start_logits[i, first] + outputs.end_logits[i, last])
                if first <= last < first + 30 and score > best:
                    best, found = score, context[offsets[i][first][0] : offsets[i][last][1]]
    return found.strip()


@pytest.mark.parametrize(
    "layout", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in LAYOUTS]
)
def test_a_checkpoint_is_tuned_and_scores_as_plain_transformers_says(
    layout: str, data: Path, tmp_path: Path, kobert: Callable
) -> None:
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    checkpoint, run_dir = made(layout, tmp_path), tmp_path / "runs" / layout
    path = recipe(tmp_path, checkpoint, data)
    rows = kobert("run", path, "--run-dir", run_dir, "--until", "finetune", "--json").json["stages"]
    assert [row["stage"] for row in rows] == ["checkpoint", "features", "features", "finetune", "finetune"]
    counts = rows[0]["counts"]
    assert counts["files_sha256"] == {name: sha256(checkpoint / name) for name in counts["files_sha256"]}
    assert {"config.json", "tokenizer_config.json"} < set(counts["files_sha256"]) and "commit" not in counts
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    kept = AutoTokenizer.from_pretrained(run_dir / "checkpoint" / "tokenizer")
    text = "그 영화, 진짜 재밌었어요ㅋㅋ 😀 abc"
    assert kept(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert rows[1]["counts"]["train_tokens"] > 8 * rows[1]["counts"]["train_examples"], "no jamo, no [UNK] for words"

    model = run_dir / "finetune" / "nsmc" / "1" / "model"
    expected = accuracy_by_transformers(model, tokenizer, data / "reviews_test.txt", 32)
    assert rows[3]["counts"]["test"]["accuracy"] == pytest.approx(expected, abs=1e-3)
    model, question = run_dir / "finetune" / "korquad" / "1" / "model", "누가 만들었는가?"
    contexts = [example["context"] for example in KorQuad().read(data / "qa_dev.json")[::5]]
    options = ["--tokenizer", run_dir / "checkpoint" / "tokenizer", "--json", "--question", question]
    answers = [json.loads(line)["answer"] for line in kobert("predict", model, *options, *contexts).out.splitlines()]
    network = AutoModelForQuestionAnswering.from_pretrained(model).eval()
    theirs = [answer_by_transformers(network, tokenizer, question, context, 16) for context in contexts]
    assert answers == theirs


@pytest.mark.parametrize("layout", LAYOUTS)
def test_decomposed_hangul_is_read_as_composed(layout: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder, text = made(layout, tmp_path), "그 영화 정말 재미있다"
    decomposed = normalize("NFD", text)
    loaders = [load_tokenizer, *([TokenizersOnly.from_folder] if is_enough(folder) else [])]
    for tokenizer in (load(folder) for load in loaders):
        composed, read = token_rows(tokenizer, [text, decomposed])
        assert read["input_ids"] == composed["input_ids"] == AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
        found = [normalize("NFC", decomposed[slice(*span)]) for span in read["offset_mapping"]]
        assert found == [text[slice(*span)] for span in composed["offset_mapping"]]


@pytest.mark.parametrize("unknown", [0, None])
def test_a_vocabulary_of_jamo_is_left_as_it_is(unknown: int | None) -> None:
    jamo = ["[UNK]", *normalize("NFD", "가이")]
    backend = Tokenizer(models.WordPiece({token: id_ for id_, token in enumerate(jamo)}, unk_token="[UNK]"))
    compose_hangul(backend, unknown)
    assert backend.normalizer is None


def test_bytes_of_jamo_are_left_as_they_are() -> None:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel()
    words = [normalize("NFD", line) for path in TEXTS.glob("*.txt") for line in path.read_text("utf-8").splitlines()]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(words, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet))
    compose_hangul(backend, None)
    assert backend.normalizer is None


def test_it_is_published_without_our_code_and_compared(data: Path, tiny: Any, tmp_path: Path, kobert: Callable) -> None:
    checkpoint, run_dir = made("klue-roberta", tmp_path), tmp_path / "runs" / "theirs"
    (checkpoint / "README.md").write_text("---\nbase_model: klue/roberta-base\n---\n# Ours\n", encoding="utf-8")
    path = recipe(tmp_path, checkpoint, data)
    assert kobert("run", path, "--run-dir", run_dir).code == 0
    folder = run_dir / "publish" / "nsmc"
    assert (folder / "tokenizer.json").is_file() and not list(folder.glob("*.py"))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "Fine-tuned from `klue-roberta`" in card and "trust_remote_code" not in card and str(tmp_path) not in card
    assert ModelCard(card).data.base_model == "klue/roberta-base"
    from transformers import pipeline

    label = pipeline("text-classification", str(folder))("정말 재밌다")[0]["label"]
    ours = kobert("predict", folder, "정말 재밌다", "--json").json
    assert ours["label"] == label
    found = kobert("evaluate", folder, data / "reviews_test.txt", "--json").json
    assert (
        found["clean"]["scores"] == read_json(run_dir / "finetune" / "nsmc" / "1" / "manifest.json")["counts"]["test"]
    )
    table = kobert("compare", tiny.run_dir, run_dir).out
    assert "own pretraining" in table and str(checkpoint) in table
    # it can be the start of the next recipe, and our own checkpoints can, too
    again = recipe(tmp_path, folder, data)
    assert kobert("run", again, "--run-dir", tmp_path / "runs" / "again", "--until", "features").code == 0
    assert base_model_of(str(folder), folder) == "klue/roberta-base", "the card of what was published names it, too"


def test_one_of_this_package_needs_its_analyzer_and_keeps_its_licence(
    data: Path, tiny: Any, tmp_path: Path, kobert: Callable
) -> None:
    plan, features = {"epochs": 1, "batch_size": 16}, {"task": "nsmc", "dev_share": 0.2, "license": "own"} | REVIEWS
    tuned = {"features": {"nsmc": features}, "finetune": {"nsmc": {"plan": plan, "baseline": "none"}}}
    checkpoint = shutil.copytree(tiny.run_dir / "publish" / "mlm", tmp_path / "mlm")
    card = (checkpoint / "README.md").read_text(encoding="utf-8")
    (checkpoint / "README.md").write_text(
        card.replace("license: apache-2.0", "license: cc-by-sa-4.0"), encoding="utf-8"
    )
    own, run_dir = recipe(tmp_path, checkpoint, data, **tuned), tmp_path / "runs" / "own"
    assert "cc-by-sa-4.0" in kobert("check", own).complaint
    assert kobert("run", own, "--run-dir", run_dir, "--set", "publish.nsmc.license=cc-by-sa-4.0").code == 0
    assert (run_dir / "checkpoint" / "tokenizer" / "morphemes.json").is_file()
    plain = (tiny.run_dir / "publish" / "nsmc" / "plain" / "tokenizer.json").read_bytes()
    assert (run_dir / "publish" / "nsmc" / "plain" / "tokenizer.json").read_bytes() == plain
    published = ModelCard.load(run_dir / "publish" / "nsmc" / "README.md")
    assert "`plain/` has the same vocabulary" in published.text and "the model was not fine-tuned" in published.text
    assert "with that checkpoint's own tokenizer. The analyzer kiwi (style `surface`) segments" in published.text
    assert "trust_remote_code=True)" in published.text and "kiwi" in published.data.tags


def test_the_base_model_of_a_folder_is_the_one_that_its_card_names(tmp_path: Path) -> None:
    assert base_model_of("klue/bert-base@main", tmp_path) == "klue/bert-base"
    values = ["base_model: [a/b, c/d]", "base_model: ../mine", "base_model: [", "- 1"]
    cards = ["", "# no metadata", *(f"---\n{value}\n---\n" for value in values)]
    assert base_model_of(str(tmp_path), tmp_path) is None
    for card in cards:
        (tmp_path / "README.md").write_text(card, encoding="utf-8")
        assert base_model_of(str(tmp_path), tmp_path) is None, card


def test_what_is_no_checkpoint_is_refused_in_one_sentence(data: Path, tmp_path: Path, kobert: Callable) -> None:
    def complaint(checkpoint: object, **more: Any) -> str:
        path = recipe(tmp_path, checkpoint, data, **more)
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        return str(kobert("run", path, "--run-dir", tmp_path / "runs" / "x").complaint)

    whole = made("kcbert", tmp_path / "whole")

    def changed(name: str) -> Path:
        return Path(shutil.copytree(whole, tmp_path / name))

    for name, said in {
        "config.json": "lacks config.json", "pytorch_model.bin": "lacks model.safetensors (or pytorch_model.bin)",
        "vocab.txt": "lacks a vocabulary",
    }.items():  # fmt: skip
        folder = changed(f"without-{name}")
        (folder / name).unlink()
        assert said in complaint(folder)
    # a class that only its authors' code has, as KoBERT's, one without offsets, and a damaged SentencePiece model
    for name, tokenizer, said in (
        ("vocab.txt", "KoBertTokenizer", "does not load as a fast one"),
        ("vocab.txt", "BertJapaneseTokenizer", "a tokenizer without offsets (BertJapaneseTokenizer)"),
        ("spiece.model", "AlbertTokenizer", "does not load as a fast one"),
    ):
        folder = changed(tokenizer)
        (folder / "vocab.txt").rename(folder / name)
        write_json(folder / "tokenizer_config.json", {"tokenizer_class": tokenizer})
        assert said in complaint(folder) and "tokenizer.json" in complaint(folder)
    folder = changed("evil")
    torch.save({"weights": Path}, folder / "pytorch_model.bin")
    assert "does not hold weights alone" in complaint(folder)
    folder = changed("half")
    tensors = torch.load(folder / "pytorch_model.bin", weights_only=True)
    torch.save({key: value for key, value in tensors.items() if ".layer.1." not in key}, folder / "pytorch_model.bin")
    assert "the weights lack 16 tensors of a BertModel" in complaint(folder)
    folder = changed("other")
    write_json(folder / "config.json", read_json(folder / "config.json") | {"vocab_size": 1000})
    said = complaint(folder)
    assert f"kobert: checkpoint: {folder}: " in said and "[1000, 32] by its config.json" in said
    folder = changed("shallow")
    write_json(folder / "config.json", read_json(folder / "config.json") | {"num_hidden_layers": 1})
    assert "16 of its weights, such as encoder.layer.1." in complaint(folder)
    folder = changed("wide")
    with (folder / "vocab.txt").open("a", encoding="utf-8") as file:
        file.writelines(f"낱말{number}\n" for number in range(3000))
    assert "they do not belong together" in complaint(folder)
    folder = changed("no-config")
    write_json(folder / "config.json", ["bert"])
    assert "config.json is not the config of a model" in complaint(folder)
    assert "nor a name on the Hugging Face Hub" in complaint("no such thing")
    assert "is not a folder here, and could not be fetched" in complaint("nobody/nothing")
    assert "also shards; leave that out, or name the corpus" in complaint(whole, shards={"held_out": 0.1})
    assert "publish.nsmc.source is 'pretrain'" in complaint(whole, publish={"nsmc": {"source": "pretrain"}})
    long = {"nsmc": {"task": "nsmc", "train": "reviews_train.txt", "max_length": 128}}
    assert "100 positions" in complaint(whole, features=long, finetune={"nsmc": {}})


def test_soft_labelled_texts_lose_their_white_space_with_any_tokenizer(tmp_path: Path) -> None:
    folder = made("kcbert", tmp_path)
    backend, special = vocabulary_in(folder)
    rows = [backend.encode(text, add_special_tokens=False).ids for text in ("정말 재미있는 영화", "다시 보고 싶다")]
    texts = features_of_ids([[special.cls, *row, special.sep] for row in rows])
    settings = {"unspaced_share": 1, "max_length": 24}
    encoded = encode_for_student(texts, settings, folder, backend, special)
    joined = [backend.encode(backend.decode(row).replace(" ", "")).ids for row in rows]
    assert encoded.arrays["input_ids"].tolist() == [*joined[0], *joined[1]]
    assert joined[0][1:-1] != rows[0]


def test_check_names_a_task_for_which_a_checkpoint_has_no_head(data: Path, tmp_path: Path, kobert: Callable) -> None:
    bert, folder = made("kcbert", tmp_path), tmp_path / "splinter"
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 96}
    config = SplinterConfig(vocab_size=read_json(bert / "config.json")["vocab_size"], **sizes)
    SplinterModel(config).save_pretrained(folder)
    for path in [*bert.glob("*token*"), *bert.glob("vocab*")]:
        shutil.copy(path, folder)
    said = kobert("check", recipe(tmp_path, folder, data, publish={})).complaint
    assert f"finetune.nsmc uses the task nsmc, for which {folder} (of the type splinter) has no head" in said


@pytest.mark.parametrize("name", ["../gone", "./gone", "/gone/model", "~/model", "models/run/gone", "some/-bert"])
def test_a_missing_folder_is_found_by_check(name: str, data: Path, tmp_path: Path, kobert: Callable) -> None:
    path = recipe(tmp_path, name, data)
    for command in ("check", "run"):
        complaint = kobert(command, path, "--run-dir", tmp_path / "runs" / "x").complaint
        assert f"{name} is neither a folder (looked for in {Path.cwd()}) nor a name on the Hugging Face" in complaint
    assert ": valid, " in kobert("check", path, "--set", "checkpoint=some/bert@refs/pr/1").out


def test_a_recipe_needs_texts_or_a_checkpoint(tmp_path: Path, kobert: Callable) -> None:
    (tmp_path / "r.yaml").write_text("finetune: {}\n", encoding="utf-8")
    assert "there is neither corpus nor checkpoint" in kobert("check", tmp_path / "r.yaml").complaint
