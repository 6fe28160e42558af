"""The task re by the command: trained, published with its markers, and used by predict, evaluate, the server and plain
`transformers`; and a model that is trained further from it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoTokenizer, pipeline

from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.model import build
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.loading import load_model, load_tokenizer
from kobert_pipeline.serve.model import ServedModel

NAMES, PLACES = ["민수", "영희", "지호", "서연", "하늘"], ["부산", "강릉", "서울", "춘천"]
FORMS = [
    ("{}는 {}에서 태어났다.", "출생지"),
    ("{}는 {}에 가게를 열었다.", "일터"),
    ("{}는 {}에 가 본 적이 없다.", "없음"),
]
MARKERS = [
    "[SUBJ:LOC]",
    "[/SUBJ:LOC]",
    "[SUBJ:PER]",
    "[/SUBJ:PER]",
    "[OBJ:LOC]",
    "[/OBJ:LOC]",
    "[OBJ:PER]",
    "[/OBJ:PER]",
]


def row(name: str, place: str, form: str, label: str) -> dict[str, Any]:
    text, start = form.format(name, place), form.index("{", 1) + len(name) - 2
    subject = {"word": name, "start_idx": 0, "end_idx": len(name) - 1, "type": "PER"}
    object_ = {"word": place, "start_idx": start, "end_idx": start + len(place) - 1, "type": "LOC"}
    return {
        "guid": f"{name}{place}{label}",
        "sentence": text,
        "subject_entity": subject,
        "object_entity": object_,
        "label": label,
    }


ROWS = [row(name, place, *form) for name in NAMES for place in PLACES for form in FORMS]


@pytest.fixture(scope="module")
def run_dir(tiny: Any, kobert: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("relations")
    for name, rows in (("train.json", ROWS[:45]), ("test.json", ROWS[45:])):
        (place / name).write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    task = {"name": "re", "no_relation": "없음"}
    relations = {"task": task, "train": "train.json", "test": "test.json", "dev_share": 0.3, "max_length": 48}
    topics = {"task": {"name": "classification"}, "train": "train.json", "dev_share": 0.3, "max_length": 48}
    content = {
        "checkpoint": str(tiny.run_dir / "publish/mlm"), "data_dir": str(place),
        "features": {"rel": relations | {"license": "CC0-1.0"}, "topic": topics | {"license": "CC0-1.0"}},
        "finetune": {"rel": {"plan": {"epochs": 20, "batch_size": 8, "learning_rate": 5e-3}},
                     "topic": {"init": "rel", "plan": {"epochs": 1, "batch_size": 8}}},
        "publish": {"rel": {"source": "rel"}, "topic": {"source": "topic", "onnx": False}},
    }  # fmt: skip
    (place / "rel.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    result = kobert("run", place / "rel.yaml", "--run-dir", place / "runs" / "rel")
    assert result.code == 0, result.err
    return place / "runs" / "rel"


def test_it_is_learned_and_scored_as_klue_does(run_dir: Path, tiny: Any) -> None:
    counts = tiny.manifests(run_dir)["finetune/rel/1"]["counts"]
    assert list(counts["test"]) == list(counts["dev"]) == ["micro_f1", "auprc", "accuracy"]
    assert counts["dev"]["micro_f1"] > 70
    predictions = (run_dir / "finetune/rel/1/predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert {type(json.loads(line)["prediction"]) for line in predictions} == {int}


def test_the_published_tokenizers_have_the_markers_and_the_embeddings_grew_by_them(run_dir: Path, tiny: Any) -> None:
    folder, before = run_dir / "publish/rel", load_tokenizer(tiny.run_dir / "publish/mlm")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["task_specific_params"]["re"]["added_tokens"] == MARKERS
    assert config["vocab_size"] == len(before) + len(MARKERS)
    plain = AutoTokenizer.from_pretrained(folder / "plain")
    for tokenizer in (load_tokenizer(folder), plain):
        assert tokenizer.convert_tokens_to_ids(MARKERS) == list(range(len(before), len(before) + len(MARKERS)))
        tokens = tokenizer.tokenize("[SUBJ:PER]민수[/SUBJ:PER]")
        assert [tokens[0], tokens[-1]] == MARKERS[2:4]
    later = json.loads((run_dir / "publish/topic/config.json").read_text(encoding="utf-8"))
    assert later["vocab_size"] == config["vocab_size"] == len(load_tokenizer(run_dir / "publish/topic"))


def test_predictions_are_the_same_by_python_command_table_server_run_and_transformers(
    run_dir: Path, kobert: Any, tmp_path: Path
) -> None:
    folder = run_dir / "publish/rel"
    text = "[SUBJ:PER]나라[/SUBJ:PER]는 [OBJ:LOC]강릉[/OBJ:LOC]에서 태어났다."
    expected = Checkpoint.load(folder).predict(text)
    assert list(expected) == ["text", "label", "scores"] and expected["text"] == text
    assert json.loads(kobert("predict", folder, text, "--json").out) == expected
    new = row("나라", "강릉", *FORMS[0])
    table = [{key: new[key] for key in ("sentence", "subject_entity", "object_entity")}]
    (tmp_path / "new.json").write_text(json.dumps(table), encoding="utf-8")
    of_row = json.loads(kobert("predict", folder, "--in", tmp_path / "new.json", "--json").out)
    assert of_row == {"row": 1} | expected
    served = ServedModel("rel", str(folder))
    assert served.predict([served.example(text)]) == [expected]
    assert served.marked_example == "[SUBJ:PER]민수[/SUBJ:PER]는 [OBJ:LOC]부산[/OBJ:LOC]에서 태어났다."
    in_run = Checkpoint.load(run_dir / "finetune/rel/1/model", run_dir / "checkpoint/tokenizer")
    assert in_run.predict(text) == expected
    by_onnx = Checkpoint.load(folder, backend="onnx").predict(text)
    assert by_onnx["scores"] == pytest.approx(expected["scores"], abs=2e-4)
    classify = pipeline("text-classification", model=load_model(folder), tokenizer=load_tokenizer(folder), top_k=None)
    theirs = {one["label"]: one["score"] for one in classify([text])[0]}
    assert expected["scores"] == pytest.approx(theirs, abs=2e-4)
    assert "does not mark one subject and one object" in kobert("predict", folder, "나라는 강릉에 있다").complaint
    assert 'classify("[SUBJ:PER]민수[/SUBJ:PER]는' in (folder / "README.md").read_text(encoding="utf-8")


def test_evaluate_gives_the_scores_of_the_test_and_the_wrong_rows(run_dir: Path, kobert: Any, tiny: Any) -> None:
    report = kobert("evaluate", run_dir / "publish/rel", run_dir.parents[1] / "test.json", "--errors", "--json").json
    known = tiny.manifests(run_dir)["finetune/rel/1"]["counts"]["test"]
    assert report["clean"]["scores"] == pytest.approx(known, abs=0.01)
    assert len(report["wrong_labels"]) == round(report["clean"]["examples"] * (1 - known["accuracy"] / 100))


@pytest.mark.parametrize(("types", "size"), [(["가"], 4), (["가", "나", "다", "라"], 16)])
def test_markers_of_an_earlier_fine_tuning_give_way_to_those_of_the_task(
    types: list[str], size: int, run_dir: Path
) -> None:
    task, earlier = (
        Task.choose({"name": "re", "labels": ["출생지", "없음"], "types": types}),
        run_dir / "finetune/rel/1/model",
    )
    vocab_size = len(load_tokenizer(run_dir / "checkpoint/tokenizer"))
    model = build(task, earlier, False, FinetunePlan(), 48, vocab_size=vocab_size + size)
    assert model.get_input_embeddings().num_embeddings == model.config.vocab_size == vocab_size + size
    assert model.config.task_specific_params["re"]["added_tokens"] == list(task.added_tokens)
