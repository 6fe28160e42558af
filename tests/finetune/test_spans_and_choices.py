"""Questions without an answer, the user's own questions and choices end to end: one run by the command, and its
published folders."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml

import kobert_pipeline as kobert
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, read_json_lines
from kobert_pipeline.finetune.model import logits
from kobert_pipeline.finetune.model import predict as predict_features
from kobert_pipeline.inference.loading import load_model, load_tokenizer

PEOPLE = ["민수", "영희", "철수", "순이", "지훈", "수빈", "하준", "서연"]
TOWNS = ["부산", "대구", "광주", "대전", "울산", "수원", "춘천", "전주"]
WHERE, WHEN = "그 사람은 어디에서 살았나?", "언제 태어났는지 말하라"
"""Every text says where; none says when."""


def asked(number: int, rng: random.Random) -> dict[str, Any]:
    """A question that its text answers, or (every second) one that it doesn't, in KLUE's form."""
    person, town = rng.choice(PEOPLE), rng.choice(TOWNS)
    context = f"{person} 이야기 {number}번. 그 사람은 {town} 바닷가에서 살았다."
    answer = {"text": town, "answer_start": context.index(town)}
    question = {
        "guid": f"q-{number}",
        "question": WHEN if number % 2 else WHERE,
        "is_impossible": bool(number % 2),
        "answers": [answer],
    }
    return {
        "context": context,
        "qas": [question | ({"answers": [], "plausible_answers": [answer]} if number % 2 else {})],
    }


def chosen(number: int, rng: random.Random) -> dict[str, Any]:
    """Three candidates, one of which is about rain."""
    wet = [f"{rng.choice(TOWNS)}에 비가 내렸다", f"{rng.choice(PEOPLE)}는 노래했다", f"{rng.choice(PEOPLE)}는 노래했다"]
    order = rng.sample(range(3), 3)
    return {"story": f"{number}번째 이야기", "ends": [wet[i] for i in order], "right": order.index(0)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, corpora: Path) -> Path:
    """The bundled corpora with files of the three tasks."""
    folder, rng = tmp_path_factory.mktemp("data"), random.Random(0)
    (folder / "documents").symlink_to(corpora / "documents")
    for name in ("reviews_test.txt", "qa_dev.json"):
        (folder / name).symlink_to(corpora / name)
    for name, numbers in {"train": range(200), "test": range(200, 230)}.items():
        paragraphs = [asked(number, rng) for number in numbers]
        content = {"data": [{"title": "사람들", "paragraphs": paragraphs}]}
        (folder / f"mrc_{name}.json").write_text(json.dumps(content), encoding="utf-8")
        rows = ["which,ask,page,found,at"]
        for paragraph in paragraphs:
            [question] = paragraph["qas"]
            text, start = [*question["answers"][0].values()] if question["answers"] else ["", ""]
            rows.append(f"{question['guid']},{question['question']},{paragraph['context']},{text},{start}")
        (folder / f"own_{name}.csv").write_text("\n".join(rows), encoding="utf-8")
        choices = "".join(json.dumps(chosen(number, rng)) + "\n" for number in numbers)
        (folder / f"choice_{name}.jsonl").write_text(choices, encoding="utf-8")
    return folder


OWN = {"name": "span", "id": "which", "question": "ask", "context": "page", "answer": "found", "start": "at"}
CHOICE = {"name": "choice", "text": "story", "choices": "ends", "label": "right"}
TASKS = {"mrc": ("mrc", "mrc_{}.json"), "own": (OWN, "own_{}.csv"), "choice": (CHOICE, "choice_{}.jsonl")}
PLANS = {"mrc": {"epochs": 12}, "own": {"epochs": 1}, "choice": {"epochs": 3}}


@pytest.fixture(scope="module")
def run_dir(data: Path, tiny: Any, kobert: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with the three tasks, two of them published."""
    place = tmp_path_factory.mktemp("spans")
    run_dir = tiny.copy(place / "runs" / "tiny", "corpus", "analysis", "tokenizer", "shards", "pretrain")
    content = yaml.safe_load(tiny.recipe.read_text(encoding="utf-8")) | {"data_dir": str(data)}
    content["features"] = {
        name: {
            "task": task,
            "train": file.format("train"),
            "test": file.format("test"),
            "dev_share": 0.2,
            "max_length": 48,
        }
        for name, (task, file) in TASKS.items()
    }
    content["finetune"] = {
        name: {"plan": {"batch_size": 16, "learning_rate": 5e-3, **plan}} for name, plan in PLANS.items()
    }
    content["publish"] = {name: {"source": name, "onnx": False} for name in ("mrc", "choice")}
    (place / "tiny.yaml").write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf-8")
    result = kobert("run", place / "tiny.yaml", "--run-dir", run_dir)
    assert result.code == 0, result.err
    return run_dir


def counts(run_dir: Path, name: str) -> dict[str, Any]:
    return read_json(run_dir / "finetune" / name / "1" / "manifest.json")["counts"]


def test_spans_and_their_absence_are_learned(run_dir: Path) -> None:
    test = counts(run_dir, "mrc")["test"]
    of_parts = ["HasAns_exact", "HasAns_f1", "NoAns_exact", "NoAns_f1"]
    assert list(test) == ["exact_match", "f1", *of_parts, "klue_exact_match", "rouge_w"]
    assert test["NoAns_exact"] > 90 and test["HasAns_f1"] > 90
    predictions = read_json_lines(run_dir / "finetune" / "mrc" / "1" / "predictions.jsonl")
    assert sum(row["prediction"] == "" for row in predictions) > 12


def saved(run_dir: Path, name: str) -> tuple[Task, Any]:
    task = Task.choose(read_json(run_dir / "features" / name / "task.json")["task"])
    return task, getattr(transformers, task.auto_class).from_pretrained(
        run_dir / "finetune" / name / "1" / "model"
    ).eval()


@pytest.mark.parametrize("name", ["mrc", "own"])
def test_the_threshold_is_the_best_on_dev_kept_with_the_model_and_used_for_the_test_set(
    name: Any, run_dir: Path
) -> None:
    task, model = saved(run_dir, name)
    dev, test = (Features.load(run_dir / "features" / name / split) for split in ("dev", "test"))
    kept = model.config.task_specific_params[task.name]["null_threshold"]
    found = logits(model, dev, 16, "cpu")
    margins = [
        none - best[0]
        for none, best in zip(_nulls(found, dev).values(), task.best_spans(found, dev).values(), strict=True)
    ]
    tried = {
        threshold: task.score(
            task.with_inference_state({"null_threshold": threshold}).predict(found, dev), dev.examples
        )["f1"]
        for threshold in [kept, min(margins) - 1, *margins]
    }
    assert tried[kept] == max(tried.values()) == pytest.approx(counts(run_dir, name)["dev"]["f1"], abs=1e-4), name
    tested = predict_features(model, task.with_inference_state({"null_threshold": kept}), test, "cpu", batch_size=16)
    assert tested.scores == pytest.approx(counts(run_dir, name)["test"], abs=1e-3), name
    assert [
        row["prediction"] for row in read_json_lines(run_dir / "finetune" / name / "1" / "predictions.jsonl")
    ] == tested.predictions, name
    assert model.config.task_specific_params[task.name]["null_threshold"] == kept, "the test set settles nothing"


def _nulls(found: dict[str, Any], features: Features) -> dict[int, float]:
    """By hand: each example has one window here."""
    assert len(features) == len(features.examples)
    return {
        i: float(start[0] + end[0])
        for i, (start, end) in enumerate(zip(found["start_logits"], found["end_logits"], strict=True))
    }


@pytest.mark.parametrize("split", ("train", "dev", "test"))
def test_a_table_of_ones_own_makes_the_features_that_klue_s_form_makes(split: Any, run_dir: Path) -> None:
    ours, klue = (Features.load(run_dir / "features" / name / split) for name in ("own", "mrc"))
    assert ours.examples == klue.examples
    assert all((ours.arrays[name] == array).all() for name, array in klue.arrays.items())


def test_a_published_model_leaves_questions_unanswered_by_its_threshold(run_dir: Path) -> None:
    folder = run_dir / "publish" / "mrc"
    threshold = read_json(folder / "config.json")["task_specific_params"]["mrc"]["null_threshold"]
    rng = random.Random(9)
    contexts = [asked(number, rng)["context"] for number in range(300, 312)]
    empty = 0
    for question in (WHERE, WHEN):
        for found, context in zip(kobert.load(folder).predict(contexts, question), contexts, strict=True):
            unanswered = found["null_score"] - found["score"] > threshold
            assert (found["answer"] == "") is unanswered
            assert found["answer"] == context[found["start"] : found["end"]]
            empty += unanswered and question == WHEN
    assert empty > 9
    assert kobert.load(folder).predict([""], WHERE)[0]["answer"] == ""


def test_a_question_answering_model_of_answerable_questions_is_used_as_before(tiny: Any) -> None:
    folder = tiny.run_dir / "publish" / "korquad"
    assert read_json(folder / "config.json")["task_specific_params"] == {"korquad": {"max_length": 256, "stride": 64}}
    assert kobert.load(folder).predict(["한글은 세종대왕이 만들었다."], "누가?")[0].keys() == {
        "question",
        "answer",
        "start",
        "end",
        "score",
        "probability",
    }


def test_choices_are_learned(run_dir: Path) -> None:
    made = counts(run_dir, "choice")
    assert made["test"]["accuracy"] > 90 and list(made["test"]) == ["accuracy", "macro_f1"]
    test = Features.load(run_dir / "features" / "choice" / "test")
    rows = read_json_lines(run_dir / "finetune" / "choice" / "1" / "predictions.jsonl")
    right = [row["prediction"] == example["label"] for row, example in zip(rows, test.examples, strict=True)]
    assert 100 * sum(right) / len(right) == pytest.approx(made["test"]["accuracy"], abs=1e-3)


def test_a_published_model_chooses_between_candidates_parted_by_tabs(run_dir: Path, kobert: Any) -> None:
    folder = run_dir / "publish" / "choice"
    story, ends = "77번째 이야기", ["민수는 노래했다", "순이는 노래했다", "대구에 비가 내렸다", "철수는 노래했다"]
    result = kobert("predict", folder, "\t".join([story, *ends]), "\t".join([story, *reversed(ends)]), "--json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [(one["text"], one["number"], one["choice"]) for one in found] == [(story, 2, ends[2]), (story, 1, ends[2])]
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    inputs = tokenizer([story] * 4, ends, return_tensors="pt", padding=True)
    with torch.no_grad():
        expected = model(**{name: tensor[None] for name, tensor in inputs.items()}).logits[0].softmax(-1)
    assert found[0]["scores"] == pytest.approx(expected.tolist(), abs=2e-4)
    assert "separated by tabs" in kobert("predict", folder, f"{story}\t{ends[0]}").complaint
    assert "does not compare texts" in kobert("predict", folder, story, "--pair", story).complaint
    assert "does not answer questions" in kobert("predict", folder, story, "--question", "왜?").complaint


def test_the_lines_that_the_card_of_choices_shows_run(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_dir / "publish" / "choice"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(card.split("---\n")[1])["pipeline_tag"] == "multiple-choice"
    code = card.split("```python\n")[1].split("```")[0].replace("PATH/TO/THIS/FOLDER", str(folder))
    exec(compile(code, "card", "exec"), {})
    assert capsys.readouterr().out.strip() in code
