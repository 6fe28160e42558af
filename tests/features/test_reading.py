"""What task files must look like, and which examples are left out."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from kobert_pipeline.errors import UserError, UserErrors
from kobert_pipeline.features.options import FeaturesOptions
from kobert_pipeline.features.splits import split
from kobert_pipeline.features.task import Task

CONTEXT = "수도는 서울이다. 제2의 도시는 부산이다."


def squad(path: Path, *questions: dict[str, Any]) -> Path:
    path.write_text(
        json.dumps({"data": [{"paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}]}), encoding="utf-8"
    )
    return path


def question(**changes: Any) -> dict[str, Any]:
    return {"id": "q-1", "question": "수도는?", "answers": [{"text": "서울", "answer_start": 4}], **changes}


def test_questions_keep_their_answers_with_raw_characters(tmp_path: Path) -> None:
    two = [{"text": "부산", "answer_start": 18}, {"text": "이", "answer_start": 6}]
    first, second = Task.choose("korquad").read(
        squad(tmp_path / "qa.json", question(), question(id="q-2", answers=two))
    )
    assert first["answers"] == [["서울", 4]] and first["group"] == first["context"]
    assert second["answers"] == [["부산", 18], ["이", 6]] and second["id"] == "q-2"


def test_silver_questions_on_articles_of_the_korquad_dev_set_are_left_out(tmp_path: Path) -> None:
    rows = [
        question(id="kept"),
        question(id="out", title_in_korquad1_dev=True),
        question(id="kept too", title_in_korquad1_dev=False),
    ]
    assert [example["id"] for example in Task.choose("korquad").read(squad(tmp_path / "qa.json", *rows))] == [
        "kept",
        "kept too",
    ]


def reviews(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_reviews_keep_their_labels_and_empty_ones_stay(tmp_path: Path) -> None:
    examples = Task.choose("nsmc").read(
        reviews(tmp_path / "r.txt", "id\tdocument\tlabel", "1\t재미 있다\t1", "2\t\t0", "3\t재미있다\t1")
    )
    assert [(example["text"], example["label"]) for example in examples] == [("재미 있다", 1), ("", 0), ("재미있다", 1)]
    assert examples[0]["group"] == examples[2]["group"], "reviews equal but for white space are one group"


def test_empty_reviews_are_not_trained_on_but_counted(tmp_path: Path) -> None:
    lines = [f"{i}\t{i}번째 글\t{i % 2}" for i in range(40)]
    for name, change in (("train.txt", "글"), ("dev.txt", "다른 글")):
        texts = [line.replace("글", change) for line in lines]
        reviews(tmp_path / name, "id\tdocument\tlabel", *texts, "40\t\t0", "41\t  \t1")
    splits, counts = split(FeaturesOptions(task="nsmc", train="train.txt", dev="dev.txt"), tmp_path)
    assert counts == {"train_examples_read": 42, "train_examples_in_dev": 0, "train_examples_without_text": 2}
    assert [len(splits[name]) for name in ("train", "dev")] == [40, 42], "the official test set counts empty reviews"


def test_reviews_are_read_from_parquet_as_datasets_writes_them(tmp_path: Path) -> None:
    columns = {"id": ["7", "8"], "document": ['"재미있다"', None], "label": [1, 0]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "nsmc.parquet")
    examples = Task.choose("nsmc").read(tmp_path / "nsmc.parquet")
    assert [(example["id"], example["text"], example["label"]) for example in examples] == [
        ("7", '"재미있다"', 1),
        ("8", "", 0),
    ]


@pytest.mark.parametrize("label", ["2", "", "positive", "-1", "1.5"])
def test_another_label_is_refused_with_its_line(tmp_path: Path, label: str) -> None:
    path = reviews(tmp_path / "r.txt", "id\tdocument\tlabel", "1\t좋다\t1", f"2\t나쁘다\t{label}")
    with pytest.raises(UserError, match=r"r\.txt, line 3: .*allowed"):
        Task.choose("nsmc").read(path)


def test_an_unknown_task_is_refused_with_a_guess() -> None:
    with pytest.raises(Exception, match="did you mean 'korquad'"):
        Task.choose("korqaud")


@pytest.mark.parametrize("task", ["korquad", "mrc", "span"])
def test_all_wrong_questions_of_a_file_are_named_at_once(task: str, tmp_path: Path) -> None:
    """A wrong start, a missing question, an id that is taken and an entry that is no question."""
    wrong = [question(id="a", answers=[{"text": "서울", "answer_start": 5}]), {"id": "b", "answers": []}]
    path = squad(tmp_path / "qa.json", question(), *wrong, question(id="c"), question(id="q-1"), "질문")  # type: ignore
    with pytest.raises(UserErrors) as caught:
        Task.choose(task).read(path)
    places = [sentence.split(", ")[1].split(":")[0] for sentence in caught.value.sentences]
    assert places == ["question a", "question b", "question q-1", f"question 6 of the context {CONTEXT[:20]!r}"]
