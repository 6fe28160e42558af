"""`evaluate` on models of tasks that the tiny run lacks: labels come from the model, and scores that mean nothing for a
task are left out."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.errors import UserError
from kobert_pipeline.evaluation.evaluate import evaluate, refuse_unexplained
from kobert_pipeline.evaluation.noise import Noise, noisy_fields
from kobert_pipeline.evaluation.report import markdown
from kobert_pipeline.evaluation.wrong_labels import write_csv
from kobert_pipeline.features.task import Task
from kobert_pipeline.finetune.model import build
from kobert_pipeline.finetune.plan import FinetunePlan
from kobert_pipeline.inference.checkpoint import Checkpoint
from kobert_pipeline.inference.loading import load_tokenizer
from kobert_pipeline.inference.task_of_checkpoint import for_model

MADE = {"tagging": {"name": "tagging", "labels": ["사람", "곳"]}}
"""{task: options} of the models that need more than the name."""


@pytest.fixture(scope="module")
def model(tiny: Any) -> Callable[[str], Any]:
    def made(name: str) -> Any:
        return build(
            Task.choose(MADE.get(name, {"name": name})), tiny.run_dir / "pretrain" / "model", False, FinetunePlan(), 64
        )

    return made


@pytest.fixture
def figures(tiny: Any, model: Callable, tmp_path: Path) -> Callable:
    def found(
        name: str, text: str, noises: list[Noise] | None = None, file: str = "file.json", explain: bool = False
    ) -> dict[str, Any]:
        head = model(name)
        tokenizer = load_tokenizer(tiny.run_dir / "tokenizer")
        tokenizer.model_max_length = 64
        checkpoint = Checkpoint(tmp_path, head, tokenizer).for_task(name)
        (tmp_path / file).write_text(text, encoding="utf-8")
        return evaluate(checkpoint, tmp_path / file, noises or [], [], explain, report=lambda _: None) | {
            "checkpoint": name
        }

    return found


def tagged(kind: str) -> str:
    return json.dumps({"text": "민수가 부산에 갔다", "entities": [{"start": 4, "end": 6, "label": kind}]}) + "\n"


def test_types_of_entities_are_those_of_the_model(model: Callable, figures: Callable) -> None:
    head = model("tagging")
    assert for_model(Task.choose("tagging"), head).labels == ["사람", "곳"]  # type: ignore[attr-defined]
    found = figures("tagging", tagged("곳"), file="file.jsonl")
    assert found["task"]["labels"] == ["사람", "곳"]
    assert [(row["label"], row["support"]) for row in found["classification_report"]["classes"]] == [
        ("사람", 0),
        ("곳", 1),
    ]
    for labels in (["사람"], ["사람", "곳", "때"]):
        with pytest.raises(UserError, match="the checkpoint's labels are O, B-사람"):
            for_model(Task.choose({"name": "tagging", "labels": labels}), head)
    with pytest.raises(UserError, match="'때'; allowed are 사람, 곳"):
        figures("tagging", tagged("때"), file="file.jsonl")


def test_choices_are_evaluated_and_take_no_noise(model: Callable, figures: Callable) -> None:
    found = figures("choice", "text,choice1,choice2,label\n비가 온다.,우산을 폈다.,썰매를 탔다.,0\n", file="file.csv")
    assert found["clean"]["scores"]["accuracy"] in (0.0, 100.0)
    assert "classification_report" not in found
    with pytest.raises(UserError, match="choice is neither, leave --noise out"):
        noisy_fields(for_model(Task.choose("choice"), model("choice")), [])


def test_numbers_that_a_model_gives_are_not_counted_as_changed(figures: Callable) -> None:
    text = "sentence1\tsentence2\tscore\n비가 온다\t눈이 온다\t2.5\n가게에 갔다\t집에 갔다\t1\n"
    found = figures("sts", text, [Noise("spaces-removed", 1.0, 1)], "file.tsv")
    assert "classification_report" not in found, "a score is no class"
    assert "predictions_changed" not in found["noise"]["conditions"][0]
    assert "predictions changed" not in markdown(found)


def test_wrong_labels_of_pairs_have_both_texts_and_numbers_have_none(figures: Callable, tmp_path: Path) -> None:
    text = "sentence1\tsentence2\tlabel\n비가 온다\t눈이 온다\t0\n비가 온다\t눈이 온다\t1\n"
    wrong = figures("pair", text, file="pairs.tsv", explain=True)["wrong_labels"]
    assert [list(row) for row in wrong] == [["id", "text", "text_pair", "label", "predicted", "probability"]]
    assert (wrong[0]["text"], wrong[0]["text_pair"]) == ("비가 온다", "눈이 온다")
    write_csv(tmp_path / "corrected.errors.csv", wrong, paired=True)
    [again] = Task.choose("pair").read(tmp_path / "corrected.errors.csv")
    assert (again["text"], again["text_pair"]) == ("비가 온다", "눈이 온다")
    assert ("different", "same")[again["label"]] == wrong[0]["label"]
    with pytest.raises(UserError, match="--errors is for tasks that label texts or answer questions from them; sts"):
        figures("sts", "sentence1\tsentence2\tscore\n비가 온다\t눈이 온다\t2.5\n", file="scores.tsv", explain=True)


@pytest.mark.parametrize(
    ("answers", "ending"),
    [
        (["부산", "서울"], "at best."),
        (["부산", None], "at best of the questions with an answer."),
        ([None, None], None),
    ],
)
def test_the_best_exact_match_is_of_questions_with_an_answer(answers: Any, ending: Any, figures: Callable) -> None:
    context = "민수가 부산에 갔다. 영희는 서울에 있다."
    questions = [
        {
            "id": str(number),
            "question": "어디에?",
            "is_impossible": answer is None,
            "answers": [{"text": answer, "answer_start": context.index(answer)}] if answer else [],
        }
        for number, answer in enumerate(answers)
    ]
    text = json.dumps({"data": [{"title": "", "paragraphs": [{"context": context, "qas": questions}]}]})
    found = figures("mrc", text, [Noise("spaces-removed", 1.0, 1)])
    page = markdown(found)
    rows = [found["clean"], found["noise"]["conditions"][0]]
    if ending is None:
        assert not any("ceiling_exact_match" in row for row in rows), (answers, ending)
        assert "best" not in page, (answers, ending)
    else:
        assert all(row["examples_with_answer"] == np.count_nonzero(answers) for row in rows), (answers, ending)
        assert f"{ending}\n" in page, (answers, ending)
        assert ("allow of the questions with an answer." in page) is (None in answers), (answers, ending)


@pytest.mark.parametrize(("name", "is_explained"), [("nsmc", True), ("span", True), ("contrastive", False)])
def test_errors_are_explained_only_of_labels_and_answers(name: str, is_explained: bool) -> None:
    with nullcontext() if is_explained else pytest.raises(UserError, match=f"--errors is for .*; {name} does neither"):
        refuse_unexplained(Task.choose(name))
