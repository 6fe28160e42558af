"""Texts to predict from tables: the columns are those of training files, and no label is needed."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.tasks.nsmc import Nsmc
from kobert_pipeline.inference.table_fields import table_examples

FOLDER = Path("model")
REVIEWS = 'id,document,review\n1,"좋다, 정말",가\n2,"두\n줄",나\n'
PAIRS = "sentence1\tsentence2\n비가 온다\t눈이 온다\n"
QUESTIONS = "question,context,day\n누가?,민수가 갔다,월\n"


def read(place: Path, name: str, content: str, task: Any, *columns: str, **given: str) -> list[dict[str, Any]]:
    (place / name).write_text(content, encoding="utf-8")
    chosen = task and Task.choose(task)
    more = (given.get("question"), given.get("pair"))
    return [example for _, example in table_examples(FOLDER, chosen, place / name, list(columns), *more)]


def test_columns_are_named_recognized_or_those_of_the_training_files(tmp_path: Path) -> None:
    known = [{"text": "좋다, 정말", "label": 0}, {"text": "두\n줄", "label": 0}]
    other = [{"text": "가", "label": 0}, {"text": "나", "label": 0}]
    assert read(tmp_path, "a.csv", REVIEWS, "nsmc") == known
    assert read(tmp_path, "a.csv", REVIEWS, "classification") == known
    assert read(tmp_path, "a.csv", REVIEWS, "nsmc", "review") == other
    trained = {"name": "classification", "text": "review"}
    assert read(tmp_path, "a.csv", REVIEWS, trained) == other
    assert read(tmp_path, "a.csv", REVIEWS, trained | {"text": "comment"}) == known
    assert read(tmp_path, "a.csv", REVIEWS, trained, "document") == known


def test_every_kind_of_task_gets_its_fields(tmp_path: Path) -> None:
    first = {"text": "비가 온다", "label": 0}
    assert read(tmp_path, "a.tsv", PAIRS, "sts") == [first | {"text_pair": "눈이 온다"}]
    assert read(tmp_path, "a.tsv", PAIRS, "nli", "sentence2", "sentence1") == [
        {"text": "눈이 온다", "text_pair": "비가 온다", "label": 0}
    ]
    assert read(tmp_path, "a.tsv", PAIRS, "pair", pair="해가 떴다") == [first | {"text_pair": "해가 떴다"}]
    for task in ("korquad", "span"):
        asked = {"context": "민수가 갔다", "question": "누가?", "answers": []}
        assert read(tmp_path, "a.csv", QUESTIONS, task) == [asked]
        assert read(tmp_path, "a.csv", QUESTIONS, task, question="언제?") == [asked | {"question": "언제?"}]
        assert read(tmp_path, "a.csv", QUESTIONS, task, "context", "day") == [asked | {"question": "월"}]
    assert read(tmp_path, "a.jsonl", json.dumps({"sentence": "가", "id": 1}), "ner") == [{"text": "가", "entities": []}]
    assert read(tmp_path, "a.json", '[{"text": "[MASK]"}]', None) == [{"text": "[MASK]"}]


def test_nsmc_s_own_files_are_read_as_in_training(tmp_path: Path) -> None:
    content = 'id\tdocument\tlabel\n1\t"""""""결혼은"""" 현실"\t1\n2\t"""정말"" 좋다"\t1\n3\t좋다\t0\n'
    found = read(tmp_path, "a.txt", content, "nsmc")
    assert [example["text"] for example in found] == [one["text"] for one in Nsmc().read(tmp_path / "a.txt")]
    assert found[1]["text"] == '"정말" 좋다'
    assert read(tmp_path, "a.tsv", content, "classification")[1]["text"] == '"""정말"" 좋다"'


def test_questions_are_read_from_a_file_in_squad_form(tmp_path: Path) -> None:
    paragraph = {
        "context": "민수가 갔다",
        "qas": [{"id": 1, "question": "누가?", "answers": []}, {"id": 2, "question": "왜?"}],
    }
    content = json.dumps({"data": [{"paragraphs": [paragraph]}]})
    for task in ("korquad", "span"):
        found = read(tmp_path, "a.json", content, task)
        assert found == [{"context": "민수가 갔다", "question": asked, "answers": []} for asked in ("누가?", "왜?")]
    with pytest.raises(UserError, match=r"question 2: there is no 'question' - did you mean"):
        read(tmp_path, "a.json", content.replace('"question": "\\uc65c', '"quest": "\\uc65c'), "korquad")


WRONG = [
    ("a.csv", REVIEWS, "nsmc", ["documnt"],
     r"no column 'documnt' - did you mean 'document'\?.*; name the column with --column; the first line of"),
    ("a.csv", "id,글\n1,가\n", "nsmc", [],
     r"no column is the text of the task nsmc \(known are text, sentence, document; found were id, 글\); "
     r"name it with --column; the first line of the file must hold the names of the columns: delete what is above "
     r"them, or add them$"),
    ("a.tsv", PAIRS, "nsmc", ["sentence1", "sentence2"], "model reads text; name no more columns"),
    ("a.csv", "document\n", "nsmc", [], r"a\.csv has no rows; add some"),
    ("a.jsonl", '{"text": [3]}', "classification", [], r"a\.jsonl, line 1: the column 'text' holds list, text was"),
    ("a.csv", "text,choice1,choice2\n가,나,다\n", "choice", [], "model chooses between candidates; give each text"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "task", "columns", "message"), WRONG)
def test_a_table_that_does_not_fit_is_refused(
    tmp_path: Path, name: str, content: str, task: str, columns: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(tmp_path, name, content, task, *columns)


def test_rows_have_their_number_and_the_id_that_training_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("번호,id,text\n가,1,좋다\n,,\n나,2,싫다\n", encoding="utf-8")
    task = Task.choose({"name": "classification", "id": "번호"})
    found = [place for place, _ in table_examples(FOLDER, task, tmp_path / "a.csv", [], None, None)]
    assert found == [{"row": 1, "id": "가"}, {"row": 3, "id": "나"}]
    other = Task.choose({"name": "classification", "id": "수"})
    found = [place for place, _ in table_examples(FOLDER, other, tmp_path / "a.csv", [], None, None)]
    assert found == [{"row": 1, "id": "1"}, {"row": 3, "id": "2"}]


def test_an_id_of_any_type_is_printed_as_json(tmp_path: Path) -> None:
    table = pyarrow.table({"id": [date(2026, 1, 2), None], "text": ["가", None]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    found = list(table_examples(FOLDER, Task.choose("classification"), tmp_path / "a.parquet", [], None, None))
    assert [place for place, _ in found] == [{"row": 1, "id": "2026-01-02"}, {"row": 2, "id": None}]
    assert found[1][1]["text"] == ""
