"""The tasks on labelled texts and pairs end to end: one run by the command, from files to predictions of the published
folders."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.batching import Batches
from kobert_pipeline.finetune.model import TaskModule, build
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.loading import load_model, load_tokenizer
from kobert_pipeline.training.evaluations import read_evaluations

THINGS = [
    "감나무",
    "나루터",
    "다람쥐",
    "라디오",
    "마당",
    "바구니",
    "사다리",
    "자전거",
    "차표",
    "칼국수",
    "탁자",
    "파도",
    "하늘",
]
ALIKE = [
    ("{}가 보인다", "{}를 보았다", 4.6),
    ("{}가 보인다", "오늘은 {}가 없다", 2.2),
    ("{}가 좋다", "기차가 늦게 떠났다", 0.2),
]


def examples() -> Iterator[tuple[str, str, float]]:
    for first, second, score in ALIKE:
        yield from ((first.format(thing), second.format(thing), score) for thing in THINGS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, corpora: Path) -> Path:
    """The bundled corpora with a file for every task."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "documents").symlink_to(corpora / "documents")
    for name in ("reviews_test.txt", "qa_dev.json"):
        (folder / name).symlink_to(corpora / name)
    rows = list(examples())
    labels = {4.6: "entailment", 2.2: "contradiction", 0.2: "neutral"}

    def tsv(name: str, header: str, lines: list[tuple[Any, ...]]) -> None:
        content = "".join("\t".join(map(str, line)) + "\n" for line in [tuple(header.split()), *lines])
        (folder / name).write_text(content, encoding="utf-8")

    tsv("nli.tsv", "sentence1 sentence2 gold_label", [(a, b, labels[score]) for a, b, score in rows])
    tsv("pair.tsv", "question1 question2 is_duplicate", [(a, b, int(score > 3)) for a, b, score in rows])
    tsv("sts.tsv", "sentence1 sentence2 score", rows)
    tsv("acceptability.tsv", "sentence label", [(a if i % 2 else a[::-1], i % 2) for i, (a, _, _) in enumerate(rows)])
    own = [{"body": a if i % 2 else b, "kind": ["말", "글", "소리"][i % 3]} for i, (a, b, _) in enumerate(rows)]
    (folder / "classification.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own), encoding="utf-8")
    longer = [{**row, "body": f"{row['body']} 참"} for row in own]
    (folder / "train-classification.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in longer), encoding="utf-8"
    )
    for name in FILES.values():
        if name.endswith(
            ".tsv"
        ):  # to learn from: the same with a word more, since a test file must not be that of train
            header, *lines = (folder / name).read_text(encoding="utf-8").splitlines()
            content = "".join(f"{line}\n" for line in [header, *(line.replace("\t", " 참\t", 1) for line in lines)])
            (folder / f"train-{name}").write_text(content, encoding="utf-8")
    return folder


FILES = {
    "nli": "nli.tsv",
    "pair": "pair.tsv",
    "sts": "sts.tsv",
    "acceptability": "acceptability.tsv",
    "own": "classification.jsonl",
}
METRICS = {
    "nli": ["accuracy"], "pair": ["accuracy", "f1"], "sts": ["pearson", "spearman", "f1"], "acceptability": ["mcc",
    "accuracy"],
    "own": ["mcc", "accuracy", "macro_f1"],  # first the one that selects models
}  # fmt: skip
OWN = {"name": "classification", "text": "body", "label": "kind", "metric": "mcc"}


@pytest.fixture(scope="module")
def run_dir(data: Path, tiny: Any, kobert: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with all five tasks, three of them published."""
    place = tmp_path_factory.mktemp("labelled")
    run_dir = tiny.copy(place / "runs" / "tiny", "corpus", "analysis", "tokenizer", "shards", "pretrain")
    content = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8")) | {"data_dir": str(data)}
    content["features"] = {
        name: {
            "task": OWN if name == "own" else name,
            "train": f"train-{file}",
            "test": file,
            "dev_share": 0.3,
            "max_length": 48,
        }
        for name, file in FILES.items()
    }
    plan = {"epochs": 2, "batch_size": 8, "learning_rate": 5e-4}
    content["finetune"] = {name: {"with_ngrams": False, "plan": plan} for name in FILES}
    content["publish"] = {name: {"source": name, "onnx": False} for name in ("own", "sts", "nli")}
    (place / "tiny.yaml").write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf-8")
    result = kobert("run", place / "tiny.yaml", "--run-dir", run_dir)
    assert result.code == 0, result.err
    return run_dir


def test_every_task_is_learned_and_scored_by_its_own_scores(run_dir: Path, tiny: Any) -> None:
    for name in FILES:
        made = tiny.manifests(run_dir)[f"finetune/{name}/1"]["counts"]
        assert list(made["test"]) == list(made["dev"]) == METRICS[name]
        metric = Task.choose(OWN if name == "own" else name).metric
        found = read_evaluations(run_dir / "finetune" / name / "1" / "evaluations.json")
        assert made["dev"][metric] == max(values[metric] for values in found.values())
        predictions = (run_dir / "finetune" / name / "1" / "predictions.jsonl").read_text().splitlines()
        assert len(predictions) == len(list(examples()))


def test_without_a_test_set_the_report_by_class_is_that_of_dev(
    run_dir: Path, tiny: Any, kobert: Any, tmp_path: Path
) -> None:
    content = yaml.safe_load((run_dir.parent.parent / "tiny.yaml").read_text(encoding="utf-8"))
    chosen = ("own", "sts")
    content |= {section: {name: content[section][name] for name in chosen} for section in ("features", "finetune")}
    for options in content["features"].values():
        del options["test"]
    content["publish"] = {"own": {"source": "own", "onnx": False}}
    (tmp_path / "dev.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    copied = tiny.copy(tmp_path / "runs" / "dev", "corpus", "analysis", "tokenizer", "shards", "pretrain")
    assert kobert("run", tmp_path / "dev.yaml", "--run-dir", copied).code == 0

    own, sts = (tiny.manifests(copied)[f"finetune/{name}/1"]["counts"] for name in chosen)
    assert not any(name.startswith("test") for name in own)
    matrix = own["dev_classification_report"]["confusion_matrix"]
    right = sum(row[number] for number, row in enumerate(matrix))
    assert 100 * right / sum(map(sum, matrix)) == pytest.approx(own["dev"]["accuracy"], abs=1e-3)
    assert "dev_classification_report" not in sts, "a similarity is no class"
    card = (copied / "publish" / "own" / "README.md").read_text(encoding="utf-8")
    assert "By class, seed 1 on own (dev):" in card and f"| 글 | {' | '.join(map(str, matrix[0]))} |" in card


def test_a_published_classification_names_its_labels_and_gives_them(run_dir: Path) -> None:
    folder = run_dir / "publish" / "own"
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert list(config["id2label"].values()) == ["글", "말", "소리"], "sorted, as they are written in the training file"
    [found] = Checkpoint.load(folder).predict(["라디오가 보인다"])
    assert found["label"] == max(found["scores"], key=found["scores"].get)
    assert sum(found["scores"].values()) == pytest.approx(1, abs=1e-3)
    card = (folder / "README.md").read_text(encoding="utf-8")
    metrics = yaml.safe_load(card.split("---\n")[1])["model-index"][0]["results"][0]["metrics"]
    assert [(one["type"], one.get("name")) for one in metrics] == [
        ("matthews_correlation", "mcc"),
        ("accuracy", None),
        ("f1", "macro_f1"),
    ]
    assert "text_pair" not in card


def test_a_published_similarity_gives_a_score_for_a_pair(run_dir: Path, kobert: Any) -> None:
    folder = run_dir / "publish" / "sts"
    first, second, _ = next(examples())
    result = kobert("predict", folder, first, second, "--pair", second, "--json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [(one["text"], one["text_pair"]) for one in found] == [(first, second), (second, second)]
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    with torch.no_grad():
        expected = model(**tokenizer(first, second, return_tensors="pt")).logits
    assert expected.shape == (1, 1)
    assert found[0]["score"] == pytest.approx(float(expected), abs=1e-3)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "type: spearmanr" in card and "type: pearsonr" in card and '"text_pair"' in card


def test_the_pairs_that_the_card_shows_are_labelled_by_transformers_as_by_us(run_dir: Path) -> None:
    from transformers import pipeline

    folder = run_dir / "publish" / "nli"
    pairs = [("마당이 보인다", "마당을 보았다"), ("차표가 좋다", "기차가 늦게 떠났다")]
    classify = pipeline("text-classification", model=load_model(folder), tokenizer=load_tokenizer(folder))
    for (first, second), ours in zip(
        pairs, Checkpoint.load(folder).predict([f"{a}\t{b}" for a, b in pairs]), strict=True
    ):
        [theirs] = classify([{"text": first, "text_pair": second}], top_k=None)
        assert (ours["text"], ours["text_pair"]) == (first, second)
        assert ours["scores"] == pytest.approx({one["label"]: one["score"] for one in theirs}, abs=2e-4)


def test_texts_that_do_not_fit_the_head_are_refused(run_dir: Path, tiny: Any, kobert: Any) -> None:
    assert "--pair" in kobert("predict", run_dir / "publish" / "nli", "글 하나").complaint
    with pytest.raises(UserError, match=r"separated by a tab, but '하나.t둘.t셋'"):
        Checkpoint.load(run_dir / "publish" / "sts").predict(["하나\t둘", "하나\t둘\t셋"])
    for folder in (run_dir / "publish" / "own", tiny.run_dir / "publish" / "korquad"):
        with pytest.raises(UserError, match="does not compare texts; leave --pair out"):
            Checkpoint.load(folder).predict(["글"], pair="다른 글")


def test_the_loss_of_a_regression_is_the_mean_squared_error(run_dir: Path) -> None:
    features, task = Features.load(run_dir / "features" / "sts" / "train"), Task.choose("sts")
    model = build(task, run_dir / "pretrain" / "model", False, FinetunePlan(dropout=0.0), 48)
    for batch_size in (1, 8):
        batch = Batches(features, task.targets(features), batch_size, seed=1).batch(0, 0, 1)
        assert batch["labels"].dtype == torch.float32
        loss, _ = TaskModule(model.eval())(batch)
        inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "attention_mask")}
        expected = (model(**inputs).logits[:, 0] - batch["labels"]).square().mean()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("features.sts.task=stz", "did you mean 'sts'"),
        ("features.own.task.metrik=mcc", "unknown key 'metrik' - did you mean 'metric'"),
        ("features.own.task.labels=[말]", "features.own.task.labels"),
        ("features.nli.task={name: nli, text_piar: b}", "did you mean 'text_pair'"),
    ],
)
def test_a_wrong_option_in_a_recipe_is_named_with_its_place(
    setting: Any, said: Any, run_dir: Path, kobert: Any
) -> None:
    complaint = kobert("check", run_dir.parents[1] / "tiny.yaml", "--set", setting).complaint
    assert said in complaint and "features." in complaint
