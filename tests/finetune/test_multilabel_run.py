"""The task multilabel by the command: trained, published, and used by predict, evaluate, the server and plain
`transformers`."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from transformers import BertConfig, BertForSequenceClassification, pipeline

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.batching import Batches
from kobert_pipeline.finetune.model import TaskModule, build
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.loading import load_model, load_tokenizer
from kobert_pipeline.inference.task_of_checkpoint import task_by_head
from kobert_pipeline.serve.model import ServedModel

THINGS = ["감나무", "나루터", "라디오", "바구니", "자전거", "칼국수", "하늘", "마당"]
WORDS = {"좋음": "정말 좋다", "비쌈": "너무 비싸다", "먼 곳": "아주 멀리 있다"}
SETS = [["좋음"], ["비쌈"], ["좋음", "먼 곳"], ["비쌈", "먼 곳"], ["좋음", "비쌈"], []]


def text_of(thing: str, labels: list[str]) -> str:
    return ", ".join([f"{thing}가 보인다", *(WORDS[label] for label in labels)])


@pytest.fixture(scope="module")
def run_dir(tiny: Any, kobert: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("multilabel")
    rows = [(text_of(thing, labels), labels) for thing in THINGS for labels in SETS]
    lines = [[text, *(str(int(label in labels)) for label in WORDS)] for text, labels in rows]
    for name, chosen in (("train.tsv", lines[:36]), ("test.tsv", lines[36:])):
        table = [["문장", *WORDS], *chosen]
        (place / name).write_text("".join("\t".join(line) + "\n" for line in table), encoding="utf-8")
    content = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8")) | {
        "checkpoint": str(tiny.run_dir / "publish/mlm")
    }
    content = {"checkpoint": content["checkpoint"], "data_dir": str(place)}
    content["features"] = {
        "kinds": {"task": "multilabel", "train": "train.tsv", "test": "test.tsv", "dev_share": 0.3, "max_length": 48}
    }
    content["features"]["kinds"]["license"] = "CC0-1.0"
    content["finetune"] = {"kinds": {"plan": {"epochs": 20, "batch_size": 8, "learning_rate": 5e-3}}}
    content["publish"] = {"kinds": {"source": "kinds"}}
    (place / "kinds.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    result = kobert("run", place / "kinds.yaml", "--run-dir", place / "runs" / "kinds")
    assert result.code == 0, result.err
    return place / "runs" / "kinds"


def test_the_loss_is_that_of_transformers_and_parts_of_a_batch_add_up_to_it(run_dir: Path) -> None:
    features, task = Features.load(run_dir / "features/kinds/train"), Task.of_features(run_dir / "features/kinds")
    torch.manual_seed(0)
    model = build(task, run_dir / "checkpoint/model", False, FinetunePlan(dropout=0.0), 48).eval()
    assert model.config.problem_type == "multi_label_classification"
    batches = Batches(features, task.targets(features), 8, seed=1)
    whole = batches.batch(1, 0, 1)
    assert whole["labels"].dtype == torch.float32 and whole["labels"].shape == (8, 3)
    inputs = {name: whole[name] for name in ("input_ids", "token_type_ids", "attention_mask", "labels")}
    expected = model(**inputs).loss
    by_hand = torch.nn.functional.binary_cross_entropy_with_logits(model(**inputs).logits, whole["labels"])
    module = TaskModule(model)
    parts = sum(module(batches.batch(1, part, 3))[0] for part in range(3))
    for loss in (module(whole)[0], parts, by_hand):
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_it_is_learned_scored_and_its_thresholds_are_in_the_published_config(run_dir: Path, tiny: Any) -> None:
    counts = tiny.manifests(run_dir)["finetune/kinds/1"]["counts"]
    assert list(counts["test"]) == list(counts["dev"]) == ["micro_f1", "macro_f1", "subset_accuracy"]
    assert counts["dev"]["macro_f1"] > 60, "more than any constant prediction"
    rows = counts["test_classification_report"]["classes"]
    assert [row["label"] for row in rows] == list(WORDS)
    assert tiny.manifests(run_dir)["features/kinds"]["counts"]["test_labels"] == {"좋음": 6, "비쌈": 6, "먼 곳": 4}
    config = json.loads((run_dir / "publish/kinds/config.json").read_text(encoding="utf-8"))
    assert config["problem_type"] == "multi_label_classification"
    assert config["task_specific_params"]["multilabel"]["thresholds"].keys() == WORDS.keys()


def test_predictions_are_the_same_by_python_command_table_server_and_transformers(
    run_dir: Path, kobert: Any, tmp_path: Path
) -> None:
    folder, texts = run_dir / "publish/kinds", [text_of("기차", labels) for labels in SETS]
    expected = Checkpoint.load(folder).predict(texts)
    assert [list(row) for row in expected] == [["text", "labels", "scores"]] * len(SETS)
    by_command = kobert("predict", folder, *texts, "--json").out.splitlines()
    assert [json.loads(line) for line in by_command] == expected
    (tmp_path / "new.csv").write_text("".join(f'n,"{text}"\n' for text in ["문장", *texts, " "]), encoding="utf-8")
    *of_rows, blank = map(
        json.loads, kobert("predict", folder, "--in", tmp_path / "new.csv", "--json").out.splitlines()
    )
    assert [{key: row[key] for key in row if key != "row"} for row in of_rows] == expected
    assert blank["labels"] is None and blank["scores"] is None
    served = ServedModel("kinds", str(folder))
    assert "/v1/classify" in served.endpoints and served.predict([served.example(text) for text in texts]) == expected
    by_onnx = Checkpoint.load(folder, backend="onnx").predict(texts)
    assert [row["labels"] for row in by_onnx] == [row["labels"] for row in expected]
    classify = pipeline("text-classification", model=load_model(folder), tokenizer=load_tokenizer(folder), top_k=None)
    for row, theirs in zip(expected, classify(texts), strict=True):
        assert row["scores"] == pytest.approx({one["label"]: one["score"] for one in theirs}, abs=2e-4)


def test_the_test_scores_are_those_of_evaluate_which_lists_wrong_texts(run_dir: Path, kobert: Any, tiny: Any) -> None:
    file = run_dir.parents[1] / "test.tsv"
    report = kobert("evaluate", run_dir / "publish/kinds", file, "--errors", "--noise", "spaces-removed", "--json").json
    known = tiny.manifests(run_dir)["finetune/kinds/1"]["counts"]["test"]
    assert report["clean"]["scores"] == pytest.approx(known, abs=0.01)
    wrong = round(len(WORDS) and report["clean"]["examples"] * (1 - known["subset_accuracy"] / 100))
    assert len(report["wrong_labels"]) == wrong
    assert report["noise"]["conditions"][0]["scores"].keys() == known.keys()


def test_the_example_on_the_card_gives_the_labels_of_the_checkpoint(run_dir: Path) -> None:
    folder = run_dir / "publish/kinds"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "A text has every label whose probability is at least its threshold" in card
    metrics = yaml.safe_load(card.split("---\n")[1])["model-index"][0]["results"][0]["metrics"]
    assert [(one["type"], one["name"]) for one in metrics] == [
        ("f1", "micro_f1"),
        ("f1", "macro_f1"),
        ("accuracy", "subset_accuracy"),
    ]
    code = card.split("```python\n")[1].split("```")[0].replace("PATH/TO/THIS/FOLDER", str(folder))
    printed = io.StringIO()
    scope: dict[str, Any] = {}
    with contextlib.redirect_stdout(printed):
        exec(code, scope)
    text = next(line for line in code.splitlines() if "classify(" in line).split('"')[1]
    [expected] = Checkpoint.load(folder).predict([text])
    assert {row["label"] for row in eval(printed.getvalue())} == set(expected["labels"])


def test_a_checkpoint_of_other_people_with_several_labels_is_used_with_a_threshold_of_one_half(tmp_path: Path) -> None:
    labels = {"id2label": {0: "욕설", 1: "비하"}, "label2id": {"욕설": 0, "비하": 1}}
    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        problem_type="multi_label_classification", **labels,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    task = Task.choose(task_by_head(tmp_path, model)).with_model_labels(["욕설", "비하"])
    assert task.name == "multilabel"
    logits = {"logits": [np.array([0.01, -0.01], np.float32)]}
    assert task.predict(logits, Features({}, [{}])) == [[0]]


def test_a_head_of_other_people_for_several_numbers_is_refused(tmp_path: Path) -> None:
    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        problem_type="regression", num_labels=3,
    )  # fmt: skip
    with pytest.raises(UserError, match="names no task and is for regression; use it through transformers"):
        task_by_head(tmp_path, BertForSequenceClassification(config))
