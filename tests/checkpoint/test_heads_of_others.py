"""Heads that other tools trained: their outputs are read by their names, in any order and spelling, and compared with
what `transformers` computes for the same folder."""

import csv
import functools
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layouts import BERT_TOKENS, SIZES, byte_level, lines, made, wordpiece
from scipy.stats import pearsonr
from seqeval.metrics.sequence_labeling import get_entities
from starlette.testclient import TestClient
from tokenizers import Tokenizer, processors
from transformers import (
    AutoTokenizer,
    BartConfig,
    BartForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
)

from kobert_pipeline.checkpoint import stage
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import write_json
from kobert_pipeline.finetune.model import build
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.questions.exact_match import TYPES
from kobert_pipeline.serve.app import create_app
from kobert_pipeline.serve.limits import Limits
from kobert_pipeline.serve.service import Service
from kobert_pipeline.tokenizer.loading import token_types
from kobert_pipeline.tokenizer.tokenizers_only import TokenizersOnly

TEXTS = [line for line in lines() if 8 < len(line) < 60][:40]


@pytest.fixture
def head(tmp_path: Path) -> Callable[..., Path]:
    """`head(kind, names)`: the folder of a classifier with random weights, large enough for unlike texts to get unlike
    labels."""

    def save(kind: Any, names: list[str], **config: Any) -> Path:
        folder = tmp_path / "head"
        folder.mkdir()
        rows = wordpiece(folder, BERT_TOKENS)
        torch.manual_seed(3)
        labels = {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
        kind(BertConfig(vocab_size=rows, initializer_range=0.5, **SIZES, **labels, **config)).save_pretrained(folder)
        return folder

    return save


@functools.lru_cache(1)  # every folder is that of one test and does not change
def by_transformers(folder: Path) -> tuple[Any, Any]:
    kind = (
        BertForTokenClassification if "Token" in (folder / "config.json").read_text() else BertForSequenceClassification
    )
    return AutoTokenizer.from_pretrained(folder), kind.from_pretrained(folder).eval()


def logits_of(folder: Path, text: str, pair: str | None = None) -> np.ndarray:
    """One text at a time, by `transformers` alone."""
    tokenizer, model = by_transformers(folder)
    with torch.no_grad():
        logits: np.ndarray = model(**tokenizer(text, pair, return_tensors="pt")).logits[0].double().numpy()
    return logits


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize(("names", "differs"), [(None, False), (["input_ids", "token_type_ids"], True)])
def test_the_texts_of_a_pair_are_told_apart_where_the_tokenizer_does(
    names: list[str] | None, differs: bool, head: Callable
) -> None:
    """A PreTrainedTokenizerFast gives its model token types only where its settings name that input."""
    folder = head(BertForSequenceClassification, ["LABEL_0"])
    wordpiece(folder, BERT_TOKENS, ("vocab.txt", "tokenizer.json"))
    special = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), BERT_TOKENS, strict=True))
    inputs = {"model_input_names": names} if names else {}
    write_json(folder / "tokenizer_config.json", {**special, **inputs, "tokenizer_class": "PreTrainedTokenizerFast"})
    expected = logits_of(folder, TEXTS[0], TEXTS[1])[0]
    found = Checkpoint.load(folder).predict(TEXTS[0], pair=TEXTS[1])["score"]
    assert found == pytest.approx(expected, abs=1e-4)
    tokenizer = TokenizersOnly.from_folder(folder)  # as for ONNX Runtime
    assert tokenizer.model_input_names == AutoTokenizer.from_pretrained(folder).model_input_names
    types = token_types(tokenizer, tokenizer([TEXTS[0]], [TEXTS[1]], return_token_type_ids=True))
    assert (1 in types[0]) is differs


def test_the_end_of_a_text_is_not_taken_for_padding(tmp_path: Path) -> None:
    """GPT-2's config names no token for padding, and a tokenizer may end every text with the end-of-text token."""
    size = byte_level(tmp_path)
    torch.manual_seed(3)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "initializer_range": 0.5, "num_labels": 1}
    end = AutoTokenizer.from_pretrained(tmp_path).sep_token_id
    model = GPT2ForSequenceClassification(GPT2Config(vocab_size=size, bos_token_id=end, eos_token_id=end, **sizes))
    model.eval().save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    with torch.no_grad():
        expected = [float(model(**tokenizer(text, return_tensors="pt")).logits[0]) for text in TEXTS]
    found = [row["score"] for row in Checkpoint.load(tmp_path).predict(TEXTS)]
    assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("template", "is_read"), [(None, False), ("$A [SEP]", True)])
def test_a_classifier_with_a_decoder_needs_the_end_of_each_text(
    template: str | None, is_read: bool, tmp_path: Path, kobert: Callable
) -> None:
    """KoBART's tokenizer adds none."""
    rows = byte_level(tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    end = processors.TemplateProcessing(single=template, special_tokens=[("[SEP]", 3)]) if template else None
    tokenizer.post_processor = end or processors.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3}
    sizes = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    names = {"id2label": {0: "좋음", 1: "나쁨"}, "label2id": {"좋음": 0, "나쁨": 1}}
    config = BartConfig(vocab_size=rows, max_position_embeddings=64, d_model=32, **sizes, **ids, **names)
    network = BartForSequenceClassification(config).eval()
    network.save_pretrained(tmp_path)
    result = kobert("predict", tmp_path, "--json", *TEXTS[:3])
    if not is_read:
        assert result.code == 2 and "its tokenizer does not end each text with one" in result.err
        return
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for line, text in zip(result.out.splitlines(), TEXTS, strict=False):
        inputs = {"input_ids": torch.tensor([loaded(text)["input_ids"]])}
        expected = network(**inputs).logits.softmax(-1)[0, 0].item()
        assert json.loads(line)["scores"]["좋음"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("problem_type", [None, "regression"])
def test_one_output_is_a_score(problem_type: str | None, head: Callable, tmp_path: Path, kobert: Callable) -> None:
    folder = head(BertForSequenceClassification, ["LABEL_0"], problem_type=problem_type)
    checkpoint = Checkpoint.load(folder)
    single, paired = checkpoint.predict(TEXTS[0]), checkpoint.predict(TEXTS[0], pair=TEXTS[1])
    assert single == {"text": TEXTS[0], "score": pytest.approx(logits_of(folder, TEXTS[0])[0], abs=1e-4)}
    assert paired["score"] == pytest.approx(logits_of(folder, TEXTS[0], TEXTS[1])[0], abs=1e-4)
    assert abs(paired["score"] - single["score"]) > 0.01
    rows = [{"text": text, "rating": len(text) - 30} for text in TEXTS]
    file = write_table(tmp_path / "ratings.csv", rows)
    scores = kobert("evaluate", folder, file, "--task", "regression", "--json").json["clean"]["scores"]
    expected = pearsonr([logits_of(folder, row["text"])[0] for row in rows], [row["rating"] for row in rows])[0]
    assert scores["pearson"] == pytest.approx(100 * expected, abs=0.02)


NAMES = ["부정", "긍정", "중립"]
SPELLED_NAMES: dict[str, Any] = {
    "a list": {"id2label": NAMES},
    "label2id alone": {"id2label": None, "label2id": {"중립": 2, "부정": 0, "긍정": 1}},
    "by number": {"id2label": {"2": "중립", "0": "부정", "1": "긍정"}},
}


@pytest.mark.parametrize("spelled", SPELLED_NAMES.values(), ids=SPELLED_NAMES)
def test_names_of_outputs_are_read_however_they_are_kept(
    spelled: dict[str, Any], head: Callable, tmp_path: Path
) -> None:
    folder = head(BertForSequenceClassification, NAMES)
    expected = [Checkpoint.load(folder).predict(text) for text in TEXTS[:9]]
    config = json.loads((folder / "config.json").read_text()) | spelled
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    assert [Checkpoint.load(folder).predict(text) for text in TEXTS[:9]] == expected
    stage.run(str(folder), tmp_path / "out")
    copied = json.loads((tmp_path / "out" / "model" / "config.json").read_text())
    assert {int(number): name for number, name in copied["id2label"].items()} == dict(enumerate(NAMES))


def test_two_outputs_of_one_name_are_refused(head: Callable) -> None:
    with pytest.raises(UserError, match=r"calls two of its outputs '긍정'; name each, as in --labels"):
        Checkpoint.load(head(BertForSequenceClassification, ["긍정", "부정", "긍정"])).predict(TEXTS[0])


@pytest.mark.parametrize("names", [["부정"], [*NAMES, "모름"]])
def test_another_number_of_names_than_outputs_is_said_with_both_sizes(names: list[str], head: Callable) -> None:
    folder = head(BertForSequenceClassification, NAMES)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"id2label": dict(enumerate(names))}))
    said = rf"classifier.bias is \[3\] in its weights and \[{len(names)}\] by its config.json"
    with pytest.raises(UserError, match=said):
        Checkpoint.load(folder)


PAIRS = [{"premise": a, "hypothesis": b} for a, b in zip(TEXTS[:6], TEXTS[6:12], strict=True)]


def test_a_classifier_that_names_no_task_reads_texts_and_pairs(
    head: Callable, tmp_path: Path, kobert: Callable
) -> None:
    folder = head(BertForSequenceClassification, ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"])

    def expected(*texts: str) -> Any:
        scores = np.exp(logits := logits_of(folder, *texts)) / np.exp(logits).sum()
        return pytest.approx(dict(zip(["ENTAILMENT", "NEUTRAL", "CONTRADICTION"], scores, strict=True)), abs=2e-4)

    a, b = PAIRS[0]["premise"], PAIRS[0]["hypothesis"]
    assert kobert("predict", folder, a, "--json").json["scores"] == expected(a)
    row = kobert("predict", folder, a, "--pair", b, "--json").json
    assert (row["text"], row["text_pair"], row["scores"]) == (a, b, expected(a, b))
    file = write_table(tmp_path / "pairs.csv", PAIRS)
    table = kobert("predict", folder, "--in", file, "--column", "premise", "--column", "hypothesis", "--json").out
    for line, pair in zip(map(json.loads, table.splitlines()), PAIRS, strict=True):
        assert line["scores"] == expected(pair["premise"], pair["hypothesis"])
    checkpoint = Checkpoint.load(folder)
    examples = [{"text": a}, {"text": a, "text_pair": b}, {"text": b}]
    mixed = checkpoint.results([example | {"label": 0} for example in examples], long="windows")
    assert [row["scores"] for row in mixed] == [expected(*example.values()) for example in examples]
    with pytest.raises(UserError, match="leave --long out"):
        checkpoint.predict(a, pair=b, long="windows")


def test_the_server_of_such_a_classifier_takes_both(head: Callable) -> None:
    folder, (a, b) = head(BertForSequenceClassification, ["다름", "같음"]), TEXTS[:2]
    expected = Checkpoint.load(folder)
    with TestClient(create_app(Service({"same": str(folder)}, Limits()))) as client:
        while client.get("/ready").status_code != 200:
            time.sleep(0.05)
        answer = client.post("/v1/classify", json={"input": [a, {"text": a, "text_pair": b}]}).json()["data"]
    for row, alone in zip(answer, [expected.predict(a), expected.predict(a, pair=b)], strict=True):
        assert row["scores"] == pytest.approx(alone["scores"], abs=2e-4)


BIO = ["O", "B-PS", "I-PS", "B-LC", "I-LC"]
TAG_SETS = {
    "O last": (["B-PS", "I-PS", "B-LC", "I-LC", "O"], [1, 2, 3, 4, 0]),
    "B of all types first": (["B-PS", "B-LC", "I-PS", "I-LC", "O"], [1, 3, 2, 4, 0]),
    "suffix with a dash": (["O", "PS-B", "PS-I", "LC-B", "LC-I"], [0, 1, 2, 3, 4]),
    "suffix with a bar": (["LC_I", "LC_B", "PS_I", "PS_B", "O"], [4, 3, 2, 1, 0]),
    "prefix with a bar": (["O", "B_PS", "I_PS", "B_LC", "I_LC"], [0, 1, 2, 3, 4]),
    "other case": (["o", "b-PS", "i-PS", "b-LC", "i-LC"], [0, 1, 2, 3, 4]),
    "BIOES": (["O", "B-PS", "I-PS", "E-PS", "S-PS", "S-LC", "B-LC", "E-LC", "I-LC"], [0, 1, 2, 2, 1, 3, 3, 4, 4]),
    "BILOU": (["B-PS", "I-PS", "L-PS", "U-PS", "B-LC", "I-LC", "L-LC", "U-LC", "O"], [1, 2, 2, 1, 3, 4, 4, 3, 0]),
    "BIOES suffix": (["O", "PS-S", "PS-B", "PS-I", "PS-E", "LC-B", "LC-I", "LC-S"], [0, 1, 1, 2, 2, 3, 4, 3]),
    "IO": (["O", "I-PS", "I-LC"], [0, 2, 4]),
    "types alone": (["PS", "O", "LC"], [2, 0, 4]),
    "special tokens": (["UNK", "PAD", "O", "PS-B", "PS-I", "LC-B", "LC-I"], [0, 0, 0, 1, 2, 3, 4]),
}  # fmt: skip
"""{form: (the names of the outputs, the tag of `BIO` that each is)}"""


@pytest.mark.parametrize("form", TAG_SETS)
def test_tags_in_any_order_and_spelling_are_read_by_name(form: str, head: Callable) -> None:
    names, tags = TAG_SETS[form]
    folder = head(BertForTokenClassification, names)
    tokenizer, found = AutoTokenizer.from_pretrained(folder), Checkpoint.load(folder).predict(TEXTS)
    entities_of_all = 0
    for text, row in zip(TEXTS, found, strict=True):
        logits = logits_of(folder, text)[1:-1]  # without [CLS] and [SEP]
        by_output = np.exp(logits - logits.max(-1, keepdims=True))
        by_tag = np.stack([by_output[:, np.array(tags) == tag].sum(-1) for tag in range(len(BIO))], -1)
        by_tag /= by_tag.sum(-1, keepdims=True)
        best = by_tag.argmax(-1)
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"][1:-1]
        expected = [
            (offsets[first][0], offsets[last][1], kind, by_tag[range(first, last + 1), best[first : last + 1]].mean())
            for kind, first, last in get_entities([BIO[tag] for tag in best])
        ]
        entities_of_all += len(expected)
        assert len(row["entities"]) == len(expected)
        for entity, (start, end, kind, score) in zip(row["entities"], expected, strict=True):
            assert (entity["start"], entity["end"], entity["label"]) == (start, end, kind)
            assert entity["score"] == pytest.approx(score, abs=2e-4)
    assert entities_of_all > 20


def test_spans_without_types_have_one(head: Callable) -> None:
    found = Checkpoint.load(head(BertForTokenClassification, ["B", "I", "O"])).predict(TEXTS)
    assert {entity["label"] for row in found for entity in row["entities"]} == {"ENTITY"}


@pytest.mark.parametrize(
    "names",
    [
        ["LABEL_0", "LABEL_1", "LABEL_2"],
        ["B-PS", "I-PS", "B-LC", "I-LC"],  # no output is outside
        ["0", "1", "2"],
        ["O"],
    ],
)
def test_outputs_that_are_no_tags_are_refused(names: list[str], head: Callable, kobert: Callable) -> None:
    complaint = kobert("predict", head(BertForTokenClassification, names), TEXTS[0]).complaint
    assert "id2label" in complaint and "expected" in complaint


def labelled(names: list[Any], tmp_path: Path) -> Path:
    return write_table(
        tmp_path / "labelled.csv", [{"text": text, "label": names[i % len(names)]} for i, text in enumerate(TEXTS)]
    )


MOODS = {
    "other case": (["NEGATIVE", "POSITIVE"], ["positive", "Negative"], [1, 0], []),
    "number": (["부정", "긍정"], [0, 1], [0, 1], []),
    "number that is a name": (["1", "0"], [0, 1], [1, 0], []),
    "number by its value": (["1", "0"], ["0.0", "1.0"], [1, 0], []),
    "no names, named": (["LABEL_0", "LABEL_1"], ["좋음", "나쁨"], [0, 1], ["--labels", "좋음=0,나쁨=1"]),
    "other words": (["부정", "긍정"], ["negative", "positive"], [0, 1], ["--labels", "positive=1,negative=0"]),
    "other words by name": (["NEG", "POS"], ["나쁨", "좋음"], [0, 1], ["--labels", "나쁨=neg,좋음=POS"]),
    "some renamed": (["a", "b", "c"], ["하나", "b", "C"], [0, 1, 2], ["--labels", "하나=0"]),
}
"""{case: (names of the outputs, labels in the file, the output of each label, options)}"""


@pytest.mark.parametrize("case", MOODS)
def test_labels_of_a_file_are_compared_with_those_of_the_checkpoint(
    case: str, head: Callable, tmp_path: Path, kobert: Callable
) -> None:
    names, labels, outputs, options = MOODS[case]
    folder = head(BertForSequenceClassification, names)
    result = kobert("evaluate", folder, labelled(labels, tmp_path), "--task", "classification", *options, "--json")
    predicted = [int(logits_of(folder, text).argmax()) for text in TEXTS]
    right = [output == outputs[i % len(outputs)] for i, output in enumerate(predicted)]
    assert len(set(predicted)) > 1
    assert result.json["clean"]["scores"]["accuracy"] == pytest.approx(100 * np.mean(right), abs=0.01)
    assert ("notes" in result.json) is (case == "number")
    if case == "number":
        assert result.json["notes"] == [
            "numbers in the file are taken for the outputs of the checkpoint: 0 is 부정, 1 is 긍정"
        ]


NLI = ["entailment", "neutral", "contradiction"]


@pytest.mark.parametrize(
    ("names", "outputs", "options"),
    [
        (["ENTAILMENT", "NEUTRAL", "CONTRADICTION"], [0, 1, 2], []),
        (["contradiction", "entailment", "neutral"], [1, 2, 0], []),
        (["LABEL_0", "LABEL_1", "LABEL_2"], [0, 1, 2], []),
        (["함의", "모순", "중립"], [0, 2, 1], ["--labels", "entailment=0,neutral=2,contradiction=1"]),
    ],
)
def test_a_task_with_labels_of_its_own_reads_heads_in_any_order(
    names: list[str], outputs: list[int], options: list[str], head: Callable, tmp_path: Path, kobert: Callable
) -> None:
    """`outputs`: the output of each label of the task nli."""
    folder = head(BertForSequenceClassification, names)
    rows = [pair | {"gold_label": NLI[i % 3]} for i, pair in enumerate(PAIRS)]
    file, out = write_table(tmp_path / "nli.csv", rows), tmp_path / "out.json"
    found = kobert("evaluate", folder, file, "--task", "nli", "--errors", "--out", out, *options, "--json").json
    matrix = np.zeros((3, 3), int)
    for row in rows:
        logits = logits_of(folder, row["premise"], row["hypothesis"])[outputs]
        matrix[NLI.index(row["gold_label"]), int(logits.argmax())] += 1
    assert found["classification_report"]["confusion_matrix"] == matrix.tolist()
    numbered = "the checkpoint's labels are taken by their numbers, LABEL_0 for entailment, LABEL_1 for neutral"
    assert found.get("notes", []) == ([f"{numbered}, LABEL_2 for contradiction"] if names[0] == "LABEL_0" else [])
    assert ("Note: the checkpoint" in out.with_suffix(".md").read_text()) is (names[0] == "LABEL_0")


@pytest.mark.parametrize(
    ("names", "options", "sentence"),
    [
        (["부정", "긍정"], [], r"'bad'; allowed are .*부정, 긍정, those of the checkpoint; .* --labels NAME=0"),
        (["LABEL_0", "LABEL_1"], [], r"the label is 'bad'; .* as in --labels NAME=0,OTHER=1"),
        (["부정", "긍정"], ["--labels", "bad=2"], r"bad is '2', which is no output .* has 0 \(부정\), 1 \(긍정\)"),
        (["부정", "긍정"], ["--labels", "bad=neg"], "bad is 'neg', which is no output of the checkpoint"),
        (["부정", "긍정"], ["--labels", "bad=0,good=0"], "labels: bad is the name of two outputs, or of none"),
        (["부정", "긍정"], ["--labels", "긍정=0"], "labels: 긍정 is the name of two outputs"),
        (["부정", "긍정"], ["--labels", "bad"], r"--labels is 'bad'; give a name and an output each, as in negative=0"),
        (["부정", "긍정"], ["--task", "acceptability"], "as in --labels unacceptable=0,acceptable=1, or choose"),
        (["부정", "긍정"], ["--task", "nli"], "those of the task nli are entailment, neutral, contradiction; choo"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_compared_are_refused_with_the_way_out(
    names: list[str], options: list[str], sentence: str, head: Callable, tmp_path: Path, kobert: Callable
) -> None:
    folder = head(BertForSequenceClassification, names)
    complaint = kobert(
        "evaluate", folder, labelled(["bad", "good"], tmp_path), "--task", "classification", *options
    ).complaint
    assert re.search(sentence, complaint), complaint


def test_python_names_labels_too(head: Callable, tmp_path: Path) -> None:
    folder, file = head(BertForSequenceClassification, ["NEG", "POS"]), labelled(["나쁨", "좋음"], tmp_path)
    found = Checkpoint.load(folder).evaluate(file, task="classification", labels={"나쁨": 0, "좋음": "POS"})
    assert found["task"]["labels"] == ["나쁨", "좋음"]


@pytest.mark.parametrize(
    ("names", "given", "rows"),
    [
        (["LABEL_0", "LABEL_1"], {"negative": 0, "positive": 1}, [0, 1]),
        (["LABEL_0", "LABEL_1"], {"positive": 0, "negative": 1}, [1, 0]),
        (["POSITIVE", "Negative"], {}, [1, 0]),
        (["긍정", "부정"], {"negative": 1, "positive": 0}, [1, 0]),
        (["긍정", "부정"], {}, None),
        (["LABEL_0", "LABEL_1"], {}, None),  # names that `transformers` leaves out of the config
    ],
)
def test_a_recipe_names_the_outputs_of_a_checkpoint_and_fine_tuning_keeps_its_head(
    names: list[str], given: dict[str, int], rows: list[int] | None, head: Callable, tmp_path: Path
) -> None:
    """`rows`: those of the task nsmc, negative and positive, in the head; None: it begins with a new one."""
    folder = head(BertForSequenceClassification, names)
    weights = BertForSequenceClassification.from_pretrained(folder).classifier.weight.data
    stage.run(str(folder), tmp_path / "out", given)
    model = build(Task.choose("nsmc"), tmp_path / "out" / "model", False, FinetunePlan(), 32)
    assert list(model.config.id2label.values()) == ["negative", "positive"]
    assert torch.equal(model.classifier.weight.data, weights[rows or [0, 1]]) is (rows is not None)


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (BertForSequenceClassification, {"x": 2}, r"labels: x is 2, which is no output .* 0 \(가\), 1 \(나\)"),
        (BertForSequenceClassification, {"나": 0}, "labels: 나 is the name of two outputs"),
    ],
)
def test_names_of_outputs_that_it_does_not_have_are_refused(
    kind: Any, given: dict[str, int], sentence: str, head: Callable, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        stage.run(str(head(kind, ["가", "나"])), tmp_path / "out", given)


def test_names_for_an_encoder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a BertForMaskedLM, whose head gives no labels; leave it out"):
        stage.run(str(made("kcbert", tmp_path)), tmp_path / "out", {"x": 0})


def test_parts_of_speech_of_a_text_that_ends_with_white_space(tmp_path: Path) -> None:
    """Whose last token, of white space alone, is at no character of its text."""
    byte_level(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    task = Task.choose({"name": "korquad", "exact_match_feature": True, "pos_feature": True})
    example = {"id": "1", "group": "", "question": "누가 갔나?", "context": "민수가 갔다. \n\n", "answers": []}
    arrays = task.featurize([example], tokenizer, 64)
    assert arrays["offsets"].max() == len(example["context"])
    assert arrays["token_type_ids"].max() >= TYPES
